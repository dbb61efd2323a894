"""Damaged and hostile sources: what cannot be imported is named, and everything else comes along (design 5)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.config import config_from
from hermitcrab.sessions import import_sessions
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.importing import sources as import_sources
from hermitcrab.sessions.importing.copying import STEPS, bring_in
from hermitcrab.sessions.importing.names import parse_name, safe_session_id, session_file
from hermitcrab.sessions.importing.plan import plan_import
from hermitcrab.sessions.importing.sources import survey_sources
from hermitcrab.sessions.importing.values import PlanOptions
from hermitcrab.sessions.keys import is_session_id
from hermitcrab.sessions.reading import read_transcript


@pytest.fixture
def folder(tmp_path) -> Path:
    """The sessions folder of the agent `main` in a home."""
    folder = tmp_path / "theirs" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def write(folder, files):
    """Writes a transcript with one message; more lines follow as they are."""

    def transcript(session_id="s1", *lines, header=True, name=None):
        made = type(files)(folder).write(
            files.message("e1", None, f"text of {session_id}"),
            *lines,
            header={**files.header, "id": session_id} if header else None,
            session_id="made",
        )
        return made.rename(folder / (name or f"{session_id}.jsonl"))

    return transcript


@pytest.fixture
def rows(folder):
    return lambda value: (folder / "sessions.json").write_text(
        value if isinstance(value, str) else json.dumps(value)
    )


@pytest.fixture
def take(tmp_path):
    def take(source=None, **options):
        source = tmp_path / "theirs" if source is None else source
        return import_sessions(
            source, home=tmp_path / "ours", config=config_from({}, environ={}), **options
        )

    return take


@pytest.fixture
def ours(tmp_path) -> Path:
    return tmp_path / "ours" / "agents" / "main" / "sessions"


def entries(folder: Path):
    table = SessionEntries(folder / "sessions.sqlite")
    try:
        return {entry.key: entry for entry in table.list()}
    finally:
        table.close()


def reasons(report) -> str:
    return "\n".join(f"{each.path.name}: {each.reason}" for each in report.left_out)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "nonsense", '"text"', "[" * 100_000, "\x00", '{"a": 1}']
)
def test_transcripts_come_along_when_their_entries_are_lost(content, write, rows, take, ours):
    """#77783, #66522: an empty or broken `sessions.json` must not cost a conversation."""
    write()
    rows(content)
    report = take()
    assert report.count("imported") == 1
    assert list(entries(ours)) == ["agent:main:import:s1"]
    assert bool(report.notes) == (content != '{"a": 1}')


@pytest.mark.parametrize("key", ["agent:..:x", "agent:main:", "agent::x", "agent:a/b:x"])
def test_a_malformed_key_is_told_and_its_conversation_gets_another(key, write, rows, take, ours):
    write()
    rows({key: {"sessionId": "s1", "label": "Kept?"}})
    report = take()
    assert any("malformed session key" in note for note in report.notes)
    assert list(entries(ours)) == ["agent:main:import:s1"]
    assert not (ours.parents[1] / "..").joinpath("x").exists()


@pytest.mark.parametrize("session_id", ["../../evil", "a/b", "", ".hidden", "x" * 200, 7, None])
def test_a_session_id_that_is_no_file_name_is_refused(
    session_id, write, rows, take, ours, tmp_path
):
    write("good")
    rows({"main": {"sessionId": session_id}, "other": {"sessionId": "good"}})
    report = take()
    assert "is not safe as a file name" in reasons(report)
    assert list(entries(ours)) == ["agent:main:other"]
    assert not list(tmp_path.rglob("evil*"))


def test_a_header_with_an_unsafe_id_is_refused(write, take, ours):
    write("../../evil", name="a.jsonl")
    report = take()
    assert "'../../evil' is not safe as a file name" in reasons(report)
    assert not report.sessions


def test_rows_that_are_no_objects_are_refused(write, rows, take, ours):
    write()
    rows({"main": 7, "a": None, "b": [], "c": "text"})
    report = take()
    assert len(report.left_out) == 4
    assert list(entries(ours)) == ["agent:main:import:s1"]


