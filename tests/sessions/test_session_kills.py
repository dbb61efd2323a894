"""Processes that are killed while they write: what they acknowledged is there, and nobody waits for them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermitcrab.errors import SessionLockedError
from hermitcrab.messages import user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:main"
PROGRAM = Path(__file__).with_name("kill_writers.py")

HOLDER = """
import sys, time
from pathlib import Path
from hermitcrab.sessions.locks import exclusive
with exclusive(Path(sys.argv[1]), purpose="compaction", timeout_ms=10_000):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forks of a warm program")
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_no_kill_loses_an_acknowledged_message_or_holds_anyone_up(tmp_path, kills):
    """C21, appendix 7: kills at random instants of appends, compactions and entry updates."""
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path, str(kills), "20260301"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kills"] == kills
    for kind in ("message", "blob", "compaction", "label"):
        assert report[kind] > 0, f"no writer lived long enough for a {kind}"


@pytest.fixture
def open_sessions(tmp_path):
    """Makes a view of one folder; ``lock_timeout_ms`` is how long it waits for others."""
    tables = []

    def make(lock_timeout_ms=10_000):
        table = SessionEntries(tmp_path / "sessions.sqlite")
        tables.append(table)
        store = JsonlTranscriptStore(tmp_path, lock_timeout_ms=lock_timeout_ms)
        return Sessions(store=store, entries=table, clock=lambda: datetime.now(UTC), cwd="/work")

    yield make
    for table in tables:
        table.close()


@pytest.fixture
def hold():
    """Starts a process that holds the lock of a transcript until it is killed."""
    holders = []

    def start(transcript):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, f"{transcript}.lock"], stdout=subprocess.PIPE, text=True
        )
        holders.append(holder)
        assert holder.stdout.readline() == "held\n"
        return holder

    yield start
    for holder in holders:
        holder.kill()
        holder.communicate()


def texts(log):
    return [text_of(item.message) for item in log.items()]


async def test_whoever_waits_too_long_learns_who_holds_the_session(open_sessions, hold):
    """C23: pid, purpose and time of the holder; reading does not wait, and the session goes on afterwards."""
    log = await open_sessions(lock_timeout_ms=100).open(KEY)
    await log.append_messages([user("one")])
    holder = hold(log.file)
    with pytest.raises(SessionLockedError) as caught:
        await log.append_messages([user("two")])
    assert f"process {holder.pid} on " in str(caught.value)
    assert "(compaction, since 20" in str(caught.value)
    assert caught.value.where == f"{log.file}.lock"
    await log.refresh()
    assert texts(log) == texts(await open_sessions().open(KEY)) == ["one"]
    holder.kill()
    holder.wait(10)
    await log.append_messages([user("three")])
    assert texts(log) == texts(await open_sessions().open(KEY)) == ["one", "three"]


async def test_a_cancelled_waiter_leaves_no_lock(open_sessions, hold):
    """C24: neither the caller who waits for the lock nor those behind him in the queue leave one."""
    log = await open_sessions(lock_timeout_ms=300).open(KEY)
    await log.append_messages([user("one")])
    holder = hold(log.file)
    waiters = [asyncio.create_task(log.append_messages([user("never")])) for _ in range(3)]
    await asyncio.sleep(0.05)
    for waiter in waiters:
        waiter.cancel()
    results = await asyncio.gather(*waiters, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 3
    holder.kill()
    holder.wait(10)
    other = await open_sessions(lock_timeout_ms=100).open(KEY)
    await other.append_messages([user("two")])
    await log.append_messages([user("three")])
    assert texts(log) == texts(await open_sessions().open(KEY)) == ["one", "two", "three"]


async def test_a_killed_holder_is_waited_for_by_nobody(open_sessions, hold):
    """C21: the lock file of a dead process stays behind and blocks no one, in this process or a new one."""
    log = await open_sessions(lock_timeout_ms=2_000).open(KEY)
    await log.append_messages([user("one")])
    holder = hold(log.file)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(10)
    lock = Path(f"{log.file}.lock")
    assert json.loads(lock.read_text())["pid"] == holder.pid
    await log.append_messages([user("two")])
    other = await open_sessions(lock_timeout_ms=2_000).open(KEY)
    await other.append_messages([user("three")])
    assert texts(other) == ["one", "two", "three"]
