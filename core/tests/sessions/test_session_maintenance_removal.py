"""Removing old sessions and files: looked at again under the locks, and never half done (sessions 2.8, 2.10)."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from hermitcrab.config import config_from
from hermitcrab.errors import SessionError, SessionNotFoundError, TranscriptError
from hermitcrab.messages import user
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.events import SessionEvents
from hermitcrab.sessions.locks import exclusive
from hermitcrab.sessions.maintenance.plan import Limits, Plan
from hermitcrab.sessions.maintenance.removing import Remover, Skipped
from hermitcrab.sessions.maintenance.upkeep import Outcome, Upkeep, last_run
from hermitcrab.sessions.sessions import Sessions

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
KEY = "agent:main:telegram:direct:1"


class Shelf:
    """A sessions folder with sessions that were used some days ago."""

    def __init__(self, files: Any) -> None:
        self.files = files
        self.folder: Path = files.folder
        self.folder.mkdir(parents=True)
        self.table = SessionEntries(self.folder / "sessions.sqlite")
        self.now = NOW
        self.events: list[Any] = []

    def sessions(self, **options: Any) -> Sessions:
        events = SessionEvents()
        events.listen(self.events.append)
        return Sessions(
            store=self.files.store,
            entries=self.table,
            clock=lambda: self.now,
            cwd="/work",
            events=events,
            **options,
        )

    def talk(self, *texts: str, key: str = KEY, days: float = 31) -> Path:
        """Say something in a session so many days ago; returns its transcript."""

        async def say() -> Path:
            log = await self.sessions().open(key)
            await log.append_messages([user(text) for text in texts or ("hello",)])
            await log.end_turn()
            return log.file

        moment, self.now = self.now, self.now - timedelta(days=days)
        try:
            path = asyncio.run(say())
        finally:
            self.now = moment
        self.touch(path, days=days)
        return path

    def reset(self, key: str = KEY, *, days: float = 31) -> None:
        """Begin a new session id under a key so many days ago."""
        moment, self.now = self.now, self.now - timedelta(days=days)
        asyncio.run(self.sessions().start_new(key))
        self.now = moment

    def touch(self, path: Path, *, days: float) -> None:
        at = (self.now - timedelta(days=days)).timestamp()
        os.utime(path, (at, at))

    def upkeep(self, **maintenance: Any) -> Upkeep:
        config = config_from({"session": {"maintenance": maintenance}}).session.maintenance
        return Upkeep(self.table, Limits.of(config), clock=lambda: self.now)

    def tidy(self, **maintenance: Any) -> Outcome:
        upkeep = self.upkeep(**maintenance)
        return upkeep.carry_out(upkeep.plan())

    def names(self) -> list[str]:
        """What is in the folder besides the table."""
        return sorted(
            each.name
            for each in self.folder.iterdir()
            if not each.name.startswith("sessions.sqlite")
        )

    def keys(self) -> list[str]:
        return sorted(each.key for each in self.table.list())


@pytest.fixture
def shelf(files: Any) -> Iterator[Shelf]:
    made = Shelf(files)
    yield made
    made.table.close()


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(each): (each.read_bytes(), each.stat().st_mtime_ns)
        for each in folder.rglob("*")
        if each.is_file()
    }


class TestSessions:
    def test_an_old_session_becomes_an_archive_and_its_entry_goes(self, shelf: Shelf) -> None:
        path = shelf.talk("The port is 4711.")
        content = path.read_bytes()
        outcome = shelf.tidy()
        [archive] = [each for done in outcome.removed for each in done.archives]
        assert archive.name == f"{path.name}.deleted.2026-06-01T12-00-00.000Z"
        assert archive.read_bytes() == content
        assert shelf.names() == [archive.name]
        assert shelf.keys() == []

    def test_the_archive_goes_after_as_long_again(self, shelf: Shelf) -> None:
        shelf.talk()
        shelf.tidy()
        shelf.now += timedelta(days=29)
        assert len(shelf.names()) == 1
        assert shelf.tidy().removed == ()
        shelf.now += timedelta(days=2)
        shelf.tidy()
        assert shelf.names() == []

    def test_107712_each_removal_is_logged_with_its_key(
        self, shelf: Shelf, caplog: pytest.LogCaptureFixture
    ) -> None:
        shelf.talk()
        with caplog.at_level(logging.INFO, "hermitcrab.sessions"):
            shelf.tidy()
        [record] = [each for each in caplog.records if each.message.startswith("removed")]
        assert KEY in record.message
        assert "not used for more than 30d" in record.message
        assert record.__dict__["session_key"] == KEY

    def test_planning_alone_changes_nothing(self, shelf: Shelf) -> None:
        """#107712: nothing may go because somebody looked."""
        shelf.talk()
        (shelf.folder / "s9.jsonl.mending").write_bytes(b"")
        shelf.touch(shelf.folder / "s9.jsonl.mending", days=9)
        before = everything(shelf.folder)
        assert shelf.upkeep(maxDiskBytes=1).plan().removals
        after = everything(shelf.folder)
        assert after.keys() == before.keys()
        assert {name for name in after if after[name] != before[name]} <= {
            str(shelf.folder / "sessions.sqlite-shm")
        }
        assert shelf.keys() == [KEY]

    def test_77783_a_table_that_is_lost_does_not_bring_a_deleted_session_back(
        self, shelf: Shelf
    ) -> None:
        shelf.talk("one")
        shelf.reset()
        shelf.talk("two")
        kept = shelf.talk("three", key="agent:main:main")
        shelf.tidy()
        shelf.table.close()
        for each in shelf.folder.glob("sessions.sqlite*"):
            each.unlink()
        assert shelf.keys() == ["agent:main:main"]
        assert kept.exists()

    def test_a_session_that_is_deleted_elsewhere_begins_anew(self, shelf: Shelf) -> None:
        """A host that still holds it must not write into a file that is gone."""

        async def go_on() -> str:
            sessions = shelf.sessions()
            old = await sessions.open(KEY)
            await asyncio.to_thread(shelf.tidy)
            new = await sessions.open(KEY)
            await new.append_messages([user("still there?")])
            assert new.session_id != old.session_id
            return new.session_id

        shelf.talk()
        session_id = asyncio.run(go_on())
        [entry] = shelf.table.list()
        assert (entry.key, entry.session_id) == (KEY, session_id)

    def test_blobs_stay_with_the_archive_and_go_with_it(self, shelf: Shelf) -> None:
        path = shelf.talk()
        blobs = path.with_name(f"{path.stem}.blobs")
        blobs.mkdir()
        (blobs / "abc").write_bytes(b"x" * 10)
        shelf.tidy()
        assert (blobs / "abc").exists()
        shelf.now += timedelta(days=31)
        shelf.tidy()
        assert shelf.names() == []


