"""Importing conversations: whole homes of the reference, folders, single transcripts (sessions 2, 3)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attrs import evolve

from hermitcrab.config import config_from
from hermitcrab.errors import SessionError, TranscriptError
from hermitcrab.messages import user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions import import_sessions
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.reading import read_transcript
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "coding-session-v1.jsonl"
MAIN = "0b5c1f0e-8f7b-4a4b-9a39-000000000001"
GROUP = "0b5c1f0e-8f7b-4a4b-9a39-000000000002"
TOPIC = "0b5c1f0e-8f7b-4a4b-9a39-000000000003"
FORK = "0b5c1f0e-8f7b-4a4b-9a39-000000000004"
WORK = "0b5c1f0e-8f7b-4a4b-9a39-000000000005"
OLD = "0b5c1f0e-8f7b-4a4b-9a39-00000000000a"
LOST = "0b5c1f0e-8f7b-4a4b-9a39-00000000000b"
NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Source:
    """A home of the reference, made file by file."""

    def __init__(self, root: Path, files) -> None:
        self.root = root
        self._make = type(files)

    def folder(self, agent: str = "main") -> Path:
        folder = self.root / "agents" / agent / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def transcript(self, session_id: str, *texts: str, agent: str = "main", name: str = "") -> Path:
        """A transcript of version 3 with these texts, one entry each."""
        files = self._make(self.folder(agent))
        entries = []
        for number, text in enumerate(texts):
            parent = entries[-1]["id"] if entries else None
            moment = f"2026-03-01T12:0{number + 1}:00.000Z"
            entries.append(
                files.message(f"{session_id[-2:]}{number:06}", parent, text, timestamp=moment)
            )
        header = {**files.header, "id": session_id}
        path = files.write(*entries, header=header, session_id="made")
        return path.rename(path.with_name(name or f"{session_id}.jsonl"))

    def rows(self, rows, agent: str = "main") -> Path:
        file = self.folder(agent) / "sessions.json"
        text = rows if isinstance(rows, str) else json.dumps(rows)
        file.write_text(text, encoding="utf-8")
        return file


class Target:
    """The home that conversations are imported into."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def take(self, source: Path, **options):
        options.setdefault("config", config_from({}, environ={}))
        return import_sessions(source, home=self.home, clock=lambda: NOW, **options)

    def folder(self, agent: str = "main") -> Path:
        return self.home / "agents" / agent / "sessions"

    def entries(self, agent: str = "main") -> dict[str, SessionEntry]:
        table = SessionEntries(self.folder(agent) / "sessions.sqlite")
        try:
            return {entry.key: entry for entry in table.list()}
        finally:
            table.close()

    def texts(self, session_id: str, agent: str = "main") -> list[str]:
        contents = read_transcript(self.folder(agent) / f"{session_id}.jsonl")
        messages = [entry["message"] for entry in contents.branch() if entry["type"] == "message"]
        return [text_of(message) for message in messages]

    def without_table(self, agent: str = "main") -> dict[str, SessionEntry]:
        """What is left once the table is lost and was made again from the transcripts."""
        for file in self.folder(agent).glob("sessions.sqlite*"):
            file.unlink()
        return self.entries(agent)

    def files(self) -> dict[str, bytes]:
        return {
            str(file.relative_to(self.home)): file.read_bytes()
            for file in sorted(self.home.rglob("*"))
            if file.is_file() and not file.name.startswith("sessions.sqlite")
        }


@pytest.fixture
def source(tmp_path, files) -> Source:
    return Source(tmp_path / "theirs", files)


@pytest.fixture
def target(tmp_path) -> Target:
    return Target(tmp_path / "ours")


