"""What users lost to locks: left behind, recycled, held too long, taken in vain (sessions 9.1, appendix 8)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.errors import SessionLockedError
from hermitcrab.messages.build import user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.locks import describe_holder, exclusive
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore, Position

KEY = "agent:main:main"
HOLDER = """
import sys, time
from pathlib import Path
from hermitcrab.sessions.locks import exclusive
with exclusive(Path(sys.argv[1]), purpose="append", timeout_ms=10_000):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def hold() -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """Starts a process that holds a lock file until it ends."""
    holders: list[subprocess.Popen[str]] = []

    def start(lock: Path) -> subprocess.Popen[str]:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(lock)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        return holder

    yield start
    for holder in holders:
        holder.kill()
        holder.communicate()


def says(pid: int, since: str = "2026-03-01T12:00:00+00:00") -> bytes:
    """What a lock file says of a holder."""
    return json.dumps({"pid": pid, "host": "box", "since": since, "purpose": "append"}).encode()


@pytest.mark.parametrize(
    "left_behind",
    [
        pytest.param(says(2**22 + 1), id="a process that is gone"),
        pytest.param(says(os.getppid()), id="a recycled pid, which lives"),
        pytest.param(says(os.getpid()), id="our own pid"),
        pytest.param(says(1, "1999-01-01T00:00:00+00:00"), id="very old"),
        pytest.param(b'{"pid": 7, "createdAt": "2026-03-01T12:00:00Z"}', id="another program's"),
        pytest.param(b"", id="empty"),
        pytest.param(b'{"pid":', id="torn"),
        pytest.param(b"\xff\xfe" * 2_000, id="garbage"),
    ],
)
def test_a_lock_file_that_nobody_holds_blocks_nobody_whatever_it_says(
    tmp_path: Path, left_behind: bytes
) -> None:
    """#86530, #10170, #45726, #18140, appendix 8: a file left behind timed out every later request."""
    lock = tmp_path / "s1.jsonl.lock"
    lock.write_bytes(left_behind)
    with exclusive(lock, purpose="a test", timeout_ms=0):
        assert f"process {os.getpid()} on " in describe_holder(lock)
        assert "(a test, since 20" in describe_holder(lock)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_told_to_end_holds_nothing_afterwards(
    tmp_path: Path, hold: Any, how: signal.Signals
) -> None:
    """#18140, appendix 8: a stop left the lock of the session that was being written."""
    lock = tmp_path / "s1.jsonl.lock"
    holder = hold(lock)
    holder.send_signal(how)
    holder.wait(20)
    with exclusive(lock, purpose="a test", timeout_ms=0):
        pass


def test_a_lock_that_is_held_is_never_stolen_however_old_it_is(tmp_path: Path, hold: Any) -> None:
    """#85762, appendix 8: a lock taken from a living holder means two writers."""
    lock = tmp_path / "s1.jsonl.lock"
    holder = hold(lock)
    lock.write_bytes(says(2**22 + 1, "1999-01-01T00:00:00+00:00").ljust(256))
    os.utime(lock, (0, 0))
    with (
        pytest.raises(SessionLockedError, match="since 1999"),
        exclusive(lock, purpose="a test", timeout_ms=50),
    ):
        pytest.fail("the lock of a living process was taken")
    assert holder.poll() is None


@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError, OSError, SystemExit])
def test_no_way_out_of_an_append_leaves_the_lock_held(
    files: Any, failure: type[BaseException]
) -> None:
    """#86530, #10170: the lock stayed where the run had ended in another way than planned."""
    path = files.write(*files.chain("a"))
    store = JsonlTranscriptStore(files.folder, lock_timeout_ms=0)
    position = Position(end=path.stat().st_size, leaf_id="a", header_id="s1")

    def fail(leaf_id: Any, found: Any) -> Any:
        raise failure

    with pytest.raises(BaseException) as caught:  # noqa: PT011 - which one is not the point
        store.append("s1", position, fail, purpose="test", flush=False)
    assert isinstance(caught.value.__cause__ or caught.value, failure)
    entry: Any = {"type": "custom", "id": "b"}
    store.append("s1", position, lambda leaf_id, found: [entry], purpose="test", flush=False)
    assert [each["id"] for each in store.read_branch("s1").entries] == ["a", "b"]


async def test_lanes_of_one_process_do_not_lock_each_other_out_of_a_large_transcript(
    files: Any,
) -> None:
    """#85762, #13744: with transcripts of 300 KB to 1 MB two lanes of one process blocked each other."""
    tables = [SessionEntries(files.folder / "sessions.sqlite") for _ in range(2)]
    lanes = [
        Sessions(
            store=JsonlTranscriptStore(files.folder, lock_timeout_ms=5_000),
            entries=table,
            clock=lambda: datetime.now(UTC),
            cwd="/work",
        )
        for table in tables
    ]
    logs = [await lane.open(KEY) for lane in lanes]
    await logs[0].append_messages([user("x" * 100_000) for _ in range(10)])
    assert logs[0].file.stat().st_size > 1_000_000
    appends = [
        log.append_messages([user(f"{lane} {number}")])
        for number in range(30)
        for lane, log in enumerate(logs)
    ]
    await asyncio.gather(*appends, *(log.refresh() for log in logs * 10))
    await logs[0].refresh()
    said = [text_of(item.message) for item in logs[0].items()][10:]
    for lane in range(2):
        own = [text for text in said if text.startswith(f"{lane} ")]
        assert own == [f"{lane} {number}" for number in range(30)]
    for table in tables:
        table.close()


async def test_a_lock_of_the_entry_table_that_was_left_behind_blocks_nobody(
    files: Any, hold: Any
) -> None:
    """#13203, #15507: /new and /reset timed out on an orphaned lock of the session store."""
    files.folder.mkdir()
    lock = files.folder / "sessions.sqlite.lock"
    holder = hold(lock)
    holder.kill()
    holder.wait(20)
    assert f"process {holder.pid} on " in describe_holder(lock)
    table = SessionEntries(files.folder / "sessions.sqlite")
    sessions = Sessions(
        store=files.store, entries=table, clock=lambda: datetime.now(UTC), cwd="/work"
    )
    old = await sessions.open(KEY)
    new = await asyncio.wait_for(sessions.start_new(KEY), timeout=10)
    assert new.entry.previous_session_ids == (old.session_id,)
    table.close()
