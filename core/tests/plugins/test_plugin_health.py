"""health.sqlite: written by one process, read by another, and never in the way."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from hermitcrab.plugins.health import MAX_QUARANTINES, HealthStore, read_health


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "health.sqlite"


@pytest.fixture
def store(path: Path):  # type: ignore[no-untyped-def]
    ticks = iter(range(2_000_000_000_000, 3_000_000_000_000))
    store = HealthStore(path, clock=lambda: next(ticks))
    yield store
    store.close()


def test_nothing_is_made_before_there_is_something_to_write(store: HealthStore, path: Path) -> None:
    store.clear_quarantine("graph")
    store.flush()
    assert not path.exists()
    assert read_health(path).quarantines == ()


def test_the_file_is_private(store: HealthStore, path: Path) -> None:
    store.record_engine_used("agent:main:main", "legacy")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_first_failure_of_an_engine_stands_until_it_is_cleared(
    store: HealthStore, path: Path
) -> None:
    store.record_quarantine("graph", "plugin:graph", "assemble", "first")
    store.record_quarantine("graph", "plugin:graph", "compact", "second")
    (row,) = read_health(path).quarantines
    assert (row.operation, row.reason, row.owner, row.pid) == (
        "assemble",
        "first",
        "plugin:graph",
        os.getpid(),
    )
    store.clear_quarantine("graph")
    assert read_health(path).quarantines == ()


def test_a_row_of_an_earlier_process_with_the_same_id_gives_way(
    store: HealthStore, path: Path
) -> None:
    store.record_quarantine("graph", None, "factory", "long ago", failed_at=1)
    store.record_quarantine("graph", None, "assemble", "now")
    assert [row.reason for row in read_health(path).quarantines] == ["now"]


def test_quarantines_are_limited_to_the_newest(store: HealthStore, path: Path) -> None:
    for number in range(MAX_QUARANTINES + 3):
        store.record_quarantine(f"engine-{number}", None, "assemble", "x")
    rows = read_health(path).quarantines
    assert len(rows) == MAX_QUARANTINES
    assert rows[0].engine_id == f"engine-{MAX_QUARANTINES + 2}"
    assert rows[-1].engine_id == "engine-3"


def test_hook_failures_are_counted_exactly_with_the_last_error_and_the_longest_time(
    store: HealthStore, path: Path
) -> None:
    store.hook_failed("a", "agent_end", RuntimeError("one"), 0.5)
    (row,) = read_health(path).hooks
    assert (row.failures, row.last_error) == (1, "RuntimeError: one")
    for number in range(10):
        store.hook_failed("a", "agent_end", ValueError(number), 0.1)
    store.hook_timed("a", "agent_end", 3, 12.0, 9.5)
    store.hook_timed("b", "agent_end", 1, 0.25, 0.25)
    store.hook_timed("b", "agent_end", 2, 0.25, 0.2)
    store.flush()
    rows = {row.plugin_id: row for row in read_health(path).hooks}
    assert (rows["a"].failures, rows["a"].last_error) == (11, "ValueError: 9")
    assert rows["a"].slowest_seconds == 9.5
    assert (rows["b"].failures, rows["b"].slowest_seconds) == (0, 0.25)
    assert (rows["b"].calls, rows["b"].seconds) == (3, 0.5)
    store.hook_timed("b", "agent_end", 1, 0.5, 0.5)
    store.flush()
    row = next(row for row in read_health(path).hooks if row.plugin_id == "b")
    assert (row.calls, row.seconds, row.slowest_seconds) == (4, 1.0, 0.5)
    assert row.called_at is not None


def test_a_file_of_before_calls_were_counted_goes_on(store: HealthStore, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE hooks (plugin_id TEXT NOT NULL, hook TEXT NOT NULL, failures INTEGER NOT NULL,"
            " last_error TEXT, last_at INTEGER, slowest_seconds REAL NOT NULL,"
            " PRIMARY KEY (plugin_id, hook))"
        )
        connection.execute("INSERT INTO hooks VALUES ('a', 'agent_end', 2, 'x', 5, 0.5)")
    store.hook_timed("a", "agent_end", 3, 0.75, 0.25)
    store.flush()
    (row,) = read_health(path).hooks
    assert (row.failures, row.calls, row.seconds, row.slowest_seconds) == (2, 3, 0.75, 0.5)


def test_a_burst_of_failures_is_written_once_in_a_while(store: HealthStore, path: Path) -> None:
    for number in range(100):
        store.hook_failed("a", "agent_end", ValueError(number), 0.1)
    assert read_health(path).hooks[0].failures < 100
    store.close()
    assert read_health(path).hooks[0].failures == 100


def test_the_engine_that_a_session_used_last_is_kept(store: HealthStore, path: Path) -> None:
    store.record_engine_used("agent:main:main", "legacy", "graph is quarantined")
    store.record_engine_used("agent:main:main", "graph")
    (row,) = read_health(path).engines
    assert (row.session_key, row.engine_id, row.degraded_reason) == (
        "agent:main:main",
        "graph",
        None,
    )


def test_several_stores_and_threads_write_the_same_file(store: HealthStore, path: Path) -> None:
    other = HealthStore(path)

    def write(target: HealthStore, start: int) -> None:
        for number in range(start, start + 20):
            target.record_engine_used(f"agent:main:{number}", "legacy")

    threads = [
        threading.Thread(target=write, args=(target, start))
        for target, start in ((store, 0), (store, 20), (other, 40))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert len(read_health(path).engines) == 60


@pytest.mark.parametrize("obstacle", ["not a database", "a folder"])
def test_a_file_that_cannot_be_written_is_said_once_and_raises_nothing(
    store: HealthStore, path: Path, caplog: pytest.LogCaptureFixture, obstacle: str
) -> None:
    path.parent.mkdir()
    if obstacle == "a folder":
        path.mkdir()
    else:
        path.write_text("this is no database, and long enough to be noticed " * 20)
    with caplog.at_level(logging.WARNING, "hermitcrab.health"):
        store.record_engine_used("agent:main:main", "legacy")
        store.record_quarantine("graph", None, "assemble", "x")
        store.hook_failed("a", "agent_end", RuntimeError("x"), 0.1)
        store.flush()
        store.close()
    assert len(caplog.records) == 1
    assert "cannot be read" in (read_health(path).error or "")


def test_a_store_can_be_read_while_it_is_open_for_writing(store: HealthStore, path: Path) -> None:
    store.record_engine_used("agent:main:main", "legacy")
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()
    assert read_health(path).error is None
