"""Session entries that several processes read and write: the cache, the plans of queries, no lost update."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from hermitcrab.messages import user
from hermitcrab.sessions import database
from hermitcrab.sessions.entries import SessionEntries, SessionEntry

KEY = "agent:main:main"
ENTRY = SessionEntry(key=KEY, session_id="s1", updated_at=10, session_started_at=5)

ONE_UPDATE = """
import sys
from pathlib import Path
from hermitcrab.sessions.entries import SessionEntries
table = SessionEntries(Path(sys.argv[1]))
table.update("agent:main:main", label=sys.argv[2])
table.close()
"""
UPDATES = """
import sys
from pathlib import Path
from hermitcrab.sessions.entries import SessionEntries
table = SessionEntries(Path(sys.argv[1]))
field = sys.argv[2]
for number in range(250):
    table.update("agent:main:main", add_messages=1, add_compactions=1, **{field: number})
    table.update("agent:main:" + field, add_messages=1)
table.close()
"""


@pytest.fixture
def table(tmp_path: Path) -> Iterator[SessionEntries]:
    made = SessionEntries(tmp_path / "sessions.sqlite")
    made.put(ENTRY)
    yield made
    made.close()


def statements(table: SessionEntries) -> list[str]:
    """The SQL that the table sends from now on."""
    sent: list[str] = []
    opened = table._database
    assert opened is not None
    opened.connection.set_trace_callback(sent.append)
    return sent


class TestCache:
    def test_an_unchanged_entry_is_not_read_again(self, table: SessionEntries) -> None:
        first = table.get(KEY)
        sent = statements(table)
        assert table.get(KEY) is first
        assert sent == ["pragma data_version"]

    def test_a_change_by_another_process_is_seen(
        self, table: SessionEntries, tmp_path: Path
    ) -> None:
        assert table.get(KEY) == ENTRY
        command = [sys.executable, "-c", ONE_UPDATE, str(tmp_path / "sessions.sqlite")]
        for label in ("first", "second"):
            subprocess.run([*command, label], check=True, timeout=60)
            found = table.get(KEY)
            assert found is not None
            assert found.label == label

    def test_our_own_changes_are_seen(self, table: SessionEntries) -> None:
        table.get(KEY)
        table.update(KEY, label="a")
        assert table.get(KEY) == evolve(ENTRY, label="a")
        table.patch(KEY, {"label": None})
        assert table.get(KEY) == ENTRY
        table.put(evolve(ENTRY, session_id="s2"))
        assert table.get(KEY) == evolve(ENTRY, session_id="s2")
        table.move(KEY, "s2", "s3")
        found = table.get(KEY)
        assert found is not None
        assert found.session_id == "s3"

    def test_a_change_that_fails_is_not_remembered(self, table: SessionEntries) -> None:
        table.put(evolve(ENTRY, key="other", label="taken"))
        with pytest.raises(Exception, match="taken"):
            table.update(KEY, label="taken")
        assert table.get(KEY) == ENTRY

    def test_reading_does_not_wait_for_a_writer(
        self, table: SessionEntries, tmp_path: Path
    ) -> None:
        other = sqlite3.connect(tmp_path / "sessions.sqlite", isolation_level=None)
        other.execute("begin immediate")
        assert table.get(KEY) == ENTRY
        assert table.list() == [ENTRY]
        other.execute("rollback")
        other.close()


class TestCost:
    @pytest.mark.parametrize(
        ("query", "arguments"),
        [
            (database.GET, (KEY,)),
            (database.WRITE, (KEY, "s1", 1, "{}")),
            (database.KEY_OF_LABEL, ("label", KEY)),
        ],
    )
    def test_no_statement_of_an_update_looks_at_every_row(
        self, table: SessionEntries, tmp_path: Path, query: str, arguments: tuple[object, ...]
    ) -> None:
        connection = sqlite3.connect(tmp_path / "sessions.sqlite")
        plan = connection.execute(f"explain query plan {query}", arguments).fetchall()
        connection.close()
        assert not [step for *_, step in plan if step.startswith("SCAN")]

    def test_an_update_costs_the_same_steps_among_many_rows(self, table: SessionEntries) -> None:
        def steps() -> int:
            counted = 0

            def count() -> int:
                nonlocal counted
                counted += 1
                return 0

            opened = table._database
            assert opened is not None
            opened.connection.set_progress_handler(count, 1)
            table.patch(KEY, {"label": "a"})
            table.patch(KEY, {"label": None})
            opened.connection.set_progress_handler(None, 1)
            return counted

        few = steps()
        opened = table._database
        assert opened is not None
        with opened.connection as connection:
            connection.execute("begin")
            connection.executemany(
                database.WRITE,
                ((f"k{n}", "s", n, f'{{"sessionId":"s","label":"l{n}"}}') for n in range(20_000)),
            )
        assert steps() == few


def test_four_processes_lose_no_update_of_one_entry_or_of_many(
    table: SessionEntries, tmp_path: Path
) -> None:
    """C25: never "database is locked"; appendix, test 3."""
    names = ["flush_failures", "rejected_summaries", "context_tokens", "total_tokens"]
    for name in names:
        table.put(evolve(ENTRY, key=f"agent:main:{name}"))
    command = [sys.executable, "-c", UPDATES, str(tmp_path / "sessions.sqlite")]
    processes = [subprocess.Popen([*command, name], stderr=subprocess.PIPE) for name in names]
    errors = [process.communicate(timeout=100)[1] for process in processes]
    assert errors == [b""] * 4
    entry = table.get(KEY)
    assert entry is not None
    assert (entry.message_count, entry.compaction_count) == (1_000, 1_000)
    assert [getattr(entry, name) for name in names] == [249] * 4
    for name in names:
        own = table.get(f"agent:main:{name}")
        assert own is not None
        assert own.message_count == 250


async def test_each_of_two_processes_that_compact_counts_its_own_compaction(
    open_sessions: Any,
) -> None:
    """A process that has not seen the other's count yet must not write the same number again."""
    first = await open_sessions().open(KEY)
    await first.append_messages([user("one")])
    second = await open_sessions().open(KEY)
    for log, ahead in ((first, second), (second, first)):
        entry = log.new_entry("compaction", summary="s", firstKeptEntryId=log.path[-1]["id"])
        assert await log.append_compaction(entry)
        await ahead.refresh()
    await first.update_entry(record=False, add_compactions=1)
    await second.update_entry(record=False, add_compactions=1)
    assert second.entry.compaction_count == 2
