"""The memory keeps the contract of memory backends, and its index may be lost."""

from __future__ import annotations

import logging
from pathlib import Path

from hermitcrab.memory import MemoryContext
from hermitcrab.testing import MemoryBackendContract
from hermitcrab_notes_memory import NotesMemory


class TestContract(MemoryBackendContract):
    def make_backend(self, context: MemoryContext) -> NotesMemory:
        return NotesMemory(context)


async def test_an_index_that_is_damaged_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("The port is 5433.\n", encoding="utf-8")
    context = MemoryContext(
        agent_id="main",
        workspace=tmp_path,
        home=tmp_path,
        index_path=tmp_path / "agents" / "memory.sqlite",
        logger=logging.getLogger("test"),
    )
    memory = NotesMemory(context)
    assert (await memory.search("port")).hits
    (tmp_path / "agents" / "memory.json").write_text("{half", encoding="utf-8")
    assert (await memory.status()).dirty
    (hit,) = (await memory.search("port")).hits
    assert "5433" in hit.snippet
