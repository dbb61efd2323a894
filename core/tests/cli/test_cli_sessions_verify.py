"""``hermitcrab sessions verify``: what is wrong with transcripts is named, and mended when asked."""

from __future__ import annotations

import json

import pytest

from hermitcrab.sessions.blobs.files import blob_folder, store_entry
from hermitcrab.sessions.format import encode_line


@pytest.fixture
def talked(cli):
    cli("run", "-m", "The harbour code is 4711.")
    return cli


@pytest.fixture
def transcript(talked):
    """The file of the session ``main``."""
    session_id = talked.json("sessions", "list")[0]["sessionId"]
    return talked.home / "agents/main/sessions" / f"{session_id}.jsonl"


def damage(file):
    """Put a line that is no entry in the middle of a transcript; returns its byte offset."""
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], b'{"type":"mess\n', *lines[2:]]))
    return len(b"".join(lines[:2]))


def test_a_lost_image_is_named_and_cannot_be_mended(talked, transcript):
    """Design 5"""
    image = {"type": "image", "mimeType": "image/png", "data": "QUJD" * 1_000}
    entry = {"type": "message", "id": "a1", "message": {"role": "user", "content": [image]}}
    stored = store_entry(entry, transcript, flush=False)
    with transcript.open("ab") as lines:
        lines.write(encode_line(stored))
    [blob] = blob_folder(transcript).iterdir()
    talked("sessions", "verify")
    blob.rename(blob.with_name("f" * 64))
    text = talked("sessions", "verify", "--fix", code=1).stdout
    assert f"{transcript.stem}.blobs/{blob.name}: its file is missing (cannot be mended)" in text
    assert "note: no entry names 1 file" in text
    assert blob.with_name("f" * 64).exists()


def everything(home):
    return {
        str(file): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in home.rglob("*")
        if file.is_file()
    }


def kinds(report):
    return [finding["kind"] for finding in report["findings"]]


def faults(report):
    return [each["kind"] for each in report["findings"] if each["level"] == "error"]


def test_a_sound_home_has_no_findings(talked, transcript):
    (report,) = talked.json("sessions", "verify")
    assert report["path"] == str(transcript)
    assert report["key"] == "agent:main:main"
    assert report["sessionId"] == transcript.stem
    assert report["messages"] >= 2
    assert report["entries"] > report["messages"]
    assert (report["fixed"], report["backup"]) == (False, None)
    assert all(finding["level"] == "information" for finding in report["findings"])
    assert talked("sessions", "verify").stdout == "1 transcript, 0 findings\n"


def test_an_empty_home_is_sound_and_is_not_created(cli):
    assert cli.json("sessions", "verify") == []
    assert not cli.home.exists()


def test_damage_is_named_with_its_place_and_exits_with_1(talked, transcript):
    """C2."""
    offset = damage(transcript)
    (report,) = talked.json("sessions", "verify", code=1)
    (finding,) = [each for each in report["findings"] if each["level"] == "error"]
    assert (finding["kind"], finding["line"], finding["offset"]) == ("bad-line", 3, offset)
    assert finding["file"] == str(transcript)
    assert finding["fixable"] is True
    text = talked("sessions", "verify", code=1).stdout
    assert f"error: line 3, byte {offset}: no JSON" in text
    assert "--fix mends" in text


def test_verifying_writes_nothing_anywhere(talked, transcript):
    damage(transcript)
    before = everything(talked.home)
    talked("sessions", "verify", code=1)
    talked("sessions", "verify", "main", code=1)
    talked("sessions", "verify", str(transcript), "--json", code=1)
    assert everything(talked.home) == before