@pytest.fixture
def whole_home(source: Source) -> Source:
    """Two agents, a group with a topic, a fork, archives, checkpoints, and other files."""
    source.transcript(MAIN, "one", "two")
    source.transcript(GROUP, "in the group")
    source.transcript(TOPIC, "in the topic", name=f"{TOPIC}-topic-a%3Ab.jsonl")
    source.transcript(FORK, "forked", name=f"2026-02-03T04-05-06-789Z_{FORK}.jsonl")
    source.transcript(OLD, "before", name=f"{OLD}.jsonl.reset.2026-02-01T00-00-00.000Z")
    source.transcript(LOST, "whose?", name=f"{LOST}.jsonl.deleted.2026-02-02T00-00-00Z")
    (source.folder() / f"{MAIN}.checkpoint.{FORK}.jsonl").write_text("{}\n")
    (source.folder() / f"{MAIN}.jsonl.lock").write_text("")
    (source.folder() / "notes.txt").write_text("nothing")
    source.rows(
        {
            "main": {
                "sessionId": MAIN,
                "updatedAt": 1_772_500_000_000,
                "sessionStartedAt": 1_772_300_000_000,
                "lastInteractionAt": 1_772_400_000_000,
                "sessionFile": f"/home/somebody/.reference/agents/main/sessions/{MAIN}.jsonl",
                "label": "Harbour",
                "thinkingLevel": "ultrathink",
                "providerOverride": "hosted",
                "modelOverride": "large",
                "verboseLevel": "all",
                "sendPolicy": "deny",
                "compactionCount": 2,
                "usageFamilySessionIds": [OLD, MAIN],
                "provider": "telegram",
                "room": "#harbour",
                "queueMode": "collect",
                "contextTokens": 200_000,
                "skillsSnapshot": {"prompt": "long"},
                "status": "running",
                "spawnDepth": "deep",
            },
            "agent:main:Telegram:group:-100": {
                "sessionId": GROUP,
                "updatedAt": 5,
                "label": "Harbour",
            },
            "agent:main:telegram:group:-100:topic:7": {
                "sessionId": TOPIC,
                "sessionFile": f"{TOPIC}-topic-a%3Ab.jsonl",
            },
            "agent:main:dashboard:x": {"sessionId": FORK},
            "agent:main:gone": {"sessionId": LOST},
        }
    )
    source.transcript(WORK, "at work", agent="work")
    source.rows({"agent:work:main": {"sessionId": WORK, "updatedAt": 7}}, agent="work")
    return source


def test_a_whole_home_comes_along(whole_home, target):
    """Keys, session ids, entry ids, settings and times are kept; transcripts byte for byte."""
    report = target.take(whole_home.root)
    assert report.is_complete
    assert report.count("imported") == 6
    entries = target.entries()
    assert {key: entry.session_id for key, entry in entries.items()} == {
        "agent:main:main": MAIN,
        "agent:main:telegram:group:-100": GROUP,
        "agent:main:telegram:group:-100:topic:7": TOPIC,
        "agent:main:dashboard:x": FORK,
    }
    assert list(target.entries("work")) == ["agent:work:main"]
    assert target.texts(MAIN) == ["one", "two"]
    assert target.texts(TOPIC) == ["in the topic"]
    for name in (MAIN, GROUP):
        original = (whole_home.folder() / f"{name}.jsonl").read_bytes()
        assert (target.folder() / f"{name}.jsonl").read_bytes().startswith(original)


def test_the_fields_of_a_row_are_read_as_patches_are(whole_home, target):
    """Levels by their aliases, fields by their older names; what has no meaning here is kept as it came."""
    report = target.take(whole_home.root)
    entry = target.entries()["agent:main:main"]
    assert (entry.thinking_level, entry.verbose_level, entry.send_policy) == (
        "high",
        "full",
        "deny",
    )
    assert (entry.provider_override, entry.model_override) == ("hosted", "large")
    assert (entry.label, entry.channel) == ("Harbour", "telegram")
    assert entry.updated_at == 1_772_500_000_000
    assert entry.session_started_at == 1_772_300_000_000
    assert entry.last_interaction_at == 1_772_400_000_000
    assert (entry.compaction_count, entry.message_count) == (2, 2)
    assert entry.status is None, "nothing runs here"
    assert entry.spawn_depth is None
    assert any("spawnDepth" in note for note in report.notes)
    assert entry.unknown["queueMode"] == "collect"
    assert entry.unknown["groupChannel"] == "#harbour"
    assert "skillsSnapshot" not in entry.unknown
    assert entry.context_tokens is None, "there it is the window of the model"


