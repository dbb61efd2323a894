"""Which transcripts are indexed, whose they are, and who is shown what was said in them (memory 3.9, 4.10)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.errors import PathRefusedError, SessionError
from hermitcrab.memory import Hit, MemoryBackend, MemoryStatus, ReadResult, SearchResult, SyncReport
from hermitcrab.memory.tools import run_memory_get, run_memory_search
from hermitcrab.memory.transcripts import (
    GuardedMemory,
    TranscriptFolder,
    TranscriptSource,
    may_see,
    may_see_any,
)
from hermitcrab.messages import user
from hermitcrab.sessions import SessionEntry

MAIN = "agent:main:main"
OTHER = "agent:main:telegram:direct:7"
GROUP = "agent:main:telegram:group:9"
CHILD = "agent:main:subagent:c1"
GRANDCHILD = "agent:main:subagent:c1:subagent:c2"
PARENTS = {MAIN: None, OTHER: None, GROUP: None, CHILD: MAIN, GRANDCHILD: CHILD}
KEYS = st.sampled_from([*PARENTS, "agent:main:cron:job", "agent:main:hook:x", "global"])


def test_a_session_sees_itself_and_what_it_started_however_far_down():
    assert may_see(MAIN, MAIN, PARENTS)
    assert may_see("Agent:Main:MAIN ", MAIN, PARENTS)
    assert may_see(MAIN, CHILD, PARENTS)
    assert may_see(MAIN, GRANDCHILD, PARENTS)


def test_a_session_does_not_see_who_started_it_nor_its_siblings():
    assert not may_see(CHILD, MAIN, PARENTS)
    assert not may_see(GRANDCHILD, CHILD, PARENTS)
    assert not may_see(OTHER, CHILD, PARENTS)


def test_other_private_conversations_are_shown_only_where_the_user_allows_it():
    assert not may_see(MAIN, OTHER, PARENTS)
    assert may_see(MAIN, OTHER, PARENTS, across=True)


@given(KEYS, st.booleans())
def test_a_group_never_sees_a_private_conversation(key, across):
    assert may_see(GROUP, key, PARENTS, across=across) == (key == GROUP)


@given(KEYS, st.booleans())
def test_a_private_conversation_never_sees_a_group(caller, across):
    if caller != GROUP:
        assert not may_see(caller, GROUP, PARENTS, across=across)


@given(KEYS, st.booleans(), st.sampled_from([None, ""]))
def test_whoever_has_no_session_sees_none(key, across, caller):
    assert not may_see(caller, key, PARENTS, across=across)


def test_what_belongs_to_nobody_is_shown_to_nobody():
    assert not may_see_any(MAIN, (), PARENTS, across=True)


def test_sessions_that_started_each_other_are_no_endless_loop():
    assert not may_see(MAIN, CHILD, {CHILD: GRANDCHILD, GRANDCHILD: CHILD})


class Folder:
    """A sessions folder whose transcripts a test writes."""

    def __init__(self, path):
        self.path = path
        self.entries = []
        path.mkdir()

    def add(self, name, *texts, key=None, session_id=None, previous=(), spawned_by=None, **header):
        stem = session_id or name.partition(".jsonl")[0]
        lines = [{"type": "session", "version": 3, "id": stem, **header}]
        if key is not None:
            data = {"key": key, "sessionId": stem}
            lines.append(
                {"type": "custom", "customType": "hermitcrab.entry", "id": "r", "data": data}
            )
        lines += [{"type": "message", "id": text, "message": user(text)} for text in texts]
        (self.path / name).write_text("".join(json.dumps(each) + "\n" for each in lines))
        return stem

    def own(self, key, session_id, *, previous=(), spawned_by=None):
        self.entries.append(
            SessionEntry(
                key=key,
                session_id=session_id,
                updated_at=0,
                session_started_at=0,
                previous_session_ids=previous,
                spawned_by=spawned_by,
            )
        )

    def source(self, **settings):
        folder = TranscriptFolder(self.path, lambda: self.entries, agent_id="main")
        return TranscriptSource(folder=folder, **settings)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "sessions")


def paths(source):
    return [file.path for file in source.listed().files]


def test_archives_count_and_copies_backups_and_locks_do_not(folder):
    stamp = "2026-03-01T10-00-00.000Z"
    folder.own(MAIN, "now", previous=("before",))
    for name in (
        "now.jsonl",
        "before.jsonl",
        f"now.jsonl.reset.{stamp}",
        f"now.jsonl.deleted.{stamp}",
        f"now.jsonl.bak.{stamp}",
        "now.jsonl.bak-1",
        "now.jsonl.lock",
        "now.jsonl.mending",
        f"now.jsonl.deleted.{stamp}.zst",
        "notes.txt",
    ):
        folder.add(name, "hello")
    assert paths(folder.source()) == [
        "sessions/before.jsonl",
        "sessions/now.jsonl",
        f"sessions/now.jsonl.deleted.{stamp}",
        f"sessions/now.jsonl.reset.{stamp}",
    ]
    current = [file.path for file in folder.source().listed().files if file.is_current]
    assert current == ["sessions/now.jsonl"]


def test_archives_belong_to_the_session_that_they_were_of(folder):
    """#53550, #70761: history that cannot be traced to a session is shown to nobody, so it must be traced."""
    stamp = "2026-03-01T10-00-00.000Z"
    folder.own(MAIN, "now", previous=("before",))
    folder.add("now.jsonl")
    folder.add(f"before.jsonl.reset.{stamp}")
    folder.add(f"gone.jsonl.deleted.{stamp}", key=OTHER)
    source = folder.source()
    assert source.session_keys(f"sessions/before.jsonl.reset.{stamp}") == {MAIN}
    assert source.session_keys(f"sessions/gone.jsonl.deleted.{stamp}") == {OTHER}
    assert source.session_keys("sessions/unheard-of.jsonl") == frozenset()


