"""Several processes on one transcript, and locks whose holders die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import filelock
import pytest

from hermitcrab.errors import SessionLockedError, TranscriptError
from hermitcrab.sessions.locks import describe_holder, exclusive
from hermitcrab.sessions.transcript import JsonlTranscriptStore, Position

APPENDER = """
import sys
from pathlib import Path
from hermitcrab.sessions.transcript import JsonlTranscriptStore, Position
folder, name, count = sys.argv[1:]
store = JsonlTranscriptStore(Path(folder), lock_timeout_ms=60_000)
branch = store.read_branch("s1")
position = Position(end=branch.end, leaf_id=branch.leaf_id, header_id="s1")
for number in range(int(count)):
    entry = {"type": "custom", "id": f"{name}-{number}", "data": "x" * (number % 50)}
    position = store.append(
        "s1", position, lambda leaf, found: [entry], purpose="test", flush=False
    ).position
"""

HOLDER = """
import sys, time
from pathlib import Path
from hermitcrab.sessions.locks import exclusive
with exclusive(Path(sys.argv[1]), purpose="compaction", timeout_ms=10_000):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    running: list[subprocess.Popen[str]] = []

    def run(program: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def held(start: Any, files: Any) -> subprocess.Popen[str]:
    """A process that holds the lock of a transcript with one entry."""
    path = files.write(*files.chain("a"))
    process = start(HOLDER, f"{path}.lock")
    assert process.stdout.readline() == "held\n"
    running: subprocess.Popen[str] = process
    return running


def append(store: JsonlTranscriptStore, entry_id: str) -> Any:
    branch = store.read_branch("s1")
    position = Position(end=branch.end, leaf_id=branch.leaf_id, header_id="s1")
    entry: Any = {"type": "custom", "id": entry_id}
    return store.append("s1", position, lambda leaf, found: [entry], purpose="t", flush=False)


def test_two_processes_append_to_one_line_without_losing_or_mixing_anything(
    start: Any, files: Any
) -> None:
    """C11, C15: each parent is the line before, and every entry is there once."""
    path = files.write()
    processes = [start(APPENDER, str(files.folder), name, "200") for name in ("p", "q")]
    assert [process.wait(60) for process in processes] == [0, 0]
    lines = [json.loads(line) for line in path.read_bytes().splitlines()][1:]
    made = [line["id"] for line in lines]
    assert [line["parentId"] for line in lines] == [None, *made[:-1]]
    assert sorted(made) == sorted(f"{name}-{n}" for name in ("p", "q") for n in range(200))
    branch = files.store.read_branch("s1")
    assert len(branch.entries) == 400
    assert not branch.faults.any


def test_a_lock_whose_holder_was_killed_holds_nobody_up(held: Any, files: Any) -> None:
    """C21: a crash left a lock file and everything was blocked."""
    os.kill(held.pid, signal.SIGKILL)
    held.wait(10)
    began = time.monotonic()
    append(JsonlTranscriptStore(files.folder, lock_timeout_ms=30_000), "b")
    assert time.monotonic() - began < 10


def test_a_lock_file_of_a_process_that_does_not_exist_holds_nobody_up(files: Any) -> None:
    """C21."""
    path = files.write(*files.chain("a"))
    lock = Path(f"{path}.lock")
    lock.write_text(json.dumps({"pid": 2**22 + 1, "host": "x", "since": "x", "purpose": "x"}))
    append(files.store, "b")
    assert json.loads(lock.read_text())["pid"] == os.getpid()


def test_whoever_waits_too_long_learns_who_holds_the_lock(held: Any, files: Any) -> None:
    """C23."""
    store = JsonlTranscriptStore(files.folder, lock_timeout_ms=50)
    with pytest.raises(SessionLockedError) as caught:
        append(store, "b")
    text = str(caught.value)
    assert f"process {held.pid} on " in text
    assert "(compaction, since 20" in text
    assert "s1.jsonl.lock" in text
    assert "session.lockTimeoutMs" in text
    held.kill()
    held.wait(10)
    append(files.store, "c")
    assert [entry["id"] for entry in store.read_branch("s1").entries] == ["a", "c"]


def test_two_holders_in_one_process_exclude_each_other(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    with (
        exclusive(lock, purpose="first", timeout_ms=1000),
        pytest.raises(SessionLockedError, match="first"),
        exclusive(lock, purpose="second", timeout_ms=20),
    ):
        pytest.fail("the lock was taken twice")
    with exclusive(lock, purpose="third", timeout_ms=20):
        pass


def test_a_lock_is_released_when_its_holder_fails(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    with pytest.raises(ZeroDivisionError), exclusive(lock, purpose="long" * 20, timeout_ms=20):
        raise ZeroDivisionError
    with exclusive(lock, purpose="b", timeout_ms=20):
        assert "(b, since" in describe_holder(lock)


def test_a_lock_in_a_folder_that_is_missing_is_a_typed_error(tmp_path: Path) -> None:
    lock = tmp_path / "file" / "x.lock"
    lock.parent.write_text("not a folder")
    with (
        pytest.raises(TranscriptError, match="the lock cannot be taken"),
        exclusive(lock, purpose="a", timeout_ms=20),
    ):
        pytest.fail("there is no such folder")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b'"text"', b"{}", b"\xff"])
def test_a_lock_file_that_cannot_be_read_names_an_unknown_holder(
    tmp_path: Path, content: bytes
) -> None:
    lock = tmp_path / "x.lock"
    lock.write_bytes(content)
    assert describe_holder(lock) == "an unknown process"


def test_a_holder_that_follows_one_with_a_longer_name_is_read_as_it_is(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    for purpose in ("long" * 100, "short"):
        with exclusive(lock, purpose=purpose, timeout_ms=20):
            assert f"({purpose}, since 20" in describe_holder(lock)


def test_a_lock_file_that_is_deleted_at_the_last_moment_is_not_taken_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers would hold one lock each: the deleted file and the one that took its place."""
    lock, real = tmp_path / "x.lock", filelock.lock_descriptor
    calls = 0

    def lock_what_was_deleted(descriptor: int, *, blocking: bool) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            lock.unlink()
        return real(descriptor, blocking=blocking)

    monkeypatch.setattr(filelock, "lock_descriptor", lock_what_was_deleted)
    with exclusive(lock, purpose="append", timeout_ms=5000):
        assert calls == 2
        assert "(append, since" in describe_holder(lock)


def test_a_holder_that_cannot_be_named_holds_the_lock_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk reading goes on."""

    def full(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with exclusive(tmp_path / "x.lock", purpose="append", timeout_ms=1000):
        pass
    assert "No space left on device" in caplog.text