def test_values_of_any_kind_do_no_harm(write, rows, take, ours):
    """What a field does not take is told, and the others are kept."""
    write()
    junk = {
        "label": "x" * 5000,
        "channel": ["x"],
        "origin": "x",
        "fastMode": {},
        "updatedAt": 1e400,
        "sessionStartedAt": -1,
        "lastInteractionAt": True,
        "compactionCount": "many",
        "spawnedBy": {},
        "queueCap": "\ud800",
        "key": "agent:main:other",
    }
    rows({"main": {**junk, "sessionId": "s1", "thinkingLevel": "high"}})
    report = take()
    entry = entries(ours)["agent:main:main"]
    assert entry.thinking_level == "high"
    assert entry.unknown == {"queueCap": "\ufffd"}
    assert entry.updated_at == entry.session_started_at > 0
    assert len(report.notes) == 5
    assert report.is_complete


def test_links_are_not_followed(write, take, ours, tmp_path, folder):
    """A link could lead out of what the user named; the report says so."""
    outside = write("secret").rename(tmp_path / "secret.jsonl")
    (folder / "linked.jsonl").symlink_to(outside)
    (folder / "sessions.json").symlink_to(tmp_path / "missing.json")
    agent = tmp_path / "theirs" / "agents" / "linked"
    (tmp_path / "elsewhere" / "sessions").mkdir(parents=True)
    agent.symlink_to(tmp_path / "elsewhere")
    report = take()
    assert not report.sessions
    assert not report.is_complete
    assert reasons(report).count("it is a link") == 2
    assert len(report.notes) == 1
    assert take(folder / "linked.jsonl").is_complete, "the user named it"


def test_a_file_outside_of_the_home_is_never_read(write, rows, take, ours, tmp_path):
    """Sessions 2.1: an entry's file resolves inside of the sessions folder, or not at all."""
    outside = write("secret").rename(tmp_path / "secret.jsonl")
    write("s1")
    for text in (str(outside), "../../../../secret.jsonl", "..\\..\\secret.jsonl", "\0"):
        rows({"main": {"sessionId": "s1", "sessionFile": text}})
        report = take(dry_run=True)
        [session] = report.sessions
        assert session.source.name == "s1.jsonl", text
    rows({"main": {"sessionId": "secret", "sessionFile": str(outside)}})
    assert "the transcript of session secret is not there" in reasons(take(dry_run=True))


def test_conversations_in_a_database_are_named(write, take, folder):
    """A newer generation keeps them there; the user must not take the import for a whole one."""
    write()
    (folder.parent / "agent").mkdir()
    (folder.parent / "agent" / "agent.sqlite").write_bytes(b"")
    assert "agent.sqlite: it may hold conversations" in reasons(take())


def test_files_that_are_no_files_do_not_block(write, take, folder):
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.jsonl").mkdir()
    write()
    report = take()
    assert report.count("imported") == 1
    assert "pipe.jsonl: it is no regular file" in reasons(report)


def test_a_huge_line_is_refused_before_it_is_held_in_memory(write, take, folder, monkeypatch):
    monkeypatch.setattr(import_sources, "LONGEST_LINE", 3_000_000)
    write("s1", b"x" * 3_000_001 + b"\n")
    write("s2", b"y" * 2_000_000 + b"\n", b"z" * 2_000_000 + b"\n")
    report = take()
    assert "s1.jsonl: a line of it is longer than 3,000,000 bytes" in reasons(report)
    assert [session.session_id for session in report.sessions] == ["s2"]


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        ([b"{broken\n"], ["text of s1"]),
        ([b'{"type":"mess'], ["text of s1"]),
        ([b"[1,2]\n", b"\n", b"\xff\xfe\n"], ["text of s1"]),
    ],
    ids=["bad line", "torn tail", "other JSON and bytes"],
)
def test_damage_comes_along_and_costs_nothing_else(lines, texts, write, take, ours):
    """Design 5: bad lines are passed over; a torn tail stays, and what follows has a line of its own."""
    path = write("s1", *lines)
    assert take().count("imported") == 1
    copy = ours / "s1.jsonl"
    assert copy.read_bytes().startswith(path.read_bytes())
    contents = read_transcript(copy)
    assert [each["type"] for each in contents.branch()] == ["message", "custom"]
    assert take().count("unchanged") == 1


def test_a_transcript_without_a_header_is_named_after_its_file(write, take, ours):
    """#89037: a damaged header must not cost the entries behind it."""
    write(header=False, name="my chat.jsonl")
    write(header=False, name="2026-02-03T04-05-06-789Z_fork.jsonl")
    assert take().count("imported") == 2
    known = {entry.session_id for entry in entries(ours).values()}
    assert known == {"fork", safe_session_id("my chat")}
    for session_id in known:
        assert len(read_transcript(ours / f"{session_id}.jsonl").branch()) == 2


