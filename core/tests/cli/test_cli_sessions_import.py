"""``hermitcrab sessions import`` and ``sessions export``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from hermitcrab.cli.root import program

KEY = "agent:main:import:recorded"


@pytest.fixture
def theirs(tmp_path, recording):
    """A sessions folder of the reference with one conversation, and a file that is none."""
    folder = tmp_path / "theirs" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    recording.rename(folder / "recorded.jsonl")
    (folder / "other.jsonl").write_text("nothing\n")
    (folder / "sessions.json").write_text(
        json.dumps({"main": {"sessionId": "recorded", "label": "Harbour", "fastMode": "never"}})
    )
    return tmp_path / "theirs"


def test_an_import_says_what_came_and_what_did_not(cli, theirs):
    result = cli("sessions", "import", str(theirs))
    assert "agent:main:main  6 messages" in result.stdout
    assert "1 conversation imported; 1 file left out" in result.stdout
    assert "other.jsonl: no line of it is an entry of a transcript" in result.stderr
    assert "fastMode cannot be 'never'" in result.stderr
    assert "Question 2?" in cli("sessions", "show", "main").stdout
    again = cli("sessions", "import", str(theirs))
    assert "0 conversations imported; 1 here already and unchanged" in again.stdout


def test_a_dry_run_writes_nothing(cli, theirs):
    result = cli("sessions", "import", str(theirs), "--dry-run")
    assert "1 conversation would be imported" in result.stdout
    assert not cli.home.exists()


def test_an_import_speaks_json(cli, theirs):
    report = cli.json("sessions", "import", str(theirs))
    [session] = report["sessions"]
    assert session["keys"] == ["agent:main:main"]
    assert (session["action"], session["messages"]) == ("imported", 6)
    assert [each["path"].endswith("other.jsonl") for each in report["leftOut"]] == [True]
    assert report["complete"] is True


def test_a_conflict_is_an_error_with_a_way_out(cli, theirs, recording, tmp_path):
    cli("sessions", "import", str(theirs))
    file = theirs / "agents/main/sessions/recorded.jsonl"
    other = tmp_path / "other.jsonl"
    other.write_bytes(file.read_bytes().replace(b"Question 0?", b"Another question?"))
    result = cli("sessions", "import", str(other), code=1)
    assert "is here with other content as agent:main:main; --key imports it" in result.stderr
    assert "1 not imported" in result.stdout
    cli("sessions", "import", str(other), "--key", "other")
    assert "Another question?" in cli("sessions", "show", "other").stdout
    assert "Question 0?" in cli("sessions", "show", "main").stdout


def test_a_transcript_is_given_to_an_agent(cli, recording):
    cli("sessions", "import", str(recording), "--agent", "work")
    [entry] = cli.json("sessions", "list")
    assert entry["key"] == "agent:work:import:recorded"


def test_nothing_to_import_is_an_error(cli, tmp_path):
    result = cli("sessions", "import", str(tmp_path / "nowhere"), code=1)
    assert "there is nothing to import" in result.stderr
    (tmp_path / "empty").mkdir()
    assert (
        "0 conversations imported"
        in cli("sessions", "import", str(tmp_path / "empty"), code=1).stdout
    )


def test_an_export_goes_to_stdout(cli, recording):
    original = recording.read_bytes()
    cli("sessions", "import", str(recording))
    page = cli("sessions", "export", KEY).stdout
    assert page.startswith(f"# {KEY}")
    assert "> Question 2?" in page
    assert cli("sessions", "export", KEY, "--format", "html").stdout.startswith("<!DOCTYPE html>")
    lines = CliRunner().invoke(
        program, ["--home", str(cli.home), "sessions", "export", KEY, "--format", "jsonl"]
    )
    assert lines.stdout_bytes.startswith(original)


def test_an_export_to_a_file_replaces_none(cli, recording, tmp_path):
    cli("sessions", "import", str(recording))
    file = tmp_path / "page.html"
    arguments = ("sessions", "export", KEY, "--format", "html", "--output", str(file))
    result = cli(*arguments)
    assert str(file) in result.stderr
    assert result.stdout == ""
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("mine")
    assert "this file exists" in cli(*arguments, code=1).stderr
    assert file.read_text() == "mine"
    cli(*arguments, "--force")
    assert file.read_text().startswith("<!DOCTYPE html>")
    nowhere = str(tmp_path / "no" / "folder.md")
    assert "cannot be written" in cli("sessions", "export", KEY, "--output", nowhere, code=1).stderr


def test_an_unknown_session_is_an_error_and_leaves_no_file(cli, tmp_path):
    file = tmp_path / "out.md"
    result = cli("sessions", "export", "nobody", "--output", str(file), code=1)
    assert "there is no session 'agent:main:nobody'" in result.stderr
    assert not file.exists()


def test_a_transcript_is_never_redacted(cli, recording):
    cli("sessions", "import", str(recording))
    result = cli("sessions", "export", KEY, "--format", "jsonl", "--redact", code=2)
    assert "--redact is for the others" in result.stderr
