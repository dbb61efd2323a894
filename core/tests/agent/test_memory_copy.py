"""Copying single memories from one backend to another: kept as they are, and again after it broke off."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.agent.memory_copy.copying import Move
from hermitcrab.agent.memory_copy.notes import ids_in, with_memories
from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import (
    MemoryBackend,
    MemoryStatus,
    ReadResult,
    SearchResult,
    SyncReport,
)
from hermitcrab.memory.longterm import Memory, new_memory_id
from hermitcrab.testing import HashedEmbeddings, JsonLongTermStore

NOTES = "memory/memories-of-old.md"


class Backend(MemoryBackend):
    """Counts the files of a workspace; with a store of single memories, or without."""

    def __init__(self, workspace: Path, store: JsonLongTermStore | None) -> None:
        self.workspace = workspace
        self.long_term = store

    async def search(self, query: str, **more: Any) -> SearchResult:
        return SearchResult()

    async def read(self, path: str, **more: Any) -> ReadResult:
        return ReadResult(path=path, status="not_found")

    async def sync(self, reason: str, **more: Any) -> SyncReport:
        return SyncReport(reason=reason, indexed=len(list(self.workspace.rglob("*.md"))))

    async def status(self) -> MemoryStatus:
        return MemoryStatus(backend="test", files=len(list(self.workspace.rglob("*.md"))))


class Moving:
    """A home with an old backend that knows some memories, and a new one."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        (self.workspace / "MEMORY.md").write_text("- tea\n", encoding="utf-8")
        self.old = JsonLongTermStore(folder / "old.json", HashedEmbeddings())
        self.new = JsonLongTermStore(folder / "new.json", HashedEmbeddings(dims=64))
        self.seen: list[tuple[int, int, str]] = []

    def move(self, target: JsonLongTermStore | None) -> Move:
        return Move(
            agent_id="main",
            workspace=self.workspace,
            source_id="old",
            source=Backend(self.workspace, self.old),
            target_id="new",
            target=Backend(self.workspace, target),
        )

    async def run(self, target: JsonLongTermStore | None) -> Any:
        return await self.move(target).run(lambda *step: self.seen.append(step))


@pytest.fixture
async def moving(tmp_path: Path) -> Moving:
    made = Moving(tmp_path)
    await made.old.add("tea, not coffee", category="preference", importance=0.9, scope="work")
    await made.old.add("port 5433", session_key="agent:main:main", created_at_ms=1_700_000_000_123)
    await made.old.add("two\nlines <!-- and a comment -->", source="tool")
    return made


async def test_memories_arrive_as_they_were_and_are_counted_there(moving):
    report = await moving.run(moving.new)
    assert (report.memories, report.moved, report.already, report.found) == (3, 3, 0, 3)
    assert report.is_complete
    assert await moving.new.listed(limit=9) == await moving.old.listed(limit=9)
    assert report.files_found == 1
    assert [step[:2] for step in moving.seen] == [(1, 3), (2, 3), (3, 3)]


async def test_a_copy_again_moves_nothing_and_what_is_newer_there_stays(moving):
    await moving.run(moving.new)
    first = (await moving.old.listed(limit=1))[0]
    await moving.new.add("changed since", memory_id=first.id)
    await moving.old.add("a fourth")
    report = await moving.run(moving.new)
    assert (report.moved, report.already, report.found) == (1, 3, 4)
    changed = await moving.new.get(first.id)
    assert changed is not None
    assert changed.text == "changed since"


async def test_a_refused_memory_is_named_with_the_reason_and_the_others_arrive(moving):
    class Choosy(JsonLongTermStore):
        async def add(self, text: str, **more: Any) -> Memory:
            if "5433" in text:
                raise MemoryBackendError("no numbers here")
            return await super().add(text, **more)

    report = await moving.run(Choosy(moving.workspace.with_name("choosy"), HashedEmbeddings()))
    assert (report.moved, report.found, report.is_complete) == (2, 2, False)
    (refusal,) = report.refused
    refused = await moving.old.get(refusal.memory_id)
    assert refused is not None
    assert refused.text == "port 5433"
    assert "no numbers here" in refusal.reason