def test_a_newer_format_is_left_out(files, folder, take):
    files.write(files.message("e1", None), header={**files.header, "version": 4})
    report = take(files.folder)
    assert "newer than 3; upgrade hermitcrab" in reasons(report)


def test_records_in_a_transcript_are_judged_like_rows(write, take, ours, files):
    """A foreign transcript may record any key and any earlier session."""
    record = {
        "type": "custom",
        "id": "r1",
        "parentId": "e1",
        "customType": "hermitcrab.entry",
        "data": {
            "key": "agent:..:x",
            "sessionId": "s1",
            "previousSessionIds": ["../../evil"],
            "label": "L",
        },
    }
    good = {**record, "id": "r2", "data": {**record["data"], "key": "agent:main:kept"}}
    write("s1", record)
    write("s2", {**good, "data": {**good["data"], "sessionId": "s2"}})
    report = take()
    assert report.count("imported") == 2
    found = entries(ours)
    assert set(found) == {"agent:main:import:s1", "agent:main:kept"}
    assert found["agent:main:kept"].previous_session_ids == ()
    assert found["agent:main:kept"].label == "L"


@pytest.mark.parametrize("step", STEPS)
def test_an_import_that_stops_at_any_step_is_completed_by_the_next(step, write, rows, take, ours):
    """What is there is whole, and a second run completes it."""
    write()
    rows({"main": {"sessionId": "s1", "label": "Kept"}})
    options = PlanOptions(default_agent="main", main_key="main", scope="per-sender", now=10**15)
    source = ours.parents[3] / "theirs"
    plan = plan_import(survey_sources(source, lambda *args: None), options)

    class Stopped(BaseException):
        pass

    def stop(reached):
        if reached == step:
            raise Stopped

    table = SessionEntries(ours / "sessions.sqlite")
    with pytest.raises(Stopped):
        bring_in(plan.wanted[0], ours, table, lock_timeout_ms=100, on_step=stop)
    table.close()
    for path in ours.glob("*.jsonl"):
        assert [each["type"] for each in read_transcript(path).entries] == ["message", "custom"]
    assert take().is_complete
    assert entries(ours)["agent:main:main"].label == "Kept"
    assert not (ours / ".importing").exists()
    assert len(read_transcript(ours / "s1.jsonl").entries) == 2, "recorded once"


def test_what_a_killed_import_left_in_the_workshop_is_cleared_away(write, rows, take, ours):
    """A process can be killed after its transcript is in place and before it has tidied up."""
    write()
    rows({"main": {"sessionId": "s1"}})
    assert take().is_complete
    for file in ours.glob("sessions.sqlite*"):
        file.unlink()
    (ours / ".importing").mkdir(mode=0o700)
    (ours / ".importing" / "s1.jsonl.lock").write_text("")
    (ours / ".importing" / "s1.jsonl").write_text("half a copy")
    SessionEntries(ours / "sessions.sqlite").close()
    take()
    assert not (ours / ".importing").exists()


@given(st.text())
def test_any_text_gives_a_session_id_that_is_safe(text):
    assert is_session_id(safe_session_id(text))
    assert safe_session_id(safe_session_id(text)) == safe_session_id(text)


@given(st.text() | st.lists(st.sampled_from(["..", "/", "agents", "main", "sessions", "a.jsonl"])))
def test_an_entry_never_names_a_file_outside_of_its_agents(text):
    text = "/".join(text) if isinstance(text, list) else text
    home = Path("/home/agents")
    found = session_file(text, home / "main" / "sessions")
    if found is not None:
        assert ".." not in found.parts
        assert found.is_relative_to(home)


def test_names_are_told_apart():
    """Sessions 2.1, 2.10: topics, forks and archives."""
    topic = parse_name("id-topic-a%3Ab.jsonl")
    assert (topic.session_id, topic.topic) == ("id", "a:b")
    fork = parse_name("2026-02-03T04-05-06-789Z_id.jsonl")
    assert (fork.session_id, fork.is_plain) == ("id", False)
    archive = parse_name("id.jsonl.reset.2026-02-03T04-05-06.789Z")
    assert (archive.session_id, archive.archived) == ("id", "reset")
    assert parse_name("sessions.json") is None
    assert parse_name(".jsonl") is None
