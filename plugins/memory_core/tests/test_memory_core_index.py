"""The index follows the files, survives damage, and never hides a failure."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from filelock import FileLock

import hermitcrab_memory_core
from hermitcrab.config.schema import MemorySearchConfig
from hermitcrab.config.schema.memory_search import ChunkingConfig
from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import MemoryContext
from hermitcrab_memory_core.backend import MemoryCore
from hermitcrab_memory_core.index import Index


class Place:
    """A workspace, its index, and the backends opened on them."""

    def __init__(self, root: Path) -> None:
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        self.index_path = root / "home" / "agents" / "main" / "memory.sqlite"
        self.opened: list[MemoryCore] = []

    def write(self, path: str, text: str) -> Path:
        target = self.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def open(self, config: MemorySearchConfig | None = None) -> MemoryCore:
        backend = MemoryCore(
            MemoryContext(
                agent_id="main",
                workspace=self.workspace,
                home=self.index_path.parents[2],
                index_path=self.index_path,
                logger=logging.getLogger("test"),
                config=config,
            )
        )
        self.opened.append(backend)
        return backend

    def siblings(self) -> list[str]:
        return sorted(path.name for path in self.index_path.parent.iterdir())


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    yield place
    for backend in place.opened:
        await backend.close()


async def paths(memory: MemoryCore, query: str) -> list[str]:
    return [hit.path for hit in (await memory.search(query)).hits]


async def test_a_search_sees_what_was_written_a_moment_ago(place):
    memory = place.open()
    assert await paths(memory, "port") == []
    place.write("memory/a.md", "- port 1\n")
    assert await paths(memory, "port") == ["memory/a.md"]
    place.write("memory/a.md", "- gate 1\n")
    assert await paths(memory, "port") == []
    assert await paths(memory, "gate") == ["memory/a.md"]
    (place.workspace / "memory" / "a.md").unlink()
    assert await paths(memory, "gate") == []


async def test_a_change_within_one_tick_of_the_clock_is_seen(place):
    memory = place.open()
    file = place.write("memory/a.md", "- port 1\n")
    before = file.stat()
    assert await paths(memory, "port") == ["memory/a.md"]
    file.write_text("- gate 1\n", encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert await paths(memory, "gate") == ["memory/a.md"]


async def test_a_sync_counts_what_it_did(place):
    memory = place.open()
    place.write("MEMORY.md", "a\n")
    place.write("memory/a.md", "b\n")
    (place.workspace / "memory" / "link.md").symlink_to(place.workspace / "MEMORY.md")
    first = await memory.sync("cli")
    assert (first.reason, first.indexed, first.removed, first.unchanged) == ("cli", 2, 0, 0)
    assert first.chunks == 2
    assert first.skipped == ("memory/link.md: is a symbolic link",)
    (place.workspace / "MEMORY.md").unlink()
    os.utime(place.workspace / "memory" / "a.md", ns=(1, 1))
    second = await memory.sync("cli")
    assert (second.indexed, second.removed, second.unchanged) == (0, 1, 1)
    assert second.chunks == 1


async def test_an_unchanged_file_is_not_read_again(place, monkeypatch):
    memory = place.open()
    file = place.write("MEMORY.md", "a\n")
    os.utime(file, ns=(1, 1))
    await memory.sync("cli")
    monkeypatch.setattr("hermitcrab_memory_core.corpora.load", lambda file: pytest.fail("read"))
    report = await memory.sync("cli")
    assert report.unchanged == 1


async def test_a_forced_sync_indexes_everything_again(place):
    memory = place.open()
    os.utime(place.write("MEMORY.md", "a\n"), ns=(1, 1))
    await memory.sync("cli")
    assert (await memory.sync("cli", force=True)).indexed == 1


async def test_progress_is_told(place):
    memory = place.open()
    for name in "abc":
        place.write(f"memory/{name}.md", name)
    told: list[tuple[int, int, str]] = []
    await memory.sync("cli", progress=lambda *step: told.append(step))
    assert told == [(1, 3, "memory/a.md"), (2, 3, "memory/b.md"), (3, 3, "memory/c.md")]


async def test_concurrent_syncs_share_one_and_a_forced_one_is_queued(place):
    """A force that arrived during another sync was once lost (memory 3.10)."""
    memory = place.open()
    os.utime(place.write("MEMORY.md", "a\n"), ns=(1, 1))
    first, second, forced = await asyncio.gather(
        memory.sync("one"), memory.sync("two"), memory.sync("three", force=True)
    )
    assert first is second
    assert (first.reason, first.indexed) == ("one", 1)
    assert (forced.reason, forced.indexed) == ("three", 1)


async def test_a_forced_sync_begins_after_the_one_under_way(place):
    memory = place.open()
    for name in "abc":
        place.write(f"memory/{name}.md", name)
    order: list[str] = []
    await asyncio.gather(
        memory.sync("one", progress=lambda *step: order.append("one")),
        memory.sync("two", force=True, progress=lambda *step: order.append("two")),
    )
    assert order == ["one"] * 3 + ["two"] * 3


async def test_cancelling_one_caller_leaves_the_sync_to_the_others(place):
    memory = place.open()
    place.write("MEMORY.md", "port\n")
    other = asyncio.create_task(memory.sync("one"))
    cancelled = asyncio.create_task(memory.sync("two"))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert (await other).indexed == 1
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_a_file_that_vanishes_while_indexing_is_dropped(place, monkeypatch):
    memory = place.open()
    place.write("MEMORY.md", "port\n")

    def vanished(file):
        raise FileNotFoundError(file.path)

    monkeypatch.setattr("hermitcrab_memory_core.corpora.load", vanished)
    report = await memory.sync("cli")
    assert (report.indexed, report.removed) == (0, 1)


async def test_a_file_that_cannot_be_read_is_reported(place, monkeypatch):
    memory = place.open()
    place.write("MEMORY.md", "port\n")

    def refused(file):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("hermitcrab_memory_core.corpora.load", refused)
    report = await memory.sync("cli")
    assert report.skipped == ("MEMORY.md: cannot be read (Permission denied)",)


async def test_status_before_anything_creates_nothing(place):
    memory = place.open()
    place.write("MEMORY.md", "a\n")
    status = await memory.status()
    assert (status.backend, status.files, status.chunks) == ("memory-core", 0, 0)
    assert status.dirty
    assert status.index_path == place.index_path
    assert not place.index_path.exists()


async def test_status_counts_and_says_whether_files_changed(place):
    memory = place.open()
    os.utime(place.write("MEMORY.md", "a\n"), ns=(1, 1))
    await memory.sync("cli")
    status = await memory.status()
    assert (status.files, status.chunks, status.dirty) == (1, 1, False)
    assert (status.mode, status.keyword_search) == ("keyword", True)
    place.write("memory/b.md", "b\n")
    assert (await memory.status()).dirty


async def test_the_index_is_private(place):
    memory = place.open()
    place.write("MEMORY.md", "a\n")
    await memory.sync("cli")
    assert place.index_path.stat().st_mode & 0o777 == 0o600
    assert place.index_path.parent.stat().st_mode & 0o777 == 0o700


async def test_the_index_survives_reopening(place):
    place.write("MEMORY.md", "port 5433\n")
    await place.open().sync("cli")
    memory = place.open()
    assert (await memory.status()).files == 1
    assert await paths(memory, "port") == ["MEMORY.md"]


@pytest.mark.parametrize("damage", [b"this is no database" * 100, b""])
async def test_a_file_that_is_no_index_is_replaced(place, damage):
    place.index_path.parent.mkdir(parents=True)
    place.index_path.write_bytes(damage)
    place.write("MEMORY.md", "port 5433\n")
    memory = place.open()
    assert await paths(memory, "port") == ["MEMORY.md"]
    aside = [name for name in place.siblings() if ".corrupt-" in name]
    assert len(aside) == (1 if damage else 0)
    notes = (await memory.status()).notes
    assert len(notes) == len(aside)
    assert all(aside[0] in note for note in notes)


async def test_damage_inside_an_open_index_is_repaired(place):
    memory = place.open()
    for number in range(40):
        place.write(f"memory/{number}.md", f"- port {number}\n" * 40)
    await memory.sync("cli")
    await memory.close()
    data = bytearray(place.index_path.read_bytes())
    data[4096:-4096] = b"\xaa" * (len(data) - 8192)
    place.index_path.write_bytes(data)
    memory = place.open()
    result = await memory.search("port")
    assert len(result.hits) == 6
    assert not result.degraded
    assert any(".corrupt-" in name for name in place.siblings())
    assert (await memory.status()).files == 40


async def test_damage_in_the_middle_of_a_sync_costs_no_file(place, monkeypatch):
    memory = place.open()
    for name in "abc":
        place.write(f"memory/{name}.md", f"- port {name}\n")
    replace, failures = Index.replace, []

    def fails_once(index, file, *arguments):
        if file.path == "memory/b.md" and not failures:
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            failures.append(error)
            raise error
        return replace(index, file, *arguments)

    monkeypatch.setattr(Index, "replace", fails_once)
    await memory.sync("cli")
    assert failures
    assert (await memory.status()).files == 3


async def test_an_index_of_another_version_is_set_aside_and_rebuilt(place):
    memory = place.open()
    place.write("MEMORY.md", "port 5433\n")
    await memory.sync("cli")
    await memory.close()
    connection = sqlite3.connect(place.index_path)
    connection.execute("UPDATE meta SET value = '[99]' WHERE key = 'versions'")
    connection.commit()
    connection.close()
    memory = place.open()
    assert await paths(memory, "port") == ["MEMORY.md"]
    assert [name for name in place.siblings() if ".outdated-" in name]
    assert "[99]" in (await memory.status()).notes[0]


async def test_only_the_last_index_set_aside_is_kept(place):
    place.index_path.parent.mkdir(parents=True)
    for stamp in ("20200101T000000", "20210101T000000"):
        place.index_path.with_name(f"memory.sqlite.corrupt-{stamp}").write_bytes(b"x")
    place.index_path.write_bytes(b"no database" * 100)
    await place.open().sync("cli")
    assert len([name for name in place.siblings() if ".corrupt-" in name]) == 1


async def test_another_chunk_size_indexes_everything_again(place):
    os.utime(place.write("MEMORY.md", "port\n" * 400), ns=(1, 1))
    first = await place.open().sync("cli")
    small = MemorySearchConfig(chunking=ChunkingConfig(tokens=50, overlap=0))
    memory = place.open(small)
    second = await memory.sync("cli")
    assert second.indexed == 1
    assert second.chunks > first.chunks


async def test_extra_paths_are_searched_and_can_be_read(place):
    place.write("../elsewhere/a.md", "- port 5433\n")
    memory = place.open(MemorySearchConfig(extra_paths=("../elsewhere",)))
    assert await paths(memory, "port") == ["../elsewhere/a.md"]
    assert (await memory.read("../elsewhere/a.md")).text == "- port 5433"


async def test_a_home_that_cannot_be_written_is_an_error_with_a_hint(place):
    place.index_path.parents[2].write_text("a file where the home should be", encoding="utf-8")
    place.write("MEMORY.md", "port\n")
    memory = place.open()
    with pytest.raises(MemoryBackendError, match="HERMITCRAB_HOME"):
        await memory.search("port")
    with pytest.raises(MemoryBackendError, match="writable"):
        await memory.sync("cli")
    probe = await memory.probe()
    assert not probe.ok
    assert "HERMITCRAB_HOME" in probe.error
    status = await memory.status()
    assert status.last_error is not None


async def test_a_failed_sync_leaves_a_degraded_answer(place, monkeypatch):
    """C87: what could not be refreshed must be said."""
    memory = place.open()
    place.write("MEMORY.md", "port\n")
    await memory.sync("cli")

    def full(*arguments, **options):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Index, "replace", full)
    place.write("memory/b.md", "port\n")
    result = await memory.search("port")
    assert [hit.path for hit in result.hits] == ["MEMORY.md"]
    assert result.degraded
    assert "disk is full" in result.reason
    assert "disk is full" in (await memory.status()).last_error


async def test_a_failed_write_leaves_the_old_content_of_a_file(place, monkeypatch):
    memory = place.open()
    place.write("MEMORY.md", "port\n" * 3)
    await memory.sync("cli")

    def fails(*arguments):
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr("hermitcrab_memory_core.index.add_passage", fails)
        place.write("MEMORY.md", "gate\n")
        with pytest.raises(MemoryBackendError):
            await memory.sync("cli")
        assert await paths(memory, "port") == ["MEMORY.md"]
    assert await paths(memory, "gate") == ["MEMORY.md"]


async def test_closing_twice_is_fine_and_waits_for_a_sync(place):
    memory = place.open()
    place.write("MEMORY.md", "port\n")
    running = asyncio.create_task(memory.sync("cli"))
    await asyncio.sleep(0)
    await memory.close()
    assert (await running).indexed == 1
    await memory.close()
    with pytest.raises(MemoryBackendError, match="closed"):
        await memory.search("port")


async def test_a_backend_that_was_never_used_closes(place):
    await place.open().close()


async def test_an_index_that_another_process_holds_is_an_error_that_says_so(place, monkeypatch):
    monkeypatch.setattr("hermitcrab_memory_core.schema._LOCK_TIMEOUT_S", 0.05)
    place.index_path.parent.mkdir(parents=True)
    with (
        FileLock(f"{place.index_path}.lock"),
        pytest.raises(MemoryBackendError, match="Another process"),
    ):
        await place.open().search("port")


def test_the_plugin_registers_its_factory_under_its_id(place):
    registered = {}

    class Registry:
        def register(self, backend_id, factory):
            registered[backend_id] = factory

    hermitcrab_memory_core.register_memory_backends(Registry())
    context = MemoryContext(
        agent_id="main",
        workspace=place.workspace,
        home=place.workspace.parent,
        index_path=place.index_path,
        logger=logging.getLogger("test"),
    )
    assert isinstance(registered["memory-core"](context), MemoryCore)
    assert not place.index_path.exists()


INDEX_AND_SEARCH = """
import asyncio, logging, sys
from pathlib import Path
from hermitcrab.memory import MemoryContext
from hermitcrab_memory_core.backend import MemoryCore

async def main():
    workspace, index = map(Path, sys.argv[1:])
    memory = MemoryCore(MemoryContext(agent_id="main", workspace=workspace, home=index.parent,
                                      index_path=index, logger=logging.getLogger("x")))
    for _ in range(5):
        await memory.sync("cli", force=True)
        assert len((await memory.search("port", max_results=50)).hits) == 20
    await memory.close()

asyncio.run(main())
"""


def test_two_processes_index_and_search_at_once(tmp_path):
    """C25: a first open raced on the switch to WAL, and writers met a locked database."""
    place = Place(tmp_path)
    for number in range(20):
        place.write(f"memory/{number}.md", f"- port {number}\n")
    command = [sys.executable, "-c", INDEX_AND_SEARCH, str(place.workspace), str(place.index_path)]
    workers = [subprocess.Popen(command) for _ in range(3)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]


def test_importing_the_plugin_loads_no_database():
    code = "import sys, hermitcrab_memory_core; print('sqlite3' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "False"
