"""``hermitcrab replay``: what it prints, where it writes, and bad input."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest


def test_json_is_the_report_and_nothing_else_stands_on_stdout(cli, recording):
    report = cli.json("replay", str(recording), "--context-window", "8000")
    assert report["turns"] == 3
    assert report["contextWindow"] == 8000
    assert report["overflows"] == 0
    assert report["pairing"] == {"orphanResults": 0, "missingResults": 0}
    assert report["sessionKey"] == "agent:main:replay:recorded"
    assert Path(report["sessionFile"]).is_file()
    assert report["source"]["badLines"] == 0


def test_it_says_first_on_stderr_which_new_session_it_writes(cli, recording):
    result = cli("replay", str(recording))
    first, second, *_ = result.stderr.splitlines()
    found = re.fullmatch(
        r"session agent:main:replay:recorded, new session id ([0-9a-f-]{36})", first
    )
    assert found is not None
    assert str(cli.home) in second
    assert f"{found[1]}.jsonl" in second


def test_each_run_writes_a_session_of_its_own(cli, recording):
    files = {cli.json("replay", str(recording))["sessionFile"] for _ in range(2)}
    assert len(files) == 2
    assert all(Path(file).is_file() for file in files)


def test_the_table_shows_what_was_measured(cli, recording):
    text = cli("replay", str(recording), "--context-window", "8000").stdout
    for line in (
        r"window +8,000 tokens",
        r"turns +3",
        r"peak +\d+ tokens",
        r"overflows +0",
        r"compactions +0",
        r"flushes +0, 0 bytes",
        r"pairing +0 orphan results, 0 missing results",
        r"memory +0 files, 0 chunks",
        r"timings +",
        r"session +agent:main:replay:recorded",
    ):
        assert re.search(f"^{line}", text, re.MULTILINE), line


def test_compactions_stand_in_a_table_of_their_own():
    from click.testing import CliRunner

    from hermitcrab.cli.root import program

    demo = Path(__file__).resolve().parents[3] / "examples/demo/conversation.jsonl"
    result = CliRunner().invoke(
        program, ["replay", str(demo), "--context-window", "16000", "--scratch", "--until", "40"]
    )
    assert result.exit_code == 0
    assert re.search(r"^compaction +before +after +summary +messages", result.stdout, re.MULTILINE)
    assert re.search(r"^ +1 +[\d,]+ +[\d,]+", result.stdout, re.MULTILINE)


def test_until_counts_user_turns(cli, recording):
    assert cli.json("replay", str(recording), "--until", "2")["turns"] == 2


def test_scratch_leaves_nothing_behind_and_says_so(cli, recording, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    desk = tmp_path / "desk"
    cli.configure(f"agents:\n  defaults:\n    workspace: {desk}\n")
    result = cli("replay", str(recording), "--scratch", "--json")
    assert "removed afterwards" in result.stderr
    file = Path(json.loads(result.stdout)["sessionFile"])
    assert not file.parents[3].exists()
    assert sorted(path.name for path in cli.home.iterdir()) == ["config.yaml"]
    assert not desk.exists()


def test_an_engine_that_is_not_there_is_loud_and_the_replay_goes_on(cli, recording):
    """C98."""
    result = cli("replay", str(recording), "--engine", "nowhere", "--json")
    report = json.loads(result.stdout)
    assert report["engine"] == "legacy"
    assert "nowhere" in report["degraded"]
    assert "warning: the engine legacy answers: context engine 'nowhere'" in result.stderr


def test_another_agent_gets_a_session_of_its_own(cli, recording):
    report = cli.json("replay", str(recording), "--agent", "ops")
    assert report["sessionKey"] == "agent:ops:replay:recorded"
    assert "agents/ops/sessions" in report["sessionFile"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "this file is empty"),
        (os.urandom(4096), "no line of this file is a transcript entry"),
        (b"\x00" * 4096, "no line of this file is a transcript entry"),
        (b"hello\nworld\n", "no line of this file is a transcript entry"),
        (b"x" * 20_000_000, "no line of this file is a transcript entry"),
        (
            b'{"type":"session","version":3,"id":"a","timestamp":"2026-10-05T07:00:00Z"}\n',
            "the transcript holds no messages",
        ),
    ],
    ids=["empty", "binary", "zeros", "text", "one line of 20 MB", "header only"],
)
def test_a_file_that_is_no_transcript_is_one_clear_line(cli, tmp_path, content, message):
    file = tmp_path / "input.jsonl"
    file.write_bytes(content)
    result = cli("replay", str(file), "--json", code=1)
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {file}: {message}")
    assert result.stderr.count("\n") == 1
    assert file.read_bytes() == content
    assert not cli.home.exists()


def test_a_missing_file_and_a_directory_are_one_clear_line(cli, tmp_path):
    missing = cli("replay", str(tmp_path / "nowhere.jsonl"), code=1).stderr
    assert "nowhere.jsonl: there is no such transcript" in missing
    folder = cli("replay", str(tmp_path), code=1).stderr
    assert f"{tmp_path}: this is a directory" in folder
    assert missing.count("\n") == folder.count("\n") == 1


def test_a_header_cut_in_half_is_a_warning_and_the_replay_goes_on(cli, recording):
    whole = recording.read_text(encoding="utf-8")
    header, rest = whole.split("\n", 1)
    cut = f"{header[: len(header) // 2]}\n{rest}"
    recording.write_text(cut, encoding="utf-8")
    result = cli("replay", str(recording), "--json")
    assert "warning: the header is missing or damaged" in result.stderr
    report = json.loads(result.stdout)
    assert report["turns"] == 3
    assert report["sessionKey"] == "agent:main:replay:recording"
    assert recording.read_text(encoding="utf-8") == cut


def test_a_broken_line_in_the_middle_is_counted_and_the_replay_goes_on(cli, recording):
    lines = recording.read_text(encoding="utf-8").splitlines()
    lines.insert(3, '{"type":"mess')
    recording.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = cli("replay", str(recording), "--json")
    report = json.loads(result.stdout)
    assert report["source"]["badLines"] == 1
    assert report["turns"] == 3
    assert "1 line holds no entry and is passed over" in result.stderr


@pytest.mark.parametrize("words", [400_000, pytest.param(4_000_000, marks=pytest.mark.slow)])
def test_a_message_of_2_or_20_mb_on_one_line_fits_the_window(cli, recording, words):
    lines = recording.read_text(encoding="utf-8").splitlines()
    entry = json.loads(lines[1])
    entry["message"]["content"][0]["text"] = "word " * words
    lines[1] = json.dumps(entry)
    recording.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = cli.json("replay", str(recording), "--context-window", "8000")
    assert report["overflows"] == 0
    assert report["peakTokens"] <= 8000
    assert Path(report["sessionFile"]).stat().st_size > 5 * words


def test_a_model_that_nobody_knows_is_an_error_before_a_session_begins(cli, recording):
    error = cli("replay", str(recording), "--model", "nowhere/x", code=1).stderr
    assert "there is no provider 'nowhere'" in error
    assert not list(cli.home.rglob("*.jsonl"))


def test_numbers_out_of_range_are_wrong_usage(cli, recording):
    for option in (["--context-window", "10"], ["--until", "0"], ["--until", "many"]):
        assert cli("replay", str(recording), *option, code=2).stderr.count("\n") == 1
