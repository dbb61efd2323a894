"""``make demo``: what it shows is true, it is readable without colour, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from rich.cells import cell_len

ROOT = Path(__file__).resolve().parents[2]


@frozen
class Run:
    code: int
    out: str
    err: str
    left_behind: list[str]


def run_demo(scratch: Path, *options: str, folder: Path = ROOT, **variables: str) -> Run:
    """Run the demo in a process of its own, with an empty home and an empty folder for temporary files."""
    home, temporary = scratch / "home", scratch / "tmp"
    home.mkdir(parents=True)
    temporary.mkdir()
    kept = {"PATH", "SYSTEMROOT", "LANG", "LC_ALL"}
    environ = {name: value for name, value in os.environ.items() if name in kept}
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", *options],
        cwd=folder,
        env={
            **environ,
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "PYTHONIOENCODING": "utf-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            **variables,
        },
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    left = [str(path) for place in (home, temporary) for path in place.rglob("*")]
    return Run(done.returncode, done.stdout, done.stderr, left)


@pytest.fixture(scope="module")
def json_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_demo(tmp_path_factory.mktemp("json"), "--json")


@pytest.fixture(scope="module")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_demo(tmp_path_factory.mktemp("text"), COLUMNS="80", FORCE_COLOR="1")


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    scratch = tmp_path_factory.mktemp("kept")
    kept = scratch / "kept"
    return run_demo(scratch / "run", "--keep", str(kept), COLUMNS="60"), kept


@pytest.fixture(scope="module")
def story(json_run: Run) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json_run.out)
    return loaded


def test_the_demo_succeeds_without_a_word_on_stderr(json_run: Run, text_run: Run) -> None:
    assert (json_run.code, json_run.err) == (0, "")
    assert (text_run.code, text_run.err) == (0, "")


def test_the_demo_leaves_nothing_behind(json_run: Run, text_run: Run) -> None:
    assert json_run.left_behind == []
    assert text_run.left_behind == []


def test_every_request_fits_the_window_although_the_conversation_does_not(
    story: dict[str, Any],
) -> None:
    report = story["report"]
    assert report["contextWindow"] == 8000
    assert 0 < report["peakTokens"] <= 8000
    assert report["overflows"] == 0
    assert report["pairing"] == {"orphanResults": 0, "missingResults": 0}
    assert len(report["compactions"]) >= 3
    assert all(
        compaction["tokensAfter"] < compaction["tokensBefore"]
        and compaction["identifiersKept"] == compaction["identifiersRequired"]
        for compaction in report["compactions"]
    )


def test_every_turn_is_told_with_its_flushes_and_compactions(story: dict[str, Any]) -> None:
    report, turns = story["report"], story["turns"]
    assert [turn["turn"] for turn in turns] == list(range(1, report["turns"] + 1))
    assert sum(turn["compactions"] for turn in turns) == len(report["compactions"])
    assert sum(turn["flushes"] for turn in turns) == len(report["flushes"])
    assert all(0 < turn["tokens"] <= 8000 for turn in turns)


def test_memory_flushes_before_the_first_compaction(story: dict[str, Any]) -> None:
    first = next(turn["turn"] for turn in story["turns"] if turn["compactions"])
    assert any(turn["flushes"] for turn in story["turns"][:first])


def test_memory_answers_three_questions_in_two_languages_with_their_source_lines(
    story: dict[str, Any],
) -> None:
    answers = story["answers"]
    shipped = json.loads((ROOT / "examples/demo/questions.json").read_text(encoding="utf-8"))
    assert [answer["question"] for answer in answers] == [item["question"] for item in shipped]
    assert len(answers) == 3
    assert any(not answer["question"].isascii() for answer in answers)
    for answer, item in zip(answers, shipped, strict=True):
        source = answer["source"]
        assert source["citation"] == f"{source['path']}#L{source['line']}"
        assert source["path"].startswith("memory/2026-10-")
        assert all(word in source["text"] for word in item["expect"])
        assert all(word in answer["reply"] for word in item["expect"])


def test_the_answers_had_been_said_and_compacted_away_before_they_were_asked_for(
    story: dict[str, Any],
) -> None:
    compacting = {turn["turn"] for turn in story["turns"] if turn["compactions"]}
    for answer in story["answers"]:
        assert 1 <= answer["saidInTurn"] < answer["compactedInTurn"]
        assert answer["compactedInTurn"] in compacting
        assert answer["leftInWindow"] == []
        assert answer["proved"]


def test_the_page_prints_no_escape_codes_into_a_pipe_even_where_colour_is_forced(
    text_run: Run,
) -> None:
    assert "\x1b" not in text_run.out


def test_the_page_stays_within_80_columns(text_run: Run) -> None:
    assert max(cell_len(line) for line in text_run.out.splitlines()) <= 80


def test_the_page_shows_what_the_report_says(text_run: Run, story: dict[str, Any]) -> None:
    report = story["report"]
    assert f"⇣ {len(report['compactions'])} compactions" in text_run.out
    assert f"✎ {len(report['flushes'])} flushes" in text_run.out
    for compaction in report["compactions"]:
        assert f"{compaction['tokensBefore']:,} → {compaction['tokensAfter']:,}" in text_run.out
    for answer in story["answers"]:
        assert answer["question"] in text_run.out
        assert answer["source"]["citation"] in text_run.out
    assert "✗" not in text_run.out
    for way_on in ("README.md", "hermitcrab chat", "hermitcrab replay FILE"):
        assert way_on in " ".join(text_run.out.split())


def test_a_narrow_terminal_gets_the_tables_one_below_the_other(kept_run: tuple[Run, Path]) -> None:
    run, _ = kept_run
    lines = run.out.splitlines()
    assert run.code == 0
    assert max(cell_len(line) for line in lines) <= 60
    titles = [line.rstrip() for line in lines if line.startswith(("⇣ ", "✎ "))]
    assert [title[0] for title in titles] == ["⇣", "✎"]


def test_a_word_that_memory_does_not_know_is_marked_and_fails_the_demo(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "examples" / "demo", copy / "examples" / "demo")
    file = copy / "examples" / "demo" / "questions.json"
    questions = json.loads(file.read_text(encoding="utf-8"))
    questions[0]["expect"].append("Atlantis")
    file.write_text(json.dumps(questions), encoding="utf-8")
    run = run_demo(tmp_path / "run", folder=copy, COLUMNS="80")
    assert run.code == 1
    assert "✗ Atlantis" in run.out
    assert "✓ 5437" in run.out


def test_keep_leaves_sessions_and_memory_in_the_folder_that_it_names(
    kept_run: tuple[Run, Path],
) -> None:
    run, kept = kept_run
    assert run.left_behind == []
    assert list((kept / "workspace" / "memory").glob("2026-10-*.md"))
    assert list((kept / "agents" / "main" / "sessions").glob("*.jsonl"))
    assert "HERMITCRAB_HOME=" in run.out


def test_keep_refuses_a_folder_that_holds_something(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "mine.txt").write_text("mine", encoding="utf-8")
    run = run_demo(tmp_path / "run", "--keep", str(kept))
    assert run.code == 2
    assert "not empty" in run.err
    assert [path.name for path in kept.iterdir()] == ["mine.txt"]
