"""What the tests of memory-lancedb share: real folders of LanceDB and backends over them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.memory import EmbeddingProvider, MemoryContext
from hermitcrab.testing.hashed_embeddings import HashedEmbeddings
from hermitcrab_memory_lancedb.backend import MemoryLanceDb


class Shelf:
    """A home; every backend that is opened over it is closed in the end."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.embeddings = HashedEmbeddings()
        self._opened: list[MemoryLanceDb] = []
        self._written_at = time.time() - 3600

    def workspace(self, agent_id: str = "main") -> Path:
        """The folder of an agent's notes."""
        folder = self.home / ("workspace" if agent_id == "main" else f"workspace-{agent_id}")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write(self, path: str, text: str, *, agent_id: str = "main") -> Path:
        """Write a note as if that had been a while ago."""
        file = self.workspace(agent_id) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        self._written_at += 1
        os.utime(file, (self._written_at, self._written_at))
        return file

    def open(
        self,
        agent_id: str = "main",
        *,
        embeddings: EmbeddingProvider | None = None,
        without_embeddings: bool = False,
        config: Any = None,
        **how: Any,
    ) -> MemoryLanceDb:
        """A backend; with the shelf's embeddings unless it is to have others or none."""
        context = MemoryContext(
            agent_id=agent_id,
            workspace=self.workspace(agent_id),
            home=self.home,
            index_path=self.home / "agents" / agent_id / "memory.sqlite",
            logger=logging.getLogger("hermitcrab.testing"),
            plugin_config=config,
            embeddings=None if without_embeddings else embeddings or self.embeddings,
        )
        backend = MemoryLanceDb(context, **how)
        self._opened.append(backend)
        return backend

    async def close(self) -> None:
        """Close what is open."""
        while self._opened:
            await self._opened.pop().close()


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Shelf]:
    """An empty home."""
    shelf = Shelf(tmp_path / "home")
    yield shelf
    await shelf.close()
