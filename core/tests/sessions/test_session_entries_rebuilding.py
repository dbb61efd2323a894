"""A lost or damaged table of session entries is made again from the transcripts (design 5)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.errors import SessionError, SessionLabelTakenError
from hermitcrab.messages import assistant, user
from hermitcrab.sessions.entries import SessionEntries, SessionEntry
from hermitcrab.sessions.repair.rebuilding import rebuild_entries, scan_transcript
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:main"
OTHER = "agent:main:telegram:direct:1"
NO_DATABASE = b"this is no database, and it is long enough to look like none" * 100

READER = """
import sys
from pathlib import Path
from hermitcrab.sessions.entries import SessionEntries
table = SessionEntries(Path(sys.argv[1]))
print([entry.key for entry in table.list()], len(table.notes()))
table.close()
"""


class Home:
    """A folder of sessions, and the table that stands beside the transcripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "sessions.sqlite"
        self.table = SessionEntries(self.path)
        self._moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.sessions = Sessions(
            store=JsonlTranscriptStore(folder), entries=self.table, clock=self.now, cwd="/work"
        )

    def now(self) -> datetime:
        self._moment += timedelta(milliseconds=1_003)
        return self._moment

    def lose_table(self) -> None:
        """Delete the database and all that belongs to it."""
        self.table.close()
        for file in self.folder.glob("sessions.sqlite*"):
            file.unlink()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "agents" / "main" / "sessions")
    yield made
    made.table.close()


async def compact(log: Any) -> None:
    """What a compaction writes, to the transcript and to the entry."""
    kept = log.path[-1]["id"]
    entry = log.new_entry("compaction", summary="s", firstKeptEntryId=kept, tokensAfter=77)
    assert await log.append_compaction(entry)
    await log.update_entry(
        record=False,
        policy="preserve-activity",
        add_compactions=1,
        rejected_summaries=0,
        flush_failures=0,
        context_tokens=77,
    )


async def flush(log: Any) -> None:
    await log.update_entry(
        flushed_cycle=log.entry.compaction_count,
        flushed_at=5,
        flushed_entry_id=log.path[-1]["id"],
        flush_failures=0,
        flush_error=None,
    )


async def fail_to_flush(log: Any) -> None:
    await log.update_entry(flush_failures=log.entry.flush_failures + 1, flush_error="no model")


async def say(log: Any) -> None:
    await log.append_messages([user("one"), assistant("two")])
    await log.end_turn()


async def compact_elsewhere(log: Any) -> None:
    """An engine that owns compaction leaves no entry of its own (context 1.2)."""
    await log.update_entry(add_compactions=1, flush_failures=0)


async def go_back(log: Any) -> None:
    """Leave the last message on an abandoned branch."""
    target = log.path[-1].get("parentId")
    await log.append([{"type": "leaf", "id": log.new_entry("x")["id"], "targetId": target}])


def patch(**changes: Any) -> Callable[[Any], Any]:
    async def run(log: Any) -> None:
        with contextlib.suppress(SessionLabelTakenError):
            await log.patch_entry(changes)

    return run


STEPS = st.sampled_from(
    [
        say,
        compact,
        flush,
        fail_to_flush,
        compact_elsewhere,
        "reset",
        patch(label="Ports"),
        patch(label="Cars", displayName="Ann"),
        patch(label=None),
        patch(modelOverride="m"),
        patch(providerOverride="p", modelOverride="n"),
        patch(modelOverride=None),
        patch(thinkingLevel="high", fastMode="auto", sendPolicy="deny"),
        patch(fastMode=None, verboseLevel="on", status="done", inputTokens=3),
        patch(origin={"to": ["ann"]}, chatType="dm", channel="telegram", pinnedAt=4),
    ]
)


async def carry_out(home: Home, steps: Any) -> None:
    for key, step in steps:
        log = await home.sessions.open(key)
        if step == "reset":
            await home.sessions.start_new(key)
        else:
            await step(log)


def comparable(entry: SessionEntry) -> SessionEntry:
    """An entry without the times that a transcript tells only nearly."""
    return evolve(entry, updated_at=0, last_interaction_at=None)