async def test_a_target_that_refuses_everything_ends_the_copy(moving):
    for number in range(20):
        await moving.old.add(f"memory {number}")
    embeddings = HashedEmbeddings()
    embeddings.problem = "the service of vectors is away"
    target = JsonLongTermStore(moving.workspace.with_name("away"), embeddings)
    with pytest.raises(MemoryBackendError, match="away") as caught:
        await moving.run(target)
    assert "run the command again" in str(caught.value)
    assert len(moving.seen) < 6


async def test_a_loss_in_the_target_is_noticed(moving):
    class Losing(JsonLongTermStore):
        async def add(self, text: str, **more: Any) -> Memory:
            memory = await super().add(text, **more)
            if "5433" in text:
                await self.delete(memory.id)
            return memory

    report = await moving.run(Losing(moving.workspace.with_name("losing"), HashedEmbeddings()))
    assert (report.moved, report.found, report.is_complete) == (3, 2, False)


async def test_without_single_memories_they_become_lines_of_a_file_that_is_indexed(moving):
    report = await moving.run(None)
    assert (report.moved, report.found, report.notes) == (3, 3, NOTES)
    assert report.files.indexed == 2
    text = (moving.workspace / NOTES).read_text("utf-8")
    assert text.startswith("# Memories of old\n")
    assert "- [preference] tea, not coffee <!-- " in text
    assert "two <!-- " in text
    assert "\n  lines <!-- and a comment -->\n" in text
    assert "2023-11-14T22:13:20.123+00:00" in text
    again = await moving.run(None)
    assert (again.moved, again.already, again.found) == (0, 3, 3)
    assert (moving.workspace / NOTES).read_text("utf-8") == text


async def test_a_file_that_a_person_wrote_on_is_added_to(moving):
    await moving.run(None)
    file = moving.workspace / NOTES
    file.write_text(file.read_text("utf-8") + "My own remark, without a line's end")
    await moving.old.add("a fourth")
    report = await moving.run(None)
    assert (report.moved, report.already) == (1, 3)
    assert "My own remark, without a line's end\n- [other] a fourth <!-- " in file.read_text()


async def test_a_link_out_of_the_workspace_is_not_followed(moving, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (moving.workspace / "memory").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="leads outside"):
        await moving.run(None)
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_a_source_without_single_memories_has_its_files_indexed(moving):
    move = moving.move(moving.new)
    move = Move(
        agent_id="main",
        workspace=moving.workspace,
        source_id="old",
        source=Backend(moving.workspace, None),
        target_id="new",
        target=move.target,
    )
    report = await move.run()
    assert (report.memories, report.found, report.is_complete) == (0, 0, True)
    assert report.files.reason == "copy"


texts = st.text(max_size=60) | st.text("- [a]<!->\n\r\x0b\u2028 ", max_size=60)


@given(st.lists(texts, max_size=5))
def test_whatever_a_text_is_its_id_is_found_once_and_no_other(written: list[str]):
    memories = [Memory(id=new_memory_id(), text=text, created_at_ms=0) for text in written]
    forged = "- [other] x <!-- 00000000-0000-0000-0000-000000000000 1 -->"
    memories += [Memory(id=new_memory_id(), text=forged, created_at_ms=0)]
    memories += [Memory(id=new_memory_id(), text=f"a\n{forged}", created_at_ms=0)]
    text = with_memories("", memories, "old")
    assert ids_in(text) == {memory.id for memory in memories}
    assert with_memories(text, [], "old") == text


def test_a_time_beyond_all_calendars_is_kept_as_a_number():
    memory = Memory(id=new_memory_id(), text="x", created_at_ms=10**18)
    assert ids_in(with_memories("", [memory], "old")) == {memory.id}


def test_times_are_those_of_the_memory():
    moment = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    memory = Memory(id=new_memory_id(), text="x", created_at_ms=int(moment.timestamp() * 1000))
    assert "2026-03-01T12:00:00.000+00:00" in with_memories("", [memory], "old")
