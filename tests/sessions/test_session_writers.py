"""Many writers on one session: processes of their own, and callers within one process (design 5)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermitcrab.messages import user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:main"
PROGRAM = Path(__file__).with_name("append_messages.py")
WRITERS = 8


def lines_of(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_eight_processes_write_one_line_and_lose_nothing(tmp_path, count):
    """C11, C15: 8 processes that append to one session leave intact lines and no fork that nobody asked for."""
    processes = [
        subprocess.Popen(
            [sys.executable, PROGRAM, tmp_path, f"writer-{number}", str(count)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * WRITERS
    acknowledged = [output.split() for output in outputs]

    with_messages = [path for path in tmp_path.glob("*.jsonl") if b'"message"' in path.read_bytes()]
    assert len(with_messages) == 1
    [path] = with_messages
    header, *entries = lines_of(path)
    assert header["type"] == "session"
    ids = [entry["id"] for entry in entries]
    assert len(set(ids)) == len(ids)
    assert [entry["parentId"] for entry in entries] == [None, *ids[:-1]]
    messages = [entry for entry in entries if entry["type"] == "message"]
    assert len(messages) == WRITERS * count
    for number, own in enumerate(acknowledged):
        prefix = f"writer-{number} "
        texts = [text_of(entry["message"]) for entry in messages]
        assert [text for text in texts if text.startswith(prefix)] == [
            f"{prefix}{each}" for each in range(count)
        ]
        assert len(own) == count
        assert set(own) <= set(ids)
    contents = JsonlTranscriptStore(tmp_path).read_all(path.stem)
    assert not contents.faults.any
    assert [entry["id"] for entry in contents.branch()] == ids
    table = SessionEntries(tmp_path / "sessions.sqlite")
    entry = table.get(KEY)
    table.close()
    assert entry is not None
    assert (entry.session_id, entry.message_count) == (path.stem, WRITERS * count)


@pytest.fixture
def open_sessions(tmp_path):
    """Makes a view of one folder; each has a queue and a connection of its own."""
    tables = []

    def make():
        table = SessionEntries(tmp_path / "sessions.sqlite")
        tables.append(table)
        store = JsonlTranscriptStore(tmp_path)
        return Sessions(store=store, entries=table, clock=lambda: datetime.now(UTC), cwd="/work")

    yield make
    for table in tables:
        table.close()


@pytest.mark.parametrize("objects", [1, 2])
async def test_concurrent_appends_of_one_process_keep_the_order_of_each_caller(
    open_sessions, objects
):
    """50 callers at once, through one Sessions object or two: nothing is lost, nobody overtakes himself."""
    views = [open_sessions() for _ in range(objects)]
    logs = [await view.open(KEY) for view in views]
    assert len({log.session_id for log in logs}) == 1

    async def caller(number):
        log = await views[number % objects].open(KEY)
        return [
            (await log.append_messages([user(f"{number} {each}")]))[0]["id"] for each in range(4)
        ]

    acknowledged = await asyncio.gather(*map(caller, range(50)))
    for log in logs:
        await log.refresh()
        assert log.path == logs[0].path
    entries = [entry for entry in logs[0].path if entry["type"] == "message"]
    assert len(entries) == 200
    for number, own in enumerate(acknowledged):
        mine = [entry for entry in entries if text_of(entry["message"]).startswith(f"{number} ")]
        assert [entry["id"] for entry in mine] == own
        assert [text_of(entry["message"]) for entry in mine] == [f"{number} {n}" for n in range(4)]
    contents = JsonlTranscriptStore(logs[0].file.parent).read_all(logs[0].session_id)
    assert contents.branch() == contents.entries == logs[0].path


async def test_appends_that_one_caller_does_not_wait_for_stand_in_his_order(open_sessions):
    """The queue of a session is first come, first served."""
    log = await open_sessions().open(KEY)
    await asyncio.gather(*(log.append_messages([user(str(number))]) for number in range(50)))
    texts = [text_of(item.message) for item in log.items()]
    assert texts == [str(number) for number in range(50)]


FORKING = """
import asyncio, os, signal, sys
from append_messages import main
from pathlib import Path
folder = Path(sys.argv[1])
asyncio.run(main(folder, "parent", 3))
child = os.fork()
if child == 0:
    signal.alarm(20)
    asyncio.run(main(folder, "child", 3))
    sys.stdout.flush()
    os._exit(0)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_of_a_program_that_has_appended_can_append(tmp_path):
    """A child has none of its parent's threads, and must not wait for one of them."""
    done = subprocess.run(
        [sys.executable, "-c", FORKING, tmp_path],
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parent)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    [path] = tmp_path.glob("*.jsonl")
    texts = [text_of(entry["message"]) for entry in lines_of(path) if entry["type"] == "message"]
    assert texts == [f"{name} {number}" for name in ("parent", "child") for number in range(3)]