def test_a_label_that_is_taken_is_dropped_and_named(whole_home, target):
    report = target.take(whole_home.root)
    assert target.entries()["agent:main:telegram:group:-100"].label is None
    assert any("lost its label 'Harbour'" in note for note in report.notes)


def test_archives_come_along_where_their_key_is_known(whole_home, target):
    report = target.take(whole_home.root)
    assert target.entries()["agent:main:main"].previous_session_ids == (OLD,)
    assert target.texts(OLD) == ["before"]
    [archived] = [each for each in report.sessions if each.is_archived]
    assert (archived.keys, archived.session_id) == (("agent:main:main",), OLD)
    reasons = {each.path.name: each.reason for each in report.left_out}
    assert "nothing tells of which key" in reasons[f"{LOST}.jsonl.deleted.2026-02-02T00-00-00Z"]
    assert "checkpoint" in reasons[f"{MAIN}.checkpoint.{FORK}.jsonl"]
    assert f"session {LOST} is not there" in reasons["sessions.json"]
    assert not any("lock" in name or "notes" in name for name in reasons)
    assert report.other_files == 2


def test_a_second_import_changes_nothing_and_says_so(whole_home, target):
    target.take(whole_home.root)
    files, entries = target.files(), target.entries()
    report = target.take(whole_home.root)
    assert report.is_complete
    assert report.count("unchanged") == len(report.sessions) == 6
    assert (target.files(), target.entries()) == (files, entries)


def test_the_source_is_never_changed(whole_home, target):
    before = {path: path.read_bytes() for path in whole_home.root.rglob("*") if path.is_file()}
    times = {path: path.stat().st_mtime_ns for path in whole_home.root.rglob("*")}
    target.take(whole_home.root)
    assert {p: p.read_bytes() for p in whole_home.root.rglob("*") if p.is_file()} == before
    assert {path: path.stat().st_mtime_ns for path in whole_home.root.rglob("*")} == times


def test_a_dry_run_says_the_same_and_writes_nothing(whole_home, target):
    told = target.take(whole_home.root, dry_run=True)
    assert not target.home.exists()
    done = target.take(whole_home.root)
    assert told.dry_run
    assert told.sessions == done.sessions
    assert (told.left_out, told.notes) == (done.left_out, done.notes)


def test_a_lost_table_is_made_again_from_what_was_imported(whole_home, target):
    """Design 5: each key, label and override stands in the transcript too."""
    target.take(whole_home.root)
    entries = target.entries()
    rebuilt = target.without_table()
    assert rebuilt.keys() == entries.keys()
    main, known = rebuilt["agent:main:main"], entries["agent:main:main"]
    assert evolve(main, unknown={}) == evolve(known, unknown={})


