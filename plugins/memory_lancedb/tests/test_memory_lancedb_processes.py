"""Several processes in one folder, processes that are killed, and what many writes leave behind."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hermitcrab_memory_lancedb import upkeep as upkeep_module
from hermitcrab_memory_lancedb.locking import alone
from hermitcrab_memory_lancedb.upkeep import Upkeep

_CHILD = """
import asyncio, json, logging, sys
from pathlib import Path
from hermitcrab.memory import MemoryContext
from hermitcrab.testing.hashed_embeddings import HashedEmbeddings
from hermitcrab_memory_lancedb import create

home, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

async def main():
    backend = create(MemoryContext(
        agent_id="main", workspace=home / "workspace", home=home, index_path=home / "index",
        logger=logging.getLogger("child"), embeddings=HashedEmbeddings(),
    ))
    for number in range(count):
        memory = await backend.long_term.add(f"{name} memory{number}")
        print(json.dumps(memory.id), flush=True)
        if number % 10 == 0:
            note = home / "workspace" / "memory" / f"{name}-{number}.md"
            note.write_text(f"- {name} note{number}\\n")
            await backend.sync("test")
    await backend.close()

asyncio.run(main())
"""


@contextmanager
def _child(home: Path, name: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """A process that adds so many memories and says each id once it is kept; killed at the end if it still runs."""
    (home / "workspace" / "memory").mkdir(parents=True, exist_ok=True)
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(home), name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait(60)
        assert child.stdout is not None
        child.stdout.close()


async def test_two_processes_write_one_folder_and_nothing_is_missing(shelf: Any) -> None:
    backend = shelf.open()
    with _child(shelf.home, "first", 30) as first, _child(shelf.home, "second", 30) as second:
        outputs = await asyncio.gather(
            *(asyncio.to_thread(child.communicate, timeout=60) for child in (first, second))
        )
        assert (first.returncode, second.returncode) == (0, 0)
    ids = {json.loads(line) for output, _ in outputs for line in output.splitlines()}
    assert len(ids) == 60
    assert {memory.id for memory in await backend.long_term.listed(limit=200)} == ids
    assert (await backend.sync("test")).indexed == 0
    status = await backend.status()
    assert (status.files, status.chunks) == (6, 6)
    for name in ("first", "second"):
        hits = (await backend.search(f"{name} note20", max_results=1)).hits
        assert hits[0].path == f"memory/{name}-20.md"
        (best,) = await backend.long_term.nearest(f"{name} memory29", limit=1)
        assert best.text == f"{name} memory29"


async def test_a_table_is_made_by_one_process_at_a_time(shelf: Any) -> None:
    """LanceDB lets the second of two that make one table replace it, rows included."""
    folder = shelf.home / "memory" / "lancedb"
    opened = shelf.open()
    first, second = opened.long_term, shelf.open().long_term
    # LanceDB is imported and connected, so that only the lock stands between a memory and its table.
    assert (await opened.probe()).ok
    async with alone(folder, "tables"):
        waiting = asyncio.create_task(first.add("the walnut tree"))
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        assert not done
        assert not (folder / "memories.lance").exists()
    added = {(await waiting).id, (await second.add("the quince tree")).id}
    assert {memory.id for memory in await second.listed(limit=9)} == added


async def test_what_was_acknowledged_survives_a_kill(shelf: Any) -> None:
    with _child(shelf.home, "killed", 10_000) as child:
        assert child.stdout is not None
        acknowledged = [
            json.loads(await asyncio.to_thread(child.stdout.readline)) for _ in range(23)
        ]
        child.send_signal(signal.SIGKILL)
        child.wait(30)
    backend = shelf.open()
    for memory_id in acknowledged:
        assert await backend.long_term.get(memory_id) is not None
    found = (await backend.long_term.recall("killed memory7")).memories
    assert found[0].text == "killed memory7"
    await backend.sync("test")
    assert (await backend.search("note10")).hits[0].path == "memory/killed-10.md"


async def test_a_lock_of_a_process_that_died_is_free(shelf: Any) -> None:
    script = (
        "import sys, time; from filelock import FileLock\n"
        "lock = FileLock(sys.argv[1], thread_local=False); lock.acquire()\n"
        "print('held', flush=True); time.sleep(60)"
    )
    folder = shelf.home / "memory" / "lancedb"
    folder.mkdir(parents=True)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(folder / ".files.lock"), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        assert await child.stdout.readline() == b"held\n"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), alone(folder, "files"):
                pass
    finally:
        child.kill()
        await child.wait()
    async with asyncio.timeout(30), alone(folder, "files"):
        pass


@pytest.mark.filterwarnings("ignore:optimize.cleanup_older_than=0:UserWarning")
async def test_versions_do_not_pile_up_and_everything_is_still_found(shelf: Any) -> None:
    upkeep = Upkeep(logging.getLogger("hermitcrab.testing"), versions_between=10, kept=timedelta(0))
    store = shelf.open(upkeep=upkeep).long_term
    for number in range(45):
        await store.add(f"memory{number}")
        await upkeep.settled()
    table = await store._memories.opened()
    assert len(await table.list_versions()) < 15
    assert (await table.stats())["fragment_stats"]["num_fragments"] < 15
    report = upkeep.report()
    assert (report["runs"] >= 3, report["running"], "lastError" in report) == (True, False, False)
    for number in (0, 20, 44):
        found = (await store.recall(f"memory{number}")).memories
        assert found[0].text == f"memory{number}"
        assert (await store.nearest(f"memory{number}", limit=1))[0].text == f"memory{number}"


async def test_short_processes_tidy_too(shelf: Any) -> None:
    """Each process writes less than it takes, all of them together more."""
    for number in range(4):
        upkeep = Upkeep(logging.getLogger("hermitcrab.testing"), versions_between=5)
        store = shelf.open(upkeep=upkeep).long_term
        for part in range(3):
            await store.add(f"memory{number} {part}")
        await upkeep.settled()
        runs = upkeep.report()["runs"]
        await shelf.close()
        if runs:
            return
    pytest.fail("twelve writes in four processes, and none of them tidied")


async def test_upkeep_that_fails_is_tried_again_said_and_disturbs_nobody(
    shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Contested:
        """A table that another process is faster to write, so many times."""

        def __init__(self, failures: int) -> None:
            self.failures = failures

        async def optimize(self, **_: Any) -> None:
            self.failures -= 1
            if self.failures >= 0:
                raise RuntimeError("another process was faster")

        async def count_rows(self) -> int:
            return 1

    monkeypatch.setattr(upkeep_module, "_PAUSE_S", 0)
    upkeep = Upkeep(logging.getLogger("hermitcrab.testing"), versions_between=2)
    upkeep.written("memories", Contested(99), 2)  # type: ignore[arg-type]
    await upkeep.settled()
    report = upkeep.report()
    assert (report["runs"], report["lastError"]) == (0, "memories: another process was faster")
    upkeep.written("memories", Contested(2), 3)  # type: ignore[arg-type]
    await upkeep.settled()
    assert (upkeep.report()["runs"], "lastError" in upkeep.report()) == (1, False)
    await upkeep.close()


async def test_many_rows_at_once_are_in_the_index_of_words_when_upkeep_is_done(shelf: Any) -> None:
    """Rows that no index has are searched one by one: with ten thousand of them a search takes half a second."""
    shelf.write("MEMORY.md", "".join(f"- entry{number}\n\n" for number in range(700)))
    backend = shelf.open(without_embeddings=True)
    await backend.sync("test")
    await backend._upkeep.settled()
    table = await backend._table.database.existing("passages")
    (index,) = await table.list_indices()
    assert (await table.index_stats(index.name)).num_unindexed_rows == 0


async def test_the_engine_of_lancedb_writes_nothing_to_the_error_output(shelf: Any) -> None:
    """A write that is tried again is no news for whoever looks at the terminal."""
    script = _CHILD.replace(
        "await backend.close()", "await asyncio.gather(*storm(backend))"
    ).replace(
        "async def main():",
        "def storm(backend):\n"
        "    table = backend.long_term._memories.database._tables['memories']\n"
        "    for number in range(5):\n"
        "        yield backend.long_term.add(f'storm{number}')\n"
        "        yield table.optimize()\n"
        "        yield backend.long_term.add('again', memory_id='0b9f6a52-6f0e-4f6c-9d59-7b7a3c1c2d10')\n\n"
        "async def main():",
    )
    (shelf.workspace() / "memory").mkdir()
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(shelf.home), "storm", "3"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await child.communicate()
    assert b"WARN" not in errors
