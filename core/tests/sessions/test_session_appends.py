"""Appends that gather while one is written go to the disk together (design 5)."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.errors import EntryError, TranscriptError
from hermitcrab.messages.build import user
from hermitcrab.messages.text import text_of

KEY = "agent:main:main"


def texts(log: Any) -> list[str]:
    return [text_of(item.message) for item in log.items()]


def unwritable() -> Any:
    message: Any = {"role": "user", "content": object()}
    return message


class Gate:
    """Holds up the appends of a store until it is opened, and counts them."""

    def __init__(self) -> None:
        self.appends = 0
        self.reached = threading.Event()
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self.reached.clear()
        self._open.clear()

    def pass_through(self) -> None:
        self.appends += 1
        self.reached.set()
        assert self._open.wait(20)

    async def is_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 20)


@pytest.fixture
def gate(files: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Open until a test closes it."""
    gate, real = Gate(), type(files.store).append

    def append(self: Any, *arguments: Any, **options: Any) -> Any:
        gate.pass_through()
        return real(self, *arguments, **options)

    monkeypatch.setattr(type(files.store), "append", append)
    gate.open()
    yield gate
    gate.open()


@pytest.fixture
def gathered(gate: Gate) -> Callable[..., Any]:
    """Starts callers one after another: the first is held up on its way to the file, the others gather behind it."""

    async def gather(*callers: Any) -> list[asyncio.Task[Any]]:
        gate.close()
        tasks = []
        for caller in callers:
            tasks.append(asyncio.create_task(caller))
            await asyncio.sleep(0)
        await gate.is_reached()
        gate.appends = 0
        return tasks

    return gather


