from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.errors import SessionError, SessionLockedError, SessionNotFoundError
from hermitcrab.sessions.entries import SessionEntries, SessionEntry, from_json, to_json
from hermitcrab.sessions.locks import exclusive

KEY = "agent:main:main"
ENTRY = SessionEntry(key=KEY, session_id="s1", updated_at=10, session_started_at=5)

UPDATER = """
import sys
from pathlib import Path
from hermitcrab.sessions.entries import SessionEntries
table = SessionEntries(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    table.update("agent:main:main", add_messages=1, **{sys.argv[2]: str(number)})
table.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents" / "sessions.sqlite"


@pytest.fixture
def table(path: Path) -> Iterator[SessionEntries]:
    made = SessionEntries(path)
    yield made
    made.close()


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values: dict[str, st.SearchStrategy[Any]] = {
    "str": texts,
    "int": st.integers(-(2**53), 2**53),
    "str | None": st.none() | texts,
    "bool | None": st.none() | st.booleans(),
    "FastMode | None": st.none() | st.booleans() | st.just("auto"),
    "int | None": st.none() | st.integers(0, 2**53),
    "Mapping[str, Any] | None": st.none() | st.dictionaries(texts, texts, max_size=2),
    "tuple[str, ...]": st.lists(texts, max_size=3).map(tuple),
    "Mapping[str, Any]": st.dictionaries(texts.map("x-{}".format), texts, max_size=3),
}
entries = st.builds(
    SessionEntry, **{one.name: values[str(one.type)] for one in fields(SessionEntry)}
)


class TestRows:
    @given(entries)
    def test_every_entry_survives_being_stored(self, entry: SessionEntry) -> None:
        """C50."""
        assert from_json(entry.key, to_json(entry)) == entry

    def test_fields_of_a_newer_version_are_kept(self, table: SessionEntries) -> None:
        table.put(evolve(ENTRY, unknown={"goal": {"deep": [1]}}))
        table.update(KEY, label="Ports")
        stored = table.get(KEY)
        assert stored is not None
        assert stored.unknown == {"goal": {"deep": [1]}}
        assert stored.label == "Ports"

    def test_names_on_disk_are_camel_case_and_unset_fields_are_left_out(self) -> None:
        assert to_json(ENTRY) == {
            "sessionId": "s1",
            "updatedAt": 10,
            "sessionStartedAt": 5,
            "compactionCount": 0,
            "flushFailures": 0,
            "rejectedSummaries": 0,
            "messageCount": 0,
        }

    def test_a_flush_of_cycle_0_is_not_never(self, table: SessionEntries) -> None:
        """C71: 0 == 0 made the first cycle count as flushed, or never."""
        assert not ENTRY.flushed
        table.put(ENTRY)
        assert table.update(KEY, flushed_cycle=0).flushed
        stored = table.get(KEY)
        assert stored is not None
        assert stored.flushed_cycle == 0
        assert stored.flushed
        assert not table.update(KEY, compaction_count=1).flushed

    def test_lone_surrogates_do_not_brick_the_table(self, table: SessionEntries) -> None:
        """C57."""
        table.put(ENTRY)
        table.update(KEY, label="a\ud83d", last_compaction={"reason": "\udc00"})
        stored = table.get(KEY)
        assert stored is not None
        assert (stored.label, stored.last_compaction) == ("a\ufffd", {"reason": "\ufffd"})


class TestChanges:
    def test_an_update_changes_what_it_names_only(self, table: SessionEntries) -> None:
        table.put(evolve(ENTRY, label="Ports", message_count=3))
        table.update(KEY, model_override="m", add_messages=2, updated_at=20)
        assert table.get(KEY) == evolve(
            ENTRY, label="Ports", model_override="m", message_count=5, updated_at=20
        )

    def test_a_field_can_be_unset(self, table: SessionEntries) -> None:
        table.put(evolve(ENTRY, label="Ports"))
        assert table.update(KEY, label=None).label is None
        assert table.get(KEY) == ENTRY

    def test_time_does_not_go_back(self, table: SessionEntries) -> None:
        """Sessions 2.3."""
        table.put(ENTRY)
        assert table.update(KEY, updated_at=3).updated_at == 10

    def test_what_is_not_there_cannot_be_updated_or_moved(self, table: SessionEntries) -> None:
        with pytest.raises(SessionNotFoundError, match=KEY):
            table.update(KEY, label="x")
        with pytest.raises(SessionNotFoundError, match=KEY):
            table.move(KEY, "s1", "s2")

    def test_the_first_to_add_an_entry_wins(self, table: SessionEntries) -> None:
        other = evolve(ENTRY, session_id="s2")
        assert table.add(ENTRY) == ENTRY
        assert table.add(other) == ENTRY
        assert table.get(KEY) == ENTRY

    def test_a_key_moves_on_from_the_id_that_it_is_thought_to_have_only(
        self, table: SessionEntries
    ) -> None:
        table.put(ENTRY)
        moved = table.move(KEY, "s1", "s2")
        assert (moved.session_id, moved.previous_session_ids) == ("s2", ("s1",))
        assert table.move(KEY, "s1", "s3") == moved
        assert table.get(KEY) == moved

    def test_entries_are_listed_newest_first_then_by_key(self, table: SessionEntries) -> None:
        for key, moment in [("b", 5), ("c", 9), ("a", 5)]:
            table.put(evolve(ENTRY, key=key, updated_at=moment))
        assert [entry.key for entry in table.list()] == ["c", "a", "b"]


class TestDatabase:
    def test_looking_does_not_create_a_database(self, table: SessionEntries, path: Path) -> None:
        assert table.get(KEY) is None
        assert table.list() == []
        assert not path.exists()

    def test_the_database_is_for_its_owner_only(self, table: SessionEntries, path: Path) -> None:
        table.put(ENTRY)
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700

    def test_entries_are_there_after_closing(self, table: SessionEntries, path: Path) -> None:
        table.put(ENTRY)
        table.close()
        table.close()
        assert table.get(KEY) == ENTRY

    def test_a_path_through_a_file_is_a_typed_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(SessionError):
            SessionEntries(tmp_path / "file" / "sessions.sqlite").put(ENTRY)

    @pytest.mark.parametrize(
        "row", ["{", "[]", "{}", '"x"', '{"sessionId": "s", "previousSessionIds": 5}']
    )
    def test_a_damaged_row_is_named_and_does_not_hide_the_others(
        self, table: SessionEntries, path: Path, row: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        table.put(ENTRY)
        table.put(evolve(ENTRY, key="agent:main:broken"))
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(
                "update session_entries set entry = ? where key = 'agent:main:broken'", (row,)
            )
        connection.close()
        with pytest.raises(SessionError, match="agent:main:broken"):
            table.get("agent:main:broken")
        assert table.list() == [ENTRY]
        assert "agent:main:broken" in caplog.text


class TestConcurrency:
    def test_two_processes_update_one_entry_without_losing_a_change(
        self, table: SessionEntries, path: Path
    ) -> None:
        """C25: never "database is locked"; and no update overwrites another."""
        table.put(ENTRY)
        processes = [
            subprocess.Popen([sys.executable, "-c", UPDATER, str(path), name, "100"])
            for name in ("label", "model_override")
        ]
        for _ in range(50):
            table.update(KEY, add_messages=1)
        assert [process.wait(60) for process in processes] == [0, 0]
        stored = table.get(KEY)
        assert stored is not None
        assert (stored.message_count, stored.label, stored.model_override) == (250, "99", "99")

    def test_first_openings_at_the_same_time_do_not_lock_each_other_out(
        self, tmp_path: Path
    ) -> None:
        """C25: the switch to WAL does not wait for a busy database."""
        for attempt in range(5):
            path = tmp_path / f"{attempt}.sqlite"
            tables = [SessionEntries(path) for _ in range(8)]
            with ThreadPoolExecutor(8) as pool:
                made = [evolve(ENTRY, key=f"k{n}") for n in range(8)]
                list(pool.map(lambda pair: pair[0].put(pair[1]), zip(tables, made, strict=True)))
            assert len(tables[0].list()) == 8
            for table in tables:
                table.close()

    def test_a_first_opening_waits_for_another_one(
        self, table: SessionEntries, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """C25: WAL is switched on under a lock."""
        monkeypatch.setattr("hermitcrab.sessions.database.OPEN_TIMEOUT_MS", 20)
        path.parent.mkdir()
        with (
            exclusive(path.with_name("sessions.sqlite.lock"), purpose="open", timeout_ms=1000),
            pytest.raises(SessionLockedError, match="still locked"),
        ):
            table.put(ENTRY)
        assert table.put(ENTRY) == ENTRY

    def test_an_open_write_of_another_connection_is_waited_for(
        self, table: SessionEntries, path: Path
    ) -> None:
        """C25."""
        table.put(ENTRY)
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("begin immediate")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(table.update, KEY, label="x")
            with pytest.raises(TimeoutError):
                waiting.result(0.1)
            other.execute("commit")
            assert waiting.result(10).label == "x"
        other.close()
