"""What follows the sections, cut to its room, and the rules of the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.memory.files import sections_named
from hermitcrab.messages import tool_result, user
from hermitcrab_compaction_safeguard.rules import workspace_rules
from hermitcrab_compaction_safeguard.sections import (
    EARLIER_LEFT_OUT,
    Part,
    compose,
    files_part,
    recent_turns_part,
    tool_failures_part,
)


def count(text: str) -> int:
    return len(text) // 4


def test_what_fits_is_shown_whole() -> None:
    parts = [Part(segments=["a", "b"], opening="## X"), Part(segments=[]), Part(segments=["c"])]
    assert compose(parts, tokens=100, characters=100, count=count) == "## X\na\nb\n\nc"


def test_old_turns_go_first_and_are_missed() -> None:
    part = recent_turns_part([user(f"turn {n} " + "x" * 90) for n in range(6)], 6)
    text = compose([part], tokens=1_000, characters=320, count=count)
    lines = text.splitlines()
    assert lines[:2] == ["## Recent turns preserved verbatim", EARLIER_LEFT_OUT]
    assert [line[:14] for line in lines[2:]] == ["- User: turn 4", "- User: turn 5"]


def test_at_most_eight_failures_are_listed() -> None:
    part = tool_failures_part(
        [tool_result(f"c{n}", "read", f"failure {n}", is_error=True) for n in range(11)]
    )
    lines = compose([part], tokens=1_000, characters=9_000, count=count).splitlines()
    assert lines[1] == "- read: failure 10"
    assert lines[-1] == "- ...and 3 more"
    assert len(lines) == 10


def test_a_list_of_files_takes_at_most_900_characters() -> None:
    part = files_part("read-files", [f"/srv/app/file_{n:03}.txt" for n in range(200)])
    text = compose([part], tokens=9_000, characters=9_000, count=count)
    assert len(text) <= 900
    assert text.startswith("<read-files>\n/srv/app/file_000.txt\n")
    left = 200 - text.count("/srv/")
    assert text.endswith(f"\n...and {left} more\n</read-files>")


parts = st.builds(
    Part,
    segments=st.lists(st.sampled_from(["a", "ab ab", "b\nb", "a" * 60]), max_size=6),
    opening=st.sampled_from(["", "## T"]),
    closing=st.sampled_from(["", "</t>"]),
    left_out=st.sampled_from(["", "{} more"]),
    newest_last=st.booleans(),
    most=st.none() | st.integers(0, 5),
)


@given(st.lists(parts, max_size=4), st.integers(0, 200), st.integers(0, 400))
def test_nothing_is_ever_larger_than_its_room(
    some: list[Part], tokens: int, characters: int
) -> None:
    text = compose(some, tokens=tokens, characters=characters, count=count)
    assert len(text) <= characters
    assert count(text) <= tokens


AGENTS = """# Agents
## Red Lines ##
Never push on Friday.
### Really
Never.
```
## Style
```
## Style
Short.
"""


def test_sections_are_found_by_title_whatever_its_case() -> None:
    rules = "**Red Lines**\nNever push on Friday.\n**Really**\nNever.\n```\n## Style\n```"
    assert sections_named(AGENTS, ["red lines"]) == [rules]
    assert sections_named(AGENTS, ["really"]) == ["**Really**\nNever.\n```\n## Style\n```"]
    assert sections_named(AGENTS, ["Style", "RED LINES"])[0] == "**Style**\nShort."
    assert sections_named(AGENTS, ["Agents", "none", " "]) == []


def test_older_names_stand_in_for_the_usual_ones(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("## Every Session\nRead.\n## Safety\nCare.\n", "utf-8")
    rules = workspace_rules(tmp_path, ["Session Startup", "Red Lines"])
    assert "Read." in rules
    assert "Care." in rules
    assert workspace_rules(tmp_path, ["Session Startup"]) == ""


def test_long_rules_are_cut(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("## Rules\n" + "word " * 1_000, "utf-8")
    rules = workspace_rules(tmp_path, ["Rules"])
    assert rules.endswith("\n...[truncated]...\n</workspace-critical-rules>")
    assert len(rules) < 2_100


def test_without_a_workspace_a_file_or_names_there_are_no_rules(tmp_path: Path) -> None:
    assert workspace_rules(None, ["Rules"]) == ""
    assert workspace_rules(tmp_path, ["Rules"]) == ""
    (tmp_path / "AGENTS.md").write_text("## Rules\nx", "utf-8")
    assert workspace_rules(tmp_path, []) == ""


def test_a_file_outside_of_the_workspace_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "secret.md").write_text("## Rules\nsecret", "utf-8")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "AGENTS.md").symlink_to(tmp_path / "secret.md")
    assert workspace_rules(workspace, ["Rules"]) == ""
    assert "outside of the workspace" in caplog.text