class TestMeanwhile:
    """Another process may use what was due a moment ago."""

    def decided(self, shelf: Shelf, **maintenance: Any) -> tuple[Upkeep, Plan]:
        upkeep = shelf.upkeep(**maintenance)
        plan = upkeep.plan()
        assert plan.removals
        return upkeep, plan

    def refused(self, upkeep: Upkeep, plan: Plan) -> list[str]:
        outcome = upkeep.carry_out(plan)
        assert outcome.removed == ()
        return [each.why for each in outcome.skipped]

    def test_a_session_that_was_used_since_stays(self, shelf: Shelf) -> None:
        path = shelf.talk()
        upkeep, plan = self.decided(shelf)
        shelf.talk("I am back.", days=0)
        assert self.refused(upkeep, plan) == ["it was used meanwhile"]
        assert path.exists()

    def test_a_message_that_stands_in_the_transcript_alone_keeps_it(self, shelf: Shelf) -> None:
        """The entry is brought up to date at the end of a turn only."""
        path = shelf.talk()
        upkeep, plan = self.decided(shelf)
        with path.open("ab") as opened:
            opened.write(b'{"type":"custom","id":"x"}\\n')
        assert self.refused(upkeep, plan) == ["it was written to meanwhile"]
        assert shelf.keys() == [KEY]

    def test_a_transcript_that_another_key_took_stays(self, shelf: Shelf) -> None:
        path = shelf.talk()
        upkeep, plan = self.decided(shelf)
        [entry] = shelf.table.list()
        shelf.table.put(evolve(entry, key="agent:main:other"))
        assert self.refused(upkeep, plan) == ["another session needs its transcript now"]
        assert path.exists()

    def test_a_transcript_that_is_being_written_to_stays(self, shelf: Shelf) -> None:
        path = shelf.talk()
        upkeep, plan = self.decided(shelf)
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with exclusive(path.with_name(f"{path.name}.lock"), purpose="append", timeout_ms=5_000):
                held.set()
                done.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(30)
        try:
            [why] = self.refused(upkeep, plan)
        finally:
            done.set()
            thread.join()
        assert "still locked" in why
        assert path.exists()

    def test_it_stops_between_two_removals_when_told_to(self, shelf: Shelf) -> None:
        for number in range(3):
            shelf.talk(key=f"agent:main:telegram:direct:{number}")
        upkeep, plan = self.decided(shelf)
        answers = iter([False, True, True])
        outcome = upkeep.carry_out(plan, should_stop=lambda: next(answers))
        assert len(outcome.removed) == 1
        assert len(shelf.keys()) == 2

    def test_an_earlier_transcript_that_became_the_current_one_stays(self, shelf: Shelf) -> None:
        old = shelf.talk()
        shelf.reset()
        upkeep, plan = self.decided(shelf, resetArchiveRetention="7d", pruneAfter="900d")
        [entry] = shelf.table.list()
        shelf.table.put(evolve(entry, session_id=old.stem, previous_session_ids=()))
        assert self.refused(upkeep, plan) == ["a session needs it now"]
        assert old.exists()


