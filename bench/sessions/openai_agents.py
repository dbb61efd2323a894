"""The peer ``SQLiteSession`` of openai-agents, at the two levels of durability that we have too."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.harness import Run

from .homes import sample_message

DISTRIBUTION = "openai-agents"


def open_session(file: Path, synchronous: str) -> Any:
    """A session in ``file``. It sets WAL itself and leaves SQLite at ``synchronous = full``.

    :raises ImportError: if openai-agents is not installed.
    """
    peer: Any = import_module("agents.memory").SQLiteSession

    class Session(peer):  # type: ignore[misc]
        @staticmethod
        def _configure_connection(connection: Any) -> None:
            peer._configure_connection(connection)
            connection.execute(f"pragma synchronous = {synchronous}")

    return Session("main", file)


def appends(session: Any, batch: int = 1) -> Run:
    """Runs that append ``batch`` messages a call."""
    message = sample_message()

    async def run(count: int) -> None:
        for _ in range(count):
            await session.add_items([message] * batch)

    return run


def appends_of_many(session: Any, callers: int) -> Run:
    """Runs in which ``callers`` tasks append one message each, and all are waited for."""
    message = sample_message()

    async def run(count: int) -> None:
        for _ in range(count):
            await asyncio.gather(*(session.add_items([message]) for _ in range(callers)))

    return run
