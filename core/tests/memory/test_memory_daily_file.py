"""The daily file is only ever appended to, and never says a thing twice."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.errors import PathRefusedError
from hermitcrab.memory.daily import AppendOnlyDailyFile, addition, daily_path

PATH = "memory/2026-03-01.md"
MARKDOWN = st.lists(
    st.sampled_from(
        [
            "", "# A", "## B", "- one", "- two", "  more", "1. x", "prose", "```", "~~~", "#",
            "a  ", "\r", "中文", "- ", "\x0c", "\ufeff",
        ]
    ),
    max_size=14,
).map("\n".join)  # fmt: skip


@pytest.fixture
def daily(tmp_path: Path) -> AppendOnlyDailyFile:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return AppendOnlyDailyFile(workspace, PATH, tmp_path / "home" / "flush.lock")


def content(daily: AppendOnlyDailyFile) -> str:
    return (daily.workspace / daily.path).read_bytes().decode()


@pytest.mark.parametrize(
    ("moment", "zone", "expected"),
    [
        ("2026-03-01T23:30-08:00", "America/Los_Angeles", "memory/2026-03-01.md"),
        ("2026-03-02T00:30+09:00", "Asia/Tokyo", "memory/2026-03-02.md"),
        ("2026-03-08T09:59+00:00", "America/Los_Angeles", "memory/2026-03-08.md"),
        ("2026-11-01T07:30+00:00", "America/New_York", "memory/2026-11-01.md"),
        ("2026-11-02T04:30+00:00", "America/New_York", "memory/2026-11-01.md"),
    ],
)
def test_the_day_is_the_users(moment: str, zone: str, expected: str):
    """C68: files were once named by the day in UTC; days on which clocks change count too."""
    assert daily_path(datetime.fromisoformat(moment), ZoneInfo(zone)) == expected
    in_utc = datetime.fromisoformat(moment).astimezone(UTC)
    assert daily_path(in_utc, ZoneInfo(zone)) == expected
    assert daily_path(in_utc.replace(tzinfo=None), ZoneInfo(zone)) == expected


@pytest.mark.parametrize(
    "path",
    ["MEMORY.md", "memory/notes.md", "../memory/2026-03-01.md", "/memory/2026-03-01.md",
     "memory/2026-03-01-1430.md", "memory/../AGENTS.md", "memory/2026-03-01.md\n", ""],
)  # fmt: skip
def test_any_other_path_is_refused(tmp_path: Path, path: str):
    with pytest.raises(PathRefusedError):
        AppendOnlyDailyFile(tmp_path, path, tmp_path / "lock")


def test_a_memory_directory_that_leads_outside_is_refused(tmp_path: Path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "outside").mkdir()
    (workspace / "memory").symlink_to(tmp_path / "outside")
    with pytest.raises(PathRefusedError):
        AppendOnlyDailyFile(workspace, PATH, tmp_path / "lock")


def test_old_bytes_are_a_prefix_of_the_new_ones(daily: AppendOnlyDailyFile):
    """C65: a flush once overwrote the day's file."""
    daily.append("- one\n")
    before = content(daily)
    assert daily.append("- two") == len(content(daily).encode()) - len(before.encode())
    assert content(daily) == "- one\n\n- two\n"


def test_a_file_without_a_final_newline_gets_one_first(daily: AppendOnlyDailyFile):
    daily.create()
    (daily.workspace / PATH).write_bytes(b"- written by hand")
    daily.append("- two")
    assert content(daily) == "- written by hand\n\n- two\n"


def test_the_file_is_private(daily: AppendOnlyDailyFile):
    daily.append("x")
    assert (daily.workspace / PATH).stat().st_mode & 0o777 == 0o600
    assert (daily.workspace / "memory").stat().st_mode & 0o777 == 0o700


def test_bytes_that_are_no_text_survive(daily: AppendOnlyDailyFile):
    daily.create()
    (daily.workspace / PATH).write_bytes(b"\xff\xfe old \x00\n")
    daily.append("- new \ud83d")
    data = (daily.workspace / PATH).read_bytes()
    assert data == b"\xff\xfe old \x00\n\n- new \xef\xbf\xbd\n"


