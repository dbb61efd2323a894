"""What the model is reminded of after a compaction (context 5.9, 6.9)."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermitcrab.agent.refresh import REFRESH_CHARACTERS, read_refresh

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "AGENTS.md").write_text(
        "# Agent\n\n## Startup\nRead memory/YYYY-MM-DD.md.\n\n### First\nSay hello.\n\n## Other\nNo.\n"
    )
    return tmp_path


def test_the_chosen_sections_are_read_with_the_day_and_the_time(workspace: Path) -> None:
    text = read_refresh(workspace, ["startup"], NOW)
    assert "Read memory/2026-03-01.md." in text
    assert "Say hello." in text
    assert "No." not in text.replace("Now", "")
    assert "2026-03-01 09:30 (UTC)" in text


def test_sections_that_are_not_there_are_no_reminder(workspace: Path, tmp_path: Path) -> None:
    assert read_refresh(workspace, ["Nowhere"], NOW) == ""
    assert read_refresh(tmp_path / "gone", ["startup"], NOW) == ""


def test_the_names_of_older_workspaces_stand_in_for_the_usual_two(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("## Every Session\nOne.\n## Safety\nTwo.\n")
    assert "Two." in read_refresh(tmp_path, ["Session Startup", "Red Lines"], NOW)
    assert read_refresh(tmp_path, ["Session Startup"], NOW) == ""


def test_long_sections_are_cut(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("## Startup\n" + "👍🏽 word " * 1_000)
    text = read_refresh(tmp_path, ["startup"], NOW)
    body = text.split("\n\n", 1)[1].rsplit("\n\n", 1)[0]
    assert len(body) <= REFRESH_CHARACTERS
    assert body.endswith("[cut]")


def test_a_link_out_of_the_workspace_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("## Startup\nsecret\n")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "AGENTS.md").symlink_to(outside)
    with caplog.at_level(logging.WARNING):
        assert read_refresh(workspace, ["startup"], NOW) == ""
    assert "outside of the workspace" in caplog.text