class TestEarlierTranscripts:
    def test_after_their_retention_they_go_and_entries_forget_them(self, shelf: Shelf) -> None:
        old = shelf.talk(key="agent:main:main")
        shelf.reset("agent:main:main")
        shelf.tidy(resetArchiveRetention="7d")
        assert not old.exists()
        [entry] = shelf.table.list()
        assert entry.previous_session_ids == ()
        assert asyncio.run(shelf.sessions().archived()) == []

    def test_they_are_kept_where_nothing_is_said(self, shelf: Shelf) -> None:
        old = shelf.talk(key="agent:main:main")
        shelf.reset("agent:main:main")
        shelf.tidy()
        assert old.exists()


class TestFolder:
    def test_links_are_not_followed_and_nothing_outside_is_touched(
        self, shelf: Shelf, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "precious.txt").write_text("mine", encoding="utf-8")
        transcript = outside / "t.jsonl"
        transcript.write_text("{}", encoding="utf-8")
        shelf.talk(key="agent:main:main", days=0)
        (shelf.folder / "gone.blobs").symlink_to(outside)
        (shelf.folder / "gone.jsonl").symlink_to(transcript)
        (shelf.folder / "x.jsonl.deleted.2020-01-01T00-00-00.000Z").symlink_to(transcript)
        before = everything(outside)
        shelf.tidy(maxDiskBytes=1)
        assert everything(outside) == before
        assert {"gone.blobs", "gone.jsonl"} <= set(shelf.names())

    def test_a_damaged_row_stops_it_rather_than_make_orphans(self, shelf: Shelf) -> None:
        """Transcripts of a row that cannot be read are not nobody's."""
        path = shelf.talk()
        shelf.table.transact(
            lambda connection: connection.execute("update session_entries set entry = '{'")
        )
        with pytest.raises(SessionError, match="damaged"):
            shelf.upkeep(maxDiskBytes=1).plan()
        assert path.exists()

    def test_44812_leftovers_go_and_locks_that_are_held_stay(self, shelf: Shelf) -> None:
        stale = [
            "s9.jsonl.lock",
            "s9.jsonl.mending",
            "sessions.json.1.tmp",
            "s9.jsonl.bak-20250101T000000.000000Z",
        ]
        for name in stale:
            (shelf.folder / name).write_bytes(b"")
            shelf.touch(shelf.folder / name, days=40)
        held = shelf.folder / "s8.jsonl.lock"
        with exclusive(held, purpose="append", timeout_ms=0):
            shelf.touch(held, days=40)
            outcome = shelf.tidy()
            assert shelf.names() == ["s8.jsonl.lock"]
        assert [type(each) for each in outcome.skipped] == [Skipped]

    def test_a_folder_that_cannot_be_written_keeps_everything(
        self, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = shelf.talk()

        def fails(*args: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "rename", fails)
        outcome = shelf.tidy()
        assert (outcome.removed, len(outcome.skipped)) == ((), 1)
        assert path.exists()
        assert shelf.keys() == [KEY]


class TestInterruption:
    """A process that dies in the middle leaves nothing half."""

    def interrupted(self, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        """Delete the session, and die after so many files are renamed, before the entry goes."""
        rename = os.rename
        left = iter(range(after))

        class DiedError(BaseException):
            pass

        def renamed(*args: Any) -> None:
            if next(left, None) is None:
                raise DiedError
            rename(*args)

        def synced(*args: Any) -> None:
            raise DiedError

        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", renamed)
            patched.setattr(os, "fsync", synced)
            with pytest.raises(DiedError):
                shelf.tidy()

    def test_before_the_current_transcript_the_session_is_as_it_was(
        self, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shelf.talk("first")
        shelf.reset()
        current = shelf.talk("second")
        self.interrupted(shelf, monkeypatch, after=1)
        assert current.exists()
        log = asyncio.run(shelf.sessions().open(KEY))
        assert log.file == current

    def test_behind_it_the_next_upkeep_comes_to_the_end(
        self, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shelf.talk()
        self.interrupted(shelf, monkeypatch, after=1)
        assert shelf.keys() == [KEY]
        [done] = shelf.tidy().removed
        assert done.removal.rule == "unfinished"
        assert shelf.keys() == []

    def test_whoever_speaks_first_begins_anew_without_an_error(
        self, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = shelf.talk()
        self.interrupted(shelf, monkeypatch, after=1)
        log = asyncio.run(shelf.sessions().open(KEY))
        assert log.session_id != old.stem
        assert log.items() == []

    def test_a_transcript_that_is_missing_for_another_reason_is_an_error(
        self, shelf: Shelf
    ) -> None:
        shelf.talk().unlink()
        with pytest.raises(TranscriptError, match="cannot be opened"):
            asyncio.run(shelf.sessions().open(KEY))


class TestByHand:
    def test_deletes_a_session_whatever_protects_it_and_keeps_an_archive(
        self, shelf: Shelf
    ) -> None:
        path = shelf.talk(key="agent:main:main", days=0)
        removed = asyncio.run(shelf.sessions().delete("agent:main:main"))
        assert [each.name.partition(".deleted.")[0] for each in removed.archives] == [path.name]
        assert shelf.keys() == []
        event = shelf.events[-1]
        assert (event.kind, event.session_key, event.reason) == (
            "deleted",
            "agent:main:main",
            "asked",
        )

    def test_an_unknown_session_is_an_error(self, shelf: Shelf) -> None:
        with pytest.raises(SessionNotFoundError):
            asyncio.run(shelf.sessions().delete(KEY))

    def test_the_next_message_begins_a_new_session(self, shelf: Shelf) -> None:
        async def go_on() -> tuple[str, str]:
            sessions = shelf.sessions()
            old = await sessions.open(KEY)
            await sessions.delete(KEY)
            new = await sessions.open(KEY)
            return old.session_id, new.session_id

        old, new = asyncio.run(go_on())
        assert old != new


class TestOncePerDay:
    def test_one_process_a_day_sees_to_it(self, shelf: Shelf) -> None:
        shelf.talk()
        upkeep = shelf.upkeep()
        assert last_run(shelf.table) is None
        assert [upkeep.claim(), upkeep.claim(), shelf.upkeep().claim()] == [True, False, False]
        shelf.now += timedelta(hours=24)
        assert upkeep.claim()

    def test_a_clock_that_went_back_does_not_stop_it(self, shelf: Shelf) -> None:
        shelf.talk()
        upkeep = shelf.upkeep()
        assert upkeep.claim()
        shelf.now -= timedelta(days=300)
        assert upkeep.claim()

    def test_what_came_of_it_is_kept(self, shelf: Shelf) -> None:
        shelf.talk()
        upkeep = shelf.upkeep()
        upkeep.keep_outcome(upkeep.carry_out(upkeep.plan()))
        run = last_run(shelf.table)
        assert run is not None
        assert (run.sessions, run.files, run.freed_bytes) == (1, 0, 0)


def test_a_remover_refuses_to_write_over_an_archive(shelf: Shelf) -> None:
    path = shelf.talk()
    standing = path.with_name(f"{path.name}.deleted.2026-06-01T12-00-00.000Z")
    standing.write_bytes(b"older")
    remover = Remover(shelf.table, clock=lambda: NOW, lock_timeout_ms=0)
    [removal] = shelf.upkeep().plan().removals
    assert isinstance(remover.remove(removal), Skipped)
    assert standing.read_bytes() == b"older"
    assert path.exists()


def test_no_message_that_was_acknowledged_is_lost_to_an_upkeep_beside_it(shelf: Shelf) -> None:
    """To the one process everything is old; the other one talks meanwhile."""
    shelf.talk()
    over = threading.Event()
    removed: list[Any] = []

    def tidy_again_and_again() -> None:
        table = SessionEntries(shelf.folder / "sessions.sqlite")
        limits = Limits(prune_after=3_600_000, max_entries=1)
        upkeep = Upkeep(table, limits, clock=lambda: datetime.now(UTC) + timedelta(days=1))
        while not over.is_set():
            removed.extend(upkeep.carry_out(upkeep.plan()).sessions)
        table.close()

    async def talk() -> list[str]:
        told = []
        sessions = shelf.sessions()
        for number in range(150):
            try:
                log = await sessions.open(KEY)
                await log.append_messages([user(f"message {number}")])
            except SessionError:
                continue
            told.append(f"message {number}")
        return told

    thread = threading.Thread(target=tidy_again_and_again)
    thread.start()
    try:
        told = asyncio.run(talk())
    finally:
        over.set()
        thread.join()
    kept = "".join(
        each.read_text(encoding="utf-8")
        for each in shelf.folder.iterdir()
        if ".jsonl" in each.name and not each.name.endswith(".lock")
    )
    assert removed
    assert len(told) > 10
    assert [text for text in told if f'"{text}"' not in kept] == []