class TestLaw:
    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from([KEY, OTHER]), STEPS), max_size=14))
    def test_the_rebuilt_table_equals_the_lost_one(self, steps: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            home = Home(Path(folder) / "agents" / "main" / "sessions")
            asyncio.run(carry_out(home, steps))
            lost = {entry.key: entry for entry in home.table.list()}
            home.lose_table()
            rebuilt = {entry.key: entry for entry in home.table.list()}
            home.table.close()
        assert {key: comparable(one) for key, one in rebuilt.items()} == {
            key: comparable(one) for key, one in lost.items()
        }
        for key, entry in rebuilt.items():
            assert entry.session_started_at <= entry.updated_at
            assert abs(entry.updated_at - lost[key].updated_at) < 60_000

    async def test_messages_on_abandoned_branches_are_counted_too(self, home: Home) -> None:
        await carry_out(home, [(KEY, say), (KEY, go_back), (KEY, say)])
        home.lose_table()
        entry = home.table.get(KEY)
        assert entry is not None
        assert entry.message_count == 4


class TestLost:
    async def test_a_lost_table_is_made_again_and_that_is_told(
        self, home: Home, caplog: pytest.LogCaptureFixture
    ) -> None:
        """#77783: an empty index made all sessions vanish."""
        await carry_out(home, [(KEY, say), (OTHER, say)])
        before = (await home.sessions.open(KEY)).session_id
        home.lose_table()
        assert {entry.key for entry in await home.sessions.list()} == {KEY, OTHER}
        assert (await home.sessions.open(KEY)).session_id == before
        [note] = await home.sessions.notes()
        assert "was missing; 2 sessions were made again from 2 transcripts" in note
        assert note in caplog.text

    async def test_it_is_made_again_once_and_not_at_every_opening(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await carry_out(home, [(KEY, say)])
        home.lose_table()
        assert len(home.table.list()) == 1
        home.table.close()
        monkeypatch.setattr("hermitcrab.sessions.entries.rebuild_entries", None)
        again = SessionEntries(home.path)
        assert len(again.list()) == 1
        assert len(again.notes()) == 1
        again.close()

    async def test_a_fresh_folder_has_nothing_to_tell(self, home: Home) -> None:
        await carry_out(home, [(KEY, say), (KEY, "reset")])
        assert await home.sessions.notes() == []

    async def test_a_table_that_vanishes_while_it_is_open_is_made_again(self, home: Home) -> None:
        await carry_out(home, [(KEY, say), (KEY, patch(label="Ports"))])
        for file in home.folder.glob("sessions.sqlite*"):
            file.unlink()
        log = await home.sessions.open(KEY)
        await say(log)
        assert (log.entry.label, log.entry.message_count) == ("Ports", 4)

    async def test_what_a_rebuilding_has_counted_is_not_counted_again(self, home: Home) -> None:
        await carry_out(home, [(KEY, say)])
        log = await home.sessions.open(KEY)
        await log.append_messages([user("three")])
        for file in home.folder.glob("sessions.sqlite*"):
            file.unlink()
        await log.end_turn()
        assert log.entry.message_count == 3

    @pytest.mark.parametrize("content", [None, b""])
    async def test_a_home_copied_without_its_table_opens(
        self, home: Home, content: bytes | None
    ) -> None:
        """#66522, #77783: a file of 0 bytes after a power loss counts as none."""
        await carry_out(home, [(KEY, say), (KEY, "reset"), (KEY, say)])
        entry = home.table.get(KEY)
        home.lose_table()
        if content is not None:
            home.path.write_bytes(content)
        found = home.table.get(KEY)
        assert found is not None
        assert entry is not None
        assert comparable(found) == comparable(entry)

    def test_a_table_of_an_earlier_version_is_kept_and_completed(self, files: Any) -> None:
        files.write(*files.chain("a"), session_id="one")
        path = files.folder / "sessions.sqlite"
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(
                "create table session_entries (key text primary key, session_id text not null,"
                " updated_at integer not null, entry text not null) without rowid"
            )
            row = (KEY, "gone", 5, '{"sessionId": "gone", "updatedAt": 5, "label": "Ports"}')
            connection.execute("insert into session_entries values (?, ?, ?, ?)", row)
        connection.close()
        table = SessionEntries(path)
        assert [entry.session_id for entry in table.list()] == ["gone"]
        assert table.notes() == []
        table.put(SessionEntry(key=OTHER, session_id="s", updated_at=1, session_started_at=1))
        with pytest.raises(SessionLabelTakenError):
            table.patch(OTHER, {"label": "Ports"})
        table.close()

    def test_a_crash_while_rebuilding_leaves_no_half_of_a_table(
        self, files: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.write(*files.chain("a"), session_id="one")
        path = files.folder / "sessions.sqlite"
        table = SessionEntries(path)
        with monkeypatch.context() as patched:
            patched.setattr("hermitcrab.sessions.database.WRITE", "insert into nothing")
            with pytest.raises(SessionError):
                table.list()
        assert [entry.session_id for entry in table.list()] == ["one"]
        table.close()


class TestDamaged:
    @pytest.mark.parametrize("use", ["get", "put", "list", "update", "patch", "notes"])
    async def test_what_is_no_database_is_set_aside_as_it_is_and_made_again(
        self, home: Home, use: str
    ) -> None:
        """#77783; sessions 2.10: never treat unreadable as empty."""
        await carry_out(home, [(KEY, say)])
        entry = home.table.get(KEY)
        home.lose_table()
        home.path.write_bytes(NO_DATABASE)
        arguments: dict[str, list[Any]] = {"put": [entry], "list": [], "notes": []}
        arguments["patch"] = [KEY, {}]
        getattr(home.table, use)(*arguments.get(use, [KEY]))
        [aside] = home.folder.glob("sessions.sqlite.corrupt-*Z")
        assert aside.read_bytes() == NO_DATABASE
        [note] = home.table.notes()
        assert aside.name in note
        assert "not a database" in note
        assert [one.key for one in home.table.list()] == [KEY]

    def test_damage_without_any_transcript_is_told_too(self, tmp_path: Path) -> None:
        path = tmp_path / "sessions.sqlite"
        path.write_bytes(NO_DATABASE)
        table = SessionEntries(path)
        assert table.list() == []
        [note] = table.notes()
        assert "is kept as sessions.sqlite.corrupt-" in note
        table.close()

    async def test_damage_found_while_it_is_open_is_mended_within_the_same_call(
        self, home: Home
    ) -> None:
        for number in range(60):
            await home.sessions.open(f"agent:main:telegram:direct:{number}")
        home.table.close()
        data = bytearray(home.path.read_bytes())
        data[4096:] = b"\xff" * (len(data) - 4096)
        home.path.write_bytes(data)
        assert len(home.table.list()) == 60
        assert len(list(home.folder.glob("sessions.sqlite.corrupt-*Z"))) == 1
        assert home.table.update("agent:main:telegram:direct:7", label="x").label == "x"

    async def test_its_log_is_set_aside_with_it(self, home: Home) -> None:
        """A stale -wal would be taken for that of the new database."""
        await carry_out(home, [(KEY, say)])
        home.lose_table()
        home.path.write_bytes(NO_DATABASE)
        for suffix in ("-wal", "-shm"):
            home.path.with_name(home.path.name + suffix).write_bytes(b"stale" + suffix.encode())
        assert len(home.table.list()) == 1
        [aside] = home.folder.glob("sessions.sqlite.corrupt-*Z")
        assert aside.with_name(aside.name + "-wal").read_bytes() == b"stale-wal"
        assert aside.with_name(aside.name + "-shm").exists()

    def test_of_several_processes_one_sets_it_aside(self, home: Home) -> None:
        asyncio.run(carry_out(home, [(KEY, say)]))
        home.lose_table()
        home.path.write_bytes(NO_DATABASE)
        command = [sys.executable, "-c", READER, str(home.path)]
        processes = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        outputs = [process.communicate(timeout=60)[0].strip() for process in processes]
        assert outputs == [f"['{KEY}'] 1"] * 4
        assert len(list(home.folder.glob("sessions.sqlite.corrupt-*Z"))) == 1

    async def test_a_process_with_the_old_file_open_goes_over_to_the_new_one(
        self, home: Home
    ) -> None:
        await carry_out(home, [(KEY, say)])
        other = SessionEntries(home.path)
        assert other.get(KEY) is not None
        home.table.close()
        with home.path.open("r+b") as file:
            file.write(NO_DATABASE[:4096])
        assert len(home.table.list()) == 1
        home.table.update(KEY, label="Ports")
        found = other.get(KEY)
        assert found is not None
        assert found.label == "Ports"
        assert other.update(KEY, display_name="Ann").label == "Ports"
        other.close()
        assert [entry.display_name for entry in home.table.list()] == ["Ann"]


class TestForeignTranscripts:
    def test_a_transcript_that_no_key_names_has_a_key_of_its_own(self, files: Any) -> None:
        files.folder = files.folder.parent / "agents" / "coder" / "sessions"
        files.write(*files.chain("a", "b"), session_id="Foreign-1")
        table = SessionEntries(files.folder / "sessions.sqlite")
        [entry] = table.list()
        table.close()
        assert entry.key == "agent:coder:recovered:foreign-1"
        assert (entry.session_id, entry.message_count) == ("Foreign-1", 2)
        assert entry.session_started_at == 1_772_366_400_000

    def test_ids_that_differ_in_case_only_both_have_one(self, files: Any) -> None:
        for session_id in ("one", "ONE"):
            files.write(*files.chain("a"), session_id=session_id)
        if len(list(files.folder.glob("*.jsonl"))) < 2:
            pytest.skip("this file system does not tell upper from lower case")
        rebuilt = rebuild_entries(files.folder, "main", "lost")
        assert rebuilt is not None
        assert {entry.session_id for entry in rebuilt.entries} == {"one", "ONE"}
        assert len({entry.key for entry in rebuilt.entries}) == 2

    def test_a_damaged_transcript_hides_no_other(self, files: Any) -> None:
        files.write(b"garbage\n", b"\xff\xfe\n", header=None, session_id="bad")
        files.write(*files.chain("a"), b"torn", session_id="good")
        (files.folder / "folder.jsonl").mkdir()
        rebuilt = rebuild_entries(files.folder, "main", "lost")
        assert rebuilt is not None
        counts = {entry.session_id: entry.message_count for entry in rebuilt.entries}
        assert counts == {"bad": 0, "good": 1}

    @pytest.mark.parametrize(
        "data",
        [
            None,
            5,
            [],
            {},
            {"key": 5},
            {"key": ""},
            {"key": KEY, "sessionId": "../../x"},
            {"key": KEY, "label": 5, "compactionCount": "many", "flushFailures": None},
            {"key": KEY, "addCompactions": "x", "previousSessionIds": [1], "whatever": 1},
        ],
    )
    def test_no_record_can_keep_a_table_from_being_made(self, files: Any, data: Any) -> None:
        record = {"type": "custom", "id": "r", "customType": "hermitcrab.entry", "data": data}
        files.write(*files.chain("a"), record)
        table = SessionEntries(files.folder / "sessions.sqlite")
        [entry] = table.list()
        table.close()
        assert (entry.session_id, entry.message_count, entry.label) == ("s1", 1, None)
        assert entry.key in {KEY, "agent:main:recovered:s1"}

    async def test_an_old_transcript_and_its_copy_are_one_session(
        self, files: Any, open_sessions: Any
    ) -> None:
        """Design 7: the entry moved to a copy in the current format."""
        header = {"type": "session", "id": "s1", "timestamp": "2025-01-01T00:00:00Z"}
        files.write({"type": "message", "message": {"role": "user", "content": "x"}}, header=header)
        sessions = open_sessions()
        [old] = await sessions.list()
        log = await sessions.open(old.key)
        await log.append_messages([user("two")])
        await log.end_turn()
        lost = await sessions.list()
        await sessions.close()
        for file in files.folder.glob("sessions.sqlite*"):
            file.unlink()
        assert list(map(comparable, await sessions.list())) == list(map(comparable, lost))


class TestWhichSession:
    def record(self, moment: int, key: str, session_id: str, **more: Any) -> Any:
        return {
            "type": "custom",
            "id": f"r{moment}",
            "timestamp": f"2026-03-01T12:00:{moment:02}.000Z",
            "customType": "hermitcrab.entry",
            "data": {"key": key, "sessionId": session_id, **more},
        }

    def rebuilt(self, files: Any) -> dict[str, SessionEntry]:
        rebuilt = rebuild_entries(files.folder, "main", "lost")
        assert rebuilt is not None
        return {entry.key: entry for entry in rebuilt.entries}

    def test_the_latest_record_that_names_a_session_wins(self, files: Any) -> None:
        for moment, session_id in [(1, "z"), (3, "a"), (2, "m")]:
            files.write(
                self.record(moment, KEY, session_id), *files.chain("x"), session_id=session_id
            )
        assert self.rebuilt(files)[KEY].session_id == "a"
        assert self.rebuilt(files)[KEY].previous_session_ids == ("z", "m")

    def test_changes_recorded_later_in_an_older_session_do_not_bring_it_back(
        self, files: Any
    ) -> None:
        late = self.record(9, KEY, "old")
        del late["data"]["sessionId"]
        late["data"]["label"] = "Late"
        files.write(self.record(1, KEY, "old"), *files.chain("x"), late, session_id="old")
        files.write(self.record(2, KEY, "new"), *files.chain("x"), session_id="new")
        entry = self.rebuilt(files)[KEY]
        assert (entry.session_id, entry.label) == ("new", None)

    def test_a_session_begun_beside_another_one_and_never_used_does_not_displace_it(
        self, files: Any
    ) -> None:
        files.write(self.record(1, KEY, "used"), *files.chain("x"), session_id="used")
        files.write(self.record(2, KEY, "empty"), session_id="empty")
        assert self.rebuilt(files)[KEY].session_id == "used"

    def test_a_label_that_two_sessions_recorded_stays_with_the_older(self, files: Any) -> None:
        files.write(self.record(1, KEY, "a", label="L", sessionStartedAt=1), session_id="a")
        files.write(self.record(2, OTHER, "b", label="L", sessionStartedAt=2), session_id="b")
        found = self.rebuilt(files)
        assert (found[KEY].label, found[OTHER].label) == ("L", None)


def test_a_large_transcript_is_not_held_in_memory(files: Any) -> None:
    path = files.write(*files.chain(*map(str, range(500))))
    with path.open("ab") as file:
        for number in range(400):
            file.write(files.line(files.message(f"big{number}", "499", "x" * 50_000)))
    tracemalloc.start()
    facts = scan_transcript(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert facts.messages == 900
    assert peak < path.stat().st_size / 10