def test_the_same_content_is_appended_once(daily: AppendOnlyDailyFile):
    """C67: a second flush once doubled whole sections."""
    text = "## Decisions\n\n- port 5433\n- user app\n"
    assert daily.append(text) > 0
    assert daily.append(text) == 0


def test_a_payload_that_repeats_the_file_adds_only_the_rest():
    existing = "## Decisions\n\n- port 5433\n\n## People\n\n- Ana leads\n"
    payload = existing + "- Bo tests\n"
    assert addition(existing, payload) == "\n## People\n\n- Bo tests\n"


def test_items_are_compared_with_their_continuation_lines():
    existing = "- deploy\n  on Monday\n"
    assert addition(existing, "- deploy\n  on Monday\n- test") == "\n- test\n"
    assert addition(existing, "- deploy\n  on Friday") == "\n- deploy\n  on Friday\n"


def test_the_same_short_item_under_a_new_heading_is_news():
    existing = "## Deploy\n- done\n"
    assert addition(existing, "## Tests\n- done\n") == "\n## Tests\n- done\n"


def test_a_fenced_block_is_kept_or_left_out_as_a_whole():
    existing = "```\nmake install\n```\n"
    assert addition(existing, "```\nmake install\n\nmake test\n```\n") == (
        "\n```\nmake install\n\nmake test\n```\n"
    )
    assert addition(existing, "```\nmake install\n```\n") == ""


def test_blank_content_is_nothing_to_append(daily: AppendOnlyDailyFile):
    assert daily.append(" \n\n\t") == 0
    assert content(daily) == ""


@given(MARKDOWN, MARKDOWN)
def test_appending_twice_is_appending_once(existing: str, payload: str):
    once = existing + addition(existing, payload)
    assert addition(once, payload) == ""


@given(st.text(), st.text())
def test_whatever_the_text_appending_twice_is_appending_once(existing: str, payload: str):
    once = existing + addition(existing, payload)
    assert addition(once, payload) == ""


@given(MARKDOWN, MARKDOWN)
def test_every_line_of_the_payload_is_in_the_file_afterwards(existing: str, payload: str):
    lines = [line.rstrip() for line in (existing + addition(existing, payload)).split("\n")]
    assert all(line.rstrip() in lines for line in payload.split("\n") if line.strip())


APPEND_MANY = """
import sys
from pathlib import Path
from hermitcrab.memory.daily import AppendOnlyDailyFile

workspace, path, lock, name = sys.argv[1:]
daily = AppendOnlyDailyFile(Path(workspace), path, Path(lock))
for number in range(20):
    daily.append(f"## {name} {number}\\n- from {name} {number}\\n- shared\\n")
for number in range(200):
    daily.append(f"- both know {number}")
"""


def test_two_processes_lose_nothing_and_repeat_nothing(daily: AppendOnlyDailyFile):
    """C66: of two flushes at once, one was lost."""
    places = [str(daily.workspace), daily.path, str(daily.lock_path)]
    command = [sys.executable, "-c", APPEND_MANY, *places]
    workers = [subprocess.Popen([*command, name]) for name in ("a", "b")]
    assert [worker.wait(30) for worker in workers] == [0, 0]
    text = content(daily)
    for name in ("a", "b"):
        for number in range(20):
            assert text.count(f"## {name} {number}\n- from {name} {number}\n- shared\n") == 1
    for number in range(200):
        assert text.count(f"- both know {number}\n") == 1


def test_a_statement_is_not_said_again_under_a_later_hour() -> None:
    """C67: each flush sees the end of what the one before it saw, under a heading of its own."""
    statement = "- the staging database listens on port 5437"
    existing = f"## 10:00\n{statement}\n"
    assert addition(existing, f"## 11:00\n{statement}\n") == ""
    assert addition(existing, f"## 11:00\n{statement}\n- it was moved\n") == (
        "\n## 11:00\n- it was moved\n"
    )


def test_a_short_item_under_a_new_heading_is_news() -> None:
    assert "- done" in addition("## Build\n- done\n", "## Tests\n- done\n")


def test_what_the_file_ends_with_is_not_joined_with_what_is_being_added() -> None:
    existing, payload = "# A\n- one", "x\n# A\n- one\nx"
    once = existing + addition(existing, payload)
    assert "- one\nx" in once
    assert addition(once, payload) == ""