def test_fix_mends_with_a_backup_and_the_conversation_goes_on(talked, transcript):
    shown = talked.json("sessions", "show", "main")["messages"]
    sound = transcript.read_bytes()
    damage(transcript)
    damaged = transcript.read_bytes()
    (report,) = talked.json("sessions", "verify", "--fix")
    assert report["fixed"] is True
    assert "bad-line" in kinds(report)
    with open(report["backup"], "rb") as backup:
        assert backup.read() == damaged
    assert transcript.read_bytes() == sound
    assert talked("sessions", "verify").stdout == "1 transcript, 0 findings\n"
    assert talked.json("sessions", "show", "main")["messages"] == shown
    talked("run", "-m", "Hello again")
    assert talked("sessions", "verify").stdout == "1 transcript, 0 findings\n"


def test_fix_says_where_the_backup_is(talked, transcript):
    damage(transcript)
    text = talked("sessions", "verify", "--fix").stdout
    assert f"mended; as it was: {transcript}.bak-" in text
    assert text.endswith("1 transcript, 1 finding, 0 left\n")


def test_a_session_whose_transcript_is_missing_is_named(talked, transcript):
    """C10."""
    transcript.unlink()
    (report,) = talked.json("sessions", "verify", code=1)
    assert kinds(report) == ["missing-transcript"]
    assert report["key"] == "agent:main:main"
    assert kinds(talked.json("sessions", "verify", "main", "--fix", code=1)[0]) == kinds(report)
    assert "cannot be mended" in talked("sessions", "verify", code=1).stdout


def test_a_transcript_that_no_session_names_is_information(talked, transcript):
    other = transcript.with_name("other.jsonl")
    other.write_bytes(transcript.read_bytes().replace(transcript.stem.encode(), b"other"))
    by_path = {report["path"]: report for report in talked.json("sessions", "verify")}
    assert kinds(by_path[str(other)]) == ["orphan"]
    assert by_path[str(other)]["key"] is None


def test_an_archived_transcript_belongs_to_its_key(talked, transcript):
    talked("run", "-m", "/new")
    reports = talked.json("sessions", "verify")
    assert len(reports) == 2
    assert {report["key"] for report in reports} == {"agent:main:main"}


def test_a_lock_file_is_mentioned_where_it_was_asked_for(talked, transcript):
    assert transcript.with_name(f"{transcript.name}.lock").exists()
    assert "lock-file" in kinds(talked.json("sessions", "verify")[0])
    assert "blocks nobody" in talked("sessions", "verify", "main").stdout
    assert "blocks nobody" not in talked("sessions", "verify").stdout


def test_entries_that_cannot_be_read_are_named_and_left_alone(talked, transcript):
    table = transcript.with_name("sessions.sqlite")
    table.write_bytes(b"no database at all" * 100)
    first, second = talked.json("sessions", "verify", code=1)
    assert kinds(first) == ["unreadable-entries"]
    assert second["path"] == str(transcript)
    assert table.read_bytes().startswith(b"no database")


def test_a_file_anywhere_can_be_verified_and_mended(cli, recording):
    assert faults(cli.json("sessions", "verify", str(recording))[0]) == []
    damage(recording)
    assert faults(cli.json("sessions", "verify", str(recording), code=1)[0]) == ["bad-line"]
    (report,) = cli.json("sessions", "verify", str(recording), "--fix")
    assert report["fixed"] is True
    assert (report["key"], report["sessionId"]) == (None, "recorded")


def test_one_file_that_cannot_be_mended_does_not_keep_the_others_from_it(cli, recording):
    newer = recording.with_name("newer.jsonl")
    newer.write_text(json.dumps({"type": "session", "version": 9, "id": "newer"}) + "\n", "utf-8")
    missing = str(recording.with_name("missing.jsonl"))
    damage(recording)
    reports = cli.json("sessions", "verify", str(newer), missing, str(recording), "--fix", code=1)
    assert [faults(report) for report in reports] == [["newer-format"], ["failed"], ["bad-line"]]
    assert [report["fixed"] for report in reports] == [False, False, True]


def test_a_session_that_is_not_there_is_an_error(talked):
    assert "there is no session" in talked("sessions", "verify", "nowhere", code=1).stderr
