"""A home in a folder, with the notes of its agents and the backends that a test opens over them."""

from __future__ import annotations

import inspect
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from hermitcrab.memory.contract import EmbeddingProvider, MemoryBackend, MemoryContext
from hermitcrab.testing.hashed_embeddings import HashedEmbeddings

#: The agent that is meant where none is named.
MAIN = "main"

#: What stands in the workspace of the main agent when a test begins.
NOTES = {
    "MEMORY.md": "# Decisions\n\n- The staging database listens on port 5433.\n- Tea, not coffee.\n",
    "memory/2026-03-01.md": "# 2026-03-01\n\n- Ana repaired the printer in the cellar.\n",
    "memory/topics/games.md": "# 游戏\n\n- 一起玩成语接龙吧\n- 今天天气很好\n",
    "memory/topics/releases.md": (
        "# Releases\n\n- feature/login-page went out with build 4f2a-9c.1\n"
        "- the flag app.cache.ttl-seconds is 90\n"
    ),
}


class MemoryHome:
    """``make_backend`` turns a context into a backend, or an awaitable of one; what is opened is closed in the end."""

    def __init__(self, folder: Path, make_backend: Callable[[MemoryContext], Any]) -> None:
        self.folder = folder
        self.embeddings = HashedEmbeddings()
        self._make_backend = make_backend
        self._opened: list[MemoryBackend] = []
        self._written_at = time.time() - 3600

    def workspace(self, agent_id: str = MAIN) -> Path:
        """The folder of an agent's notes."""
        workspace = self.folder / ("workspace" if agent_id == MAIN else f"workspace-{agent_id}")
        workspace.mkdir(parents=True, exist_ok=True)
        return workspace

    def write(self, path: str, text: str, *, agent_id: str = MAIN) -> None:
        """Write a note, whether it is there or not; it looks as if that had been a while ago.

        A backend may look twice at what was written a moment ago.
        """
        file = self.workspace(agent_id) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        self._written_at += 1
        os.utime(file, (self._written_at, self._written_at))

    def remove(self, path: str) -> None:
        """Delete a note of the main agent."""
        (self.workspace() / path).unlink()

    async def open(
        self,
        agent_id: str = MAIN,
        *,
        embeddings: EmbeddingProvider | None = None,
        embeddings_problem: str | None = None,
        keyword_only: bool = False,
    ) -> MemoryBackend:
        """A new backend of an agent over this home; with :attr:`embeddings` unless it is to have others or none."""
        folder = self.folder / "agents" / agent_id
        folder.mkdir(parents=True, exist_ok=True)
        wanted = None if keyword_only else embeddings or self.embeddings
        context = MemoryContext(
            agent_id=agent_id,
            workspace=self.workspace(agent_id),
            home=self.folder,
            index_path=folder / "memory.sqlite",
            logger=logging.getLogger("hermitcrab.testing"),
            embeddings=wanted,
            embeddings_problem=embeddings_problem,
        )
        made = self._make_backend(context)
        backend: MemoryBackend = await made if inspect.isawaitable(made) else made
        self._opened.append(backend)
        return backend

    def skip_without_vectors(self) -> None:
        """Skip the test if no backend has asked for a vector so far."""
        if self.embeddings.texts == 0:
            pytest.skip("this backend asks no embedding provider (vectors are optional)")

    async def close(self) -> None:
        """Close every backend, the last one first."""
        while self._opened:
            await self._opened.pop().close()


class MemoryHomeTests:
    """What tests over a home share: how to make a backend, the home, and a backend that knows its notes."""

    def make_backend(self, context: MemoryContext) -> Any:
        """A new backend of ``context.agent_id``, or an awaitable of one."""
        raise NotImplementedError(
            "a contract test says how to make the backend: def make_backend(self, context)"
        )

    @pytest_asyncio.fixture
    async def memory_home(self, tmp_path: Path) -> AsyncIterator[MemoryHome]:
        """A home with notes."""
        home = MemoryHome(tmp_path / "home", self.make_backend)
        for path, text in NOTES.items():
            home.write(path, text)
        yield home
        await home.close()

    @pytest_asyncio.fixture
    async def backend(self, memory_home: MemoryHome) -> MemoryBackend:
        """A backend over the notes, which it has indexed."""
        backend = await memory_home.open()
        assert isinstance(backend, MemoryBackend), "subclass hermitcrab.memory's class"
        await backend.sync("contract")
        return backend


async def paths_of(backend: MemoryBackend, query: str) -> list[str]:
    """The files that have a hit with a word of ``query``, each once, in order."""
    hits = (await backend.search(query, max_results=20)).hits
    words = query.lower().split()
    found = [hit.path for hit in hits if any(word in hit.snippet.lower() for word in words)]
    return list(dict.fromkeys(found))