class TestTogether:
    async def test_what_has_gathered_is_one_write_and_one_wait_for_the_disk(
        self, open_sessions: Any, gathered: Any, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = await open_sessions(durability="message").open(KEY)
        tasks = await gathered(*(log.append_messages([user(str(n))]) for n in range(51)))
        synced: list[int] = []
        monkeypatch.setattr("os.fsync", synced.append)
        gate.open()
        entries = [entry for [entry] in await asyncio.gather(*tasks)]
        assert gate.appends == 1
        assert len(synced) == 2
        assert texts(log) == [str(n) for n in range(51)]
        assert list(log.path[-51:]) == entries
        assert [entry["parentId"] for entry in entries[1:]] == [
            entry["id"] for entry in entries[:-1]
        ]
        assert texts(await open_sessions().open(KEY)) == texts(log)

    async def test_nobody_is_told_before_the_disk_has_his_own(
        self, open_sessions: Any, gathered: Any, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = await open_sessions(durability="message").open(KEY)
        tasks = await gathered(*(log.append_messages([user(str(n))]) for n in range(10)))
        syncing, go_on, real = threading.Semaphore(0), threading.Semaphore(0), os.fsync

        def slow(descriptor: int) -> None:
            syncing.release()
            assert go_on.acquire(timeout=20)
            real(descriptor)

        monkeypatch.setattr("os.fsync", slow)
        gate.open()
        assert await asyncio.to_thread(syncing.acquire, timeout=20)
        assert not any(task.done() for task in tasks)
        go_on.release()
        assert await asyncio.to_thread(syncing.acquire, timeout=20)
        await asyncio.wait([tasks[0]])
        assert not any(task.done() for task in tasks[1:])
        assert log.file.read_bytes().count(b'"message"') >= 10
        go_on.release()
        await asyncio.gather(*tasks)
        assert len(texts(log)) == 10

    async def test_an_id_that_two_callers_bring_stands_once(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        """C12."""
        log = await open_sessions().open(KEY)
        entry = log.new_entry("message", message=user("once"))
        tasks = await gathered(
            log.append_messages([user("first")]), log.append([entry]), log.append([entry])
        )
        gate.open()
        _, [one], [two] = await asyncio.gather(*tasks)
        assert one == two == log.path[-1]
        assert texts(log) == ["first", "once"]

    async def test_what_another_process_appended_stands_before_them(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        """C15."""
        log, other = await open_sessions().open(KEY), await open_sessions().open(KEY)
        await other.append_messages([user("other")])
        tasks = await gathered(*(log.append_messages([user(str(n))]) for n in range(3)))
        gate.open()
        await asyncio.gather(*tasks)
        assert texts(log) == ["other", "0", "1", "2"]
        assert texts(await open_sessions().open(KEY)) == texts(log)

    async def test_all_of_them_are_counted(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        log = await open_sessions().open(KEY)
        tasks = await gathered(*(log.append_messages([user(str(n))]) for n in range(7)))
        gate.open()
        await asyncio.gather(*tasks)
        await log.end_turn()
        assert log.entry.message_count == 7

    async def test_closing_the_sessions_costs_nobody_what_waits(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        sessions = open_sessions()
        log = await sessions.open(KEY)
        tasks = await gathered(*(log.append_messages([user(str(n))]) for n in range(5)))
        await sessions.close()
        gate.open()
        await asyncio.gather(*tasks)
        assert texts(await open_sessions().open(KEY)) == [str(n) for n in range(5)]


class TestDecisions:
    async def test_a_decision_is_made_in_turn_and_upon_what_stands_before_it(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        """While it decides, the path stands still and lacks nothing."""
        log = await open_sessions().open(KEY)
        seen: list[Any] = []

        def make(leaf_id: Any, found: Any) -> Any:
            seen.append((leaf_id, log.leaf_id, texts(log), list(found)))
            return [log.new_entry("message", message=user("decided"))]

        tasks = await gathered(
            log.append_messages([user("held up")]),
            log.append_messages([user("a")]),
            log.append_messages([user("b")]),
            log.append_decided(make, purpose="test"),
            log.append_messages([user("c")]),
            log.append_messages([user("d")]),
        )
        gate.open()
        _, _, [b], *_ = await asyncio.gather(*tasks)
        assert gate.appends == 3
        assert seen == [(b["id"], b["id"], ["held up", "a", "b"], [])]
        assert texts(log) == ["held up", "a", "b", "decided", "c", "d"]

    async def test_of_two_compactions_that_have_gathered_one_is_written(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        log = await open_sessions().open(KEY)
        one, two = await log.append_messages([user("one"), user("two")])
        made = [
            log.new_entry("compaction", summary="short", firstKeptEntryId=kept["id"])
            for kept in (two, one)
        ]
        tasks = await gathered(
            log.append_messages([user("three")]),
            *(log.append_compaction(each, planned_at=two["id"]) for each in made),
        )
        gate.open()
        assert (await asyncio.gather(*tasks))[1:] == [True, False]
        assert [entry["type"] for entry in log.path].count("compaction") == 1


class TestFailures:
    async def test_an_entry_that_cannot_be_written_harms_its_own_caller_alone(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        log = await open_sessions().open(KEY)
        tasks = await gathered(
            log.append_messages([user("held up")]),
            log.append_messages([user("a")]),
            log.append_messages([user("never"), unwritable()]),
            log.append_messages([user("b")]),
        )
        gate.open()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [list, list, EntryError, list]
        assert texts(log) == texts(await open_sessions().open(KEY)) == ["held up", "a", "b"]

    async def test_a_decision_that_fails_harms_its_own_caller_alone(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        def fail(leaf_id: Any, found: Any) -> Any:
            raise ZeroDivisionError

        log = await open_sessions().open(KEY)
        tasks = await gathered(
            log.append_messages([user("held up")]),
            log.append_decided(fail, purpose="test"),
            log.append_messages([user("a")]),
        )
        gate.open()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [list, ZeroDivisionError, list]
        assert texts(log) == ["held up", "a"]

    async def test_a_disk_that_fails_is_told_to_all_whose_entries_it_may_lack(
        self, open_sessions: Any, gathered: Any, gate: Gate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = await open_sessions(durability="message").open(KEY)
        tasks = await gathered(*(log.append_messages([user(str(n))]) for n in range(4)))
        calls, real = 0, os.fsync

        def fail_later(descriptor: int) -> None:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise OSError(5, "Input/output error")
            real(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", fail_later)
            gate.open()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [list, *[TranscriptError] * 3]
        assert gate.appends == 1
        await log.append_messages([user("later")])
        assert texts(log) == texts(await open_sessions().open(KEY))
        assert texts(log)[0] == "0"
        assert texts(log)[-1] == "later"

    async def test_no_thread_to_be_had_is_told_to_everybody(
        self, open_sessions: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = await open_sessions().open(KEY)

        def refuse(self: Any, function: Any) -> Any:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr("hermitcrab.sessions.worker.Worker.start", refuse)
            results = await asyncio.gather(
                *(log.append_messages([user(str(n))]) for n in range(3)), return_exceptions=True
            )
        assert [str(result) for result in results] == ["can't start new thread"] * 3
        await log.append_messages([user("later")])
        assert texts(log) == ["later"]


class TestCancelling:
    async def test_who_is_cancelled_while_others_write_his_entries_waits_for_it(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        """C24: and nobody else in the group notices."""
        log = await open_sessions().open(KEY)
        first, leader, follower, other = await gathered(
            *(log.append_messages([user(text)]) for text in ("held up", "a", "b", "c"))
        )
        gate.open()
        await first
        gate.close()
        await gate.is_reached()
        for _ in range(3):
            follower.cancel()
            await asyncio.sleep(0.01)
        assert not follower.done()
        gate.open()
        results = await asyncio.gather(leader, follower, other, return_exceptions=True)
        assert [type(result) for result in results] == [list, asyncio.CancelledError, list]
        assert texts(log) == texts(await open_sessions().open(KEY)) == ["held up", "a", "b", "c"]

    async def test_a_leader_who_is_cancelled_still_writes_for_the_others(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        """C24."""
        log = await open_sessions().open(KEY)
        leader, *others = await gathered(
            *(log.append_messages([user(text)]) for text in ("a", "b", "c"))
        )
        leader.cancel()
        await asyncio.sleep(0.01)
        assert not leader.done()
        gate.open()
        results = await asyncio.gather(leader, *others, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError, list, list]
        assert texts(log) == texts(await open_sessions().open(KEY)) == ["a", "b", "c"]

    async def test_who_is_cancelled_before_his_turn_leaves_nothing_behind(
        self, open_sessions: Any, gathered: Any, gate: Gate
    ) -> None:
        """C24."""
        log = await open_sessions().open(KEY)
        tasks = await gathered(
            *(log.append_messages([user(text)]) for text in ("held up", "a", "b", "c"))
        )
        for task in tasks[1:3]:
            task.cancel()
        gate.open()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results[1:3]] == [asyncio.CancelledError] * 2
        assert texts(log) == texts(await open_sessions().open(KEY)) == ["held up", "c"]


FORKING = """
import asyncio, os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from hermitcrab.messages import user
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

async def opened(folder):
    table = SessionEntries(folder / "sessions.sqlite")
    sessions = Sessions(
        store=JsonlTranscriptStore(folder), entries=table, clock=lambda: datetime.now(UTC), cwd="/"
    )
    log = await sessions.open("agent:main:main")
    await log.append_messages([user("parent")])
    await sessions.close()
    return log

log = asyncio.run(opened(Path(sys.argv[1])))
child = os.fork()
if child == 0:
    signal.alarm(20)
    asyncio.run(log.append_messages([user("child")]))
    os._exit(0)
_, status = os.waitpid(child, 0)
asyncio.run(log.append_messages([user("parent again")]))
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
async def test_a_forked_child_can_go_on_with_its_parents_session(
    tmp_path: Path, open_sessions: Any, files: Any
) -> None:
    """It has none of the threads of its parent, and must not wait for one."""
    program = [sys.executable, "-c", FORKING, files.folder]
    done = await asyncio.to_thread(subprocess.run, program, timeout=60, check=False)
    assert done.returncode == 0
    log = await open_sessions().open(KEY)
    assert texts(log) == ["parent", "child", "parent again"]


@pytest.mark.parametrize(("durability", "times"), [("message", 1), ("turn", 1), ("os", 0)])
async def test_the_name_of_a_new_transcript_reaches_the_disk(
    open_sessions: Any,
    files: Any,
    monkeypatch: pytest.MonkeyPatch,
    durability: str,
    times: int,
) -> None:
    """A file that is on the disk under no name is lost; its folder is synced once (design 5)."""
    sessions = open_sessions(durability=durability)
    await sessions.open("agent:main:first")
    real, synced = os.fsync, []

    def note(descriptor: int) -> None:
        state = os.fstat(descriptor)
        if stat.S_ISDIR(state.st_mode):
            synced.append(state.st_ino)
        real(descriptor)

    monkeypatch.setattr("os.fsync", note)
    log = await sessions.open(KEY)
    await log.append_messages([user("one")])
    await log.end_turn()
    assert synced == [files.folder.stat().st_ino] * times
