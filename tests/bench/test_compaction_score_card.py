"""The score card of compaction: what it measures holds with every model, however badly that summarises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.messages import assistant, tool_result, user

ROOT = Path(__file__).parents[2]
REAL = ROOT / "../shared/data/coding-session-v1.jsonl"
FIELDS = {
    "window",
    "model",
    "compactions",
    "identifierSurvival",
    "orphanResults",
    "missingResults",
    "illegalRoles",
    "overBudget",
    "tailChanged",
    "calls",
    "seconds",
}
FAULTS = (
    "orphanResults",
    "missingResults",
    "illegalRoles",
    "overBudget",
    "tailChanged",
    "messagesLost",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transcript of 25 turns with a tool call each, about 20,000 tokens."""
    messages: list[Any] = []
    for turn in range(25):
        path = f"/srv/app/module_{turn}/settings.toml"
        call: Any = {"id": f"call_{turn}", "name": "read", "arguments": {"path": path}}
        messages += [
            user(f"Please look at module {turn}. " + "Say what you find there. " * 20),
            assistant("I read its settings.", tool_calls=[call]),
            tool_result(f"call_{turn}", "read", f"build = {turn:08x}ab\n" + "key = value\n" * 120),
            assistant(f"We decided to use port {9000 + turn} for module {turn}. " * 5),
        ]
    lines: list[dict[str, Any]] = [
        {
            "type": "session",
            "version": 3,
            "id": "score",
            "timestamp": "2026-03-01T10:00:00.000Z",
            "cwd": "/",
        }
    ]
    for number, message in enumerate(messages):
        lines.append(
            {
                "type": "message",
                "id": f"{number:08x}",
                "parentId": f"{number - 1:08x}" if number else None,
                "timestamp": f"2026-03-01T10:{number // 60:02}:{number % 60:02}.000Z",
                "message": message,
            }
        )
    file = tmp_path_factory.mktemp("score") / "session.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return file


def score_card(folder: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the rows of one run."""
    out = folder / "score.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench.compaction", *arguments, "--json", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.is_file(), done.stderr
    return done.returncode, json.loads(out.read_text(encoding="utf-8"))


def assert_flawless(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert row.keys() >= FIELDS
        assert row["identifierSurvival"] == 1.0, row
        assert {name: row[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0), row
        assert row["idempotent"], row


def test_every_hostile_model_leaves_a_whole_session(session: Path, tmp_path: Path) -> None:
    code, rows = score_card(
        tmp_path, "--session", str(session), "--windows", "8000", "--models", "all"
    )
    assert code == 0
    assert len(rows) == 8
    assert_flawless(rows)
    assert all(row["compactions"] > 1 and row["identifiersRequired"] > 0 for row in rows)
    assert all(row["calls"] <= 10 * row["compactions"] for row in rows), "calls are bounded"
    modes = {row["model"]: row["modes"] for row in rows}
    assert "deterministic" in modes["hangs"]
    assert "deterministic" in modes["empty"]


def test_a_window_that_holds_everything_needs_no_compaction(session: Path, tmp_path: Path) -> None:
    code, (row,) = score_card(tmp_path, "--session", str(session), "--windows", "128000")
    assert code == 0
    assert (row["compactions"], row["calls"], row["model"]) == (0, 0, "offline")


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_file(), reason="needs ../shared/data/coding-session-v1.jsonl")
def test_the_real_session_survives_every_hostile_model_in_every_window(tmp_path: Path) -> None:
    code, rows = score_card(tmp_path, "--session", str(REAL), "--models", "all")
    assert code == 0
    assert [row["window"] for row in rows] == [8000] * 8 + [32000] * 8 + [128000] * 8
    assert_flawless(rows)
    assert all(row["compactions"] > 0 for row in rows if row["window"] < 128000)