@pytest.mark.parametrize("version", [1, 2])
def test_transcripts_of_older_versions_stay_as_they_are_until_they_are_written(
    version, source, target, clock
):
    """Design 7: read in place; the first write makes a copy of version 3 and leaves the old file alone."""
    path = source.folder() / "older.jsonl"
    lines = [
        {"type": "session", "id": "older", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/"},
        {"type": "message", "message": {"role": "user", "content": "first"}},
        {"type": "message", "message": {"role": "hookMessage", "content": "hooked"}},
        {"type": "compaction", "summary": "short", "firstKeptEntryIndex": 2},
    ]
    if version == 2:
        lines[0]["version"] = 2
        for number, line in enumerate(lines[1:]):
            line |= {"id": f"e{number}", "parentId": f"e{number - 1}" if number else None}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source.rows({"agent:main:old": {"sessionId": "older", "label": "Old", "updatedAt": 5}})
    target.take(source.root)
    assert (target.folder() / "older.jsonl").read_bytes().startswith(path.read_bytes())
    assert target.texts("older") == ["first", "hooked"]
    rebuilt = target.without_table()["agent:main:old"]
    assert (rebuilt.label, rebuilt.session_id) == ("Old", "older")
    assert target.take(source.root).count("unchanged") == 1


async def test_an_older_transcript_goes_on_after_the_import(source, target, clock):
    path = source.folder() / "older.jsonl"
    path.write_text(
        '{"type":"session","id":"older"}\n{"type":"message","message":{"role":"user","content":"first"}}\n'
    )
    target.take(source.root, key="agent:main:old")
    table = SessionEntries(target.folder() / "sessions.sqlite")
    sessions = Sessions(
        store=JsonlTranscriptStore(target.folder()), entries=table, clock=clock, cwd="/work"
    )
    log = await sessions.open("agent:main:old", create=False)
    await log.append_messages([user("second")])
    await sessions.close()
    assert target.texts(log.session_id) == ["first", "second"]
    assert target.entries()["agent:main:old"].previous_session_ids == ("older",)
    assert target.take(source.root).count("unchanged") == 1


def test_a_session_that_went_on_here_is_left_alone(source, target):
    """A second import of the source must not take back what was said since."""
    source.transcript(MAIN, "one")
    target.take(source.root)
    with (target.folder() / f"{MAIN}.jsonl").open("ab") as file:
        file.write(b'{"type":"message","id":"x","message":{"role":"user","content":"since"}}\n')
    report = target.take(source.root)
    assert report.count("unchanged") == 1
    assert target.texts(MAIN) == ["one", "since"]


def test_a_key_that_is_taken_is_a_conflict_with_a_way_out(source, target):
    """Nothing that stands here is written over."""
    source.transcript(MAIN, "theirs")
    source.rows({"agent:main:main": {"sessionId": MAIN}})
    other = Source(source.root.parent / "others", source._make(source.root))
    other.transcript(WORK, "others")
    other.rows({"agent:main:main": {"sessionId": WORK}})
    target.take(other.root)
    report = target.take(source.root)
    assert not report.is_complete
    [session] = report.sessions
    assert session.action == "conflict"
    assert f"here with another session, {WORK}" in session.reason
    assert not (target.folder() / f"{MAIN}.jsonl").exists()
    assert target.entries()["agent:main:main"].session_id == WORK
    named = target.take(source.root / "agents/main/sessions" / f"{MAIN}.jsonl", key="theirs")
    assert named.is_complete
    assert target.entries()["agent:main:theirs"].session_id == MAIN


def test_a_session_id_with_other_content_is_a_conflict_with_a_way_out(source, target):
    """The same id twice: with a key of its own the second one gets another id, and the same at every import."""
    path = source.transcript(MAIN, "one")
    target.take(source.root)
    source.transcript(MAIN, "quite another one")
    report = target.take(source.root)
    assert report.count("conflict") == 1
    assert target.texts(MAIN) == ["one"]
    for action in ("imported", "unchanged"):
        [session] = target.take(path, key="second").sessions
        assert session.action == action
        assert session.session_id.endswith(f"_{MAIN}")
        assert target.texts(session.session_id) == ["quite another one"]
    assert len(target.entries()) == 2


def test_a_transcript_that_nothing_names_gets_a_key_of_its_own(source, target):
    source.transcript("ABC", "one")
    source.transcript("XYZ", "two", name="XYZ-topic-42.jsonl")
    target.take(source.root)
    assert {key: entry.session_id for key, entry in target.entries().items()} == {
        "agent:main:import:abc": "ABC",
        "agent:main:import:xyz:topic:42": "XYZ",
    }


def test_everything_can_be_given_to_one_agent(whole_home, target):
    """Of two sessions that come to one key, the newer goes on, and the other one is kept as an earlier one."""
    report = target.take(whole_home.root, agent_id="other")
    assert report.is_complete
    assert list(target.home.glob("agents/*")) == [target.home / "agents" / "other"]
    entries = target.entries("other")
    assert "agent:other:telegram:group:-100" in entries
    assert entries["agent:other:main"].session_id == MAIN
    assert set(entries["agent:other:main"].previous_session_ids) == {OLD, WORK}
    assert target.texts(WORK, "other") == ["at work"]


def test_a_folder_of_transcripts_is_searched_through_its_folders(source, target, tmp_path):
    """As the coding agent keeps them: a folder for each place that it works in."""
    for number, place in enumerate(("--home-a--", "--home-b--")):
        made = source.transcript(
            f"id{number}", "hi", name=f"2026-02-03T04-05-06-789Z_id{number}.jsonl"
        )
        (tmp_path / "coding" / place).mkdir(parents=True)
        made.rename(tmp_path / "coding" / place / made.name)
    (tmp_path / "coding" / "log.jsonl").write_text('{"type":"user","message":{}}\n')
    report = target.take(tmp_path / "coding")
    assert set(target.entries()) == {"agent:main:import:id0", "agent:main:import:id1"}
    [left] = report.left_out
    assert (left.path.name, left.reason) == (
        "log.jsonl",
        "no line of it is an entry of a transcript",
    )


def test_one_key_cannot_name_several_conversations(whole_home, target):
    with pytest.raises(SessionError, match="one key for them"):
        target.take(whole_home.root, key="x")
    assert not target.home.exists()


def test_there_must_be_something_to_import(target, tmp_path):
    with pytest.raises(TranscriptError, match="nothing to import"):
        target.take(tmp_path / "nowhere")


def test_a_home_is_not_imported_into_itself(source, target):
    source.transcript(MAIN, "one")
    target.take(source.root)
    for place in (target.home, target.folder(), target.folder() / f"{MAIN}.jsonl"):
        with pytest.raises(SessionError, match="this home already"):
            target.take(place)


def test_two_keys_of_one_session_share_its_transcript(source, target):
    """Sessions 1.2: a scheduled job and its run name the same session."""
    source.transcript(MAIN, "ran")
    job, run = "agent:main:cron:job", f"agent:main:cron:job:run:{MAIN}"
    source.rows({job: {"sessionId": MAIN}, run: {"sessionId": MAIN}})
    target.take(source.root)
    assert {entry.session_id for entry in target.entries().values()} == {MAIN}
    assert set(target.entries()) == set(target.without_table()) == {job, run}
    assert target.take(source.root).count("unchanged") == 1


def test_keys_that_come_to_one_keep_the_newest_and_the_others_as_earlier(source, target):
    """Sessions 1.7: rows whose keys fold to the same."""
    source.transcript(MAIN, "newest")
    source.transcript(OLD, "older")
    source.rows(
        {
            "agent:main:Telegram:direct:1": {"sessionId": OLD, "updatedAt": 1},
            "agent:main:telegram:direct:1": {"sessionId": MAIN, "updatedAt": 2},
        }
    )
    target.take(source.root)
    [entry] = target.entries().values()
    assert (entry.session_id, entry.previous_session_ids) == (MAIN, (OLD,))


def test_the_main_key_of_this_home_is_used(source, target):
    """Sessions 1.4: aliases of the main session mean the one that is configured here."""
    source.transcript(MAIN, "one")
    source.rows({"agent:main:main": {"sessionId": MAIN}})
    target.take(source.root, config=config_from({"session": {"mainKey": "home"}}, environ={}))
    assert list(target.entries()) == ["agent:main:home"]


def test_what_lies_in_a_home_is_for_its_owner_alone(whole_home, target):
    target.take(whole_home.root)
    for path in target.home.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_media_beside_a_transcript_come_along(source, target):
    """Design 5: `<sessionId>.blobs/` is there before an entry that names it."""
    path = source.transcript(MAIN, "one")
    blobs = path.with_name(f"{MAIN}.blobs")
    blobs.mkdir()
    (blobs / ("a" * 64)).write_bytes(b"picture")
    target.take(source.root)
    assert (target.folder() / f"{MAIN}.blobs" / ("a" * 64)).read_bytes() == b"picture"


@pytest.mark.skipif(not REAL.exists(), reason="../shared/data/coding-session-v1.jsonl is absent")
def test_a_real_coding_session_comes_along(target):
    report = target.take(REAL, key="agent:main:coding")
    assert report.sessions[0].messages == 914
    entry = target.entries()["agent:main:coding"]
    contents = read_transcript(target.folder() / f"{entry.session_id}.jsonl")
    original = read_transcript(REAL)
    assert contents.entries[:-1] == original.entries
    assert sum(each["type"] == "message" for each in contents.branch()) == 914