def test_a_link_out_of_the_folder_is_no_transcript(folder, tmp_path):
    folder.own(MAIN, "now")
    (tmp_path / "elsewhere.jsonl").write_text("{}\n")
    (folder.path / "now.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    assert paths(folder.source()) == []


def test_scheduled_jobs_yield_nothing_and_what_nobody_owns_is_counted(folder):
    folder.own("agent:main:cron:daily", "job")
    folder.own("agent:other:main", "foreign")
    for name in ("job.jsonl", "foreign.jsonl", "stray.jsonl"):
        folder.add(name, "hello")
    listing = folder.source().listed()
    assert (listing.files, listing.unowned) == ((), 2)


def test_a_transcript_that_goes_on_in_a_copy_is_read_there_alone(folder):
    folder.own(MAIN, "new", previous=("old",))
    folder.add("old.jsonl", "hello", version=1)
    folder.add("new.jsonl", "hello", parentSession="old.jsonl")
    assert paths(folder.source()) == ["sessions/new.jsonl"]


def test_a_folder_that_is_not_there_has_no_transcripts(tmp_path):
    source = TranscriptSource(folder=TranscriptFolder(tmp_path / "no", list, agent_id="main"))
    assert paths(source) == []


@pytest.fixture
def three(folder):
    """A private conversation, another one, and a group, each with a word of its own."""
    for key, name in ((MAIN, "mine"), (OTHER, "other"), (GROUP, "group")):
        folder.own(key, name)
        folder.add(f"{name}.jsonl", f"the word of {name}")
    return folder


def test_seen_are_paths_and_the_others_are_counted(three):
    seen = three.source().seen_by(MAIN)
    assert (seen.paths, seen.hidden) == ({"sessions/mine.jsonl"}, 2)
    assert three.source(across=True).seen_by(MAIN).hidden == 1
    assert three.source(across=True).seen_by(GROUP).paths == {"sessions/group.jsonl"}
    assert three.source().seen_by(None).paths == frozenset()


class Leaky(MemoryBackend):
    """A backend that knows nothing of who may see what."""

    hits = (
        Hit(path="MEMORY.md", start_line=1, end_line=1, score=0.9, snippet="note"),
        *(
            Hit(path=f"sessions/{name}.jsonl", start_line=2, end_line=2, score=0.8, snippet=name,
                source="sessions")
            for name in ("mine", "other", "group", "unheard-of")
        ),
        Hit(path="sessions/other.jsonl", start_line=3, end_line=3, score=0.7, snippet="mislabelled"),
    )  # fmt: skip

    async def search(self, query, **request):
        return SearchResult(hits=self.hits)

    async def read(self, path, *, start=1, lines=None):
        return ReadResult(path=path, text="from the backend")

    async def sync(self, reason, *, force=False, progress=None):
        return SyncReport(reason=reason)

    async def status(self):
        return MemoryStatus(backend="leaky")


def snippets(result):
    return [hit.snippet for hit in result.hits]


async def test_whatever_a_backend_returns_only_what_may_be_seen_gets_through(three, caplog):
    guarded = GuardedMemory(Leaky(), three.source())
    caplog.set_level("INFO", "hermitcrab.memory")
    result = await guarded.search("word", session_key=MAIN)
    assert snippets(result) == ["note", "mine"]
    assert (result.filtered, result.hidden_sessions) == (4, 2)
    assert "4 hits left out" in caplog.text
    assert snippets(await guarded.search("word", session_key=GROUP)) == ["group"]
    assert snippets(await guarded.search("word")) == ["note"]


async def test_without_sessions_as_a_source_none_gets_through():
    result = await GuardedMemory(Leaky()).search("word", session_key=MAIN)
    assert (snippets(result), result.filtered) == (["note"], 5)


async def test_where_owners_cannot_be_read_no_session_hit_is_shown(three, caplog):
    def broken():
        raise SessionError("the table is damaged")

    folder = TranscriptFolder(three.path, broken, agent_id="main")
    result = await GuardedMemory(Leaky(), TranscriptSource(folder=folder)).search(
        "w", session_key=MAIN
    )
    assert snippets(result) == ["note"]
    assert "the table is damaged" in caplog.text


async def test_the_tool_tells_how_much_was_left_out_and_nothing_of_it(three):
    """#53550: an empty answer that hides its reason looks like a broken search."""
    guarded = GuardedMemory(Leaky(), three.source())
    payload = json.loads(await run_memory_search(guarded, {"query": "word"}, session_key=MAIN))
    assert (payload["filtered"], payload["hiddenSessions"]) == (4, 2)
    assert "other" not in json.dumps(payload)
    without = json.loads(await run_memory_search(Leaky(), {"query": "word"}, session_key=MAIN))
    assert "filtered" not in without


async def test_a_transcript_is_read_by_whoever_may_see_it(three):
    guarded = GuardedMemory(Leaky(), three.source())
    arguments = {"path": "sessions/mine.jsonl"}
    mine = json.loads(await run_memory_get(guarded, arguments, session_key=MAIN))
    assert (mine["text"], mine["from"]) == ("User: the word of mine", 2)
    for caller in (OTHER, GROUP, None):
        refused = json.loads(await run_memory_get(guarded, arguments, session_key=caller))
        assert refused["text"] == ""
        assert "may see" in refused["error"]


@pytest.mark.parametrize(
    "path",
    ["sessions/../mine.jsonl", "sessions//mine.jsonl", "sessions/sessions.sqlite", "sessions/"],
)
async def test_no_other_file_of_the_folder_can_be_read(three, path):
    (three.path / "sessions.sqlite").write_text("table")
    with pytest.raises(PathRefusedError):
        await GuardedMemory(Leaky(), three.source()).read_for(MAIN, path)


async def test_memory_files_are_read_by_the_backend(three):
    guarded = GuardedMemory(Leaky(), three.source())
    for key in (None, MAIN):
        assert (await guarded.read_for(key, "MEMORY.md")).text == "from the backend"
    assert (await guarded.read_for(GROUP, "memory/topic.md")).text == "from the backend"
    with pytest.raises(PathRefusedError, match="no part"):
        await GuardedMemory(Leaky()).read_for(MAIN, "sessions/mine.jsonl")


async def test_what_a_backend_offers_beside_the_contract_can_be_reached():
    backend = Leaky()
    backend.shelves = 3
    backend.long_term = store = object()
    guarded = GuardedMemory(backend)
    assert guarded.shelves == 3
    assert guarded.long_term is store
    with pytest.raises(AttributeError, match="drawers"):
        guarded.drawers  # noqa: B018


@pytest.mark.parametrize("key", [GROUP, "agent:main:telegram:channel:5", "agent:main:subagent:7"])
async def test_the_curated_memory_is_shown_to_private_sessions_alone(three, key):
    """#108881, #109009: what stands in MEMORY.md reached groups."""
    guarded = GuardedMemory(Leaky(), three.source())
    result = await guarded.search("note", session_key=key)
    assert "MEMORY.md" not in [hit.path for hit in result.hits]
    assert result.filtered > 0
    for path in ("MEMORY.md", " ./MEMORY.md", "memory.md"):
        with pytest.raises(PathRefusedError, match="private sessions alone"):
            await guarded.read_for(key, path)
    for owner in (None, MAIN):
        found = await guarded.search("note", session_key=owner)
        assert "MEMORY.md" in [hit.path for hit in found.hits]
