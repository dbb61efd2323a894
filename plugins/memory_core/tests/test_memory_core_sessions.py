"""Session transcripts as a source of memory-core (memory 3.9, 3.10, 4.10)."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.config.schema import MemorySearchConfig
from hermitcrab.config.schema.memory_search import EmbeddingSyncConfig
from hermitcrab.config.schema.memory_sessions import ExperimentalMemoryConfig, SessionSyncConfig
from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import Hit, MemoryContext
from hermitcrab.memory.transcripts import transcripts_of
from hermitcrab.messages import assistant, user
from hermitcrab.sessions import SessionEntry
from hermitcrab.testing.hashed_embeddings import HashedEmbeddings
from hermitcrab_memory_core import create
from hermitcrab_memory_core.fairness import shared_out

MAIN = "agent:main:main"
OTHER = "agent:main:telegram:direct:7"


class Home:
    """The workspace and the sessions of one agent."""

    def __init__(self, path):
        self.workspace, self.sessions = path / "workspace", path / "sessions"
        self.index = path / "memory.sqlite"
        self.entries = {}
        self.workspace.mkdir()
        self.sessions.mkdir()

    def note(self, path, text):
        target = self.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def say(self, session_id, *messages, key=MAIN, kind="message"):
        file = self.sessions / f"{session_id}.jsonl"
        if not file.exists():
            file.write_text(json.dumps({"type": "session", "version": 3, "id": session_id}) + "\n")
            self.own(session_id, key)
        with file.open("a", encoding="utf-8") as stream:
            for message in messages:
                stream.write(json.dumps({"type": kind, "message": message}) + "\n")

    def own(self, session_id, key=MAIN, previous=()):
        self.entries[key] = SessionEntry(
            key=key,
            session_id=session_id,
            updated_at=0,
            session_started_at=0,
            previous_session_ids=previous,
        )

    def open(
        self, *, sources=("memory", "sessions"), on=True, embeddings=None, across=False, **sync
    ):
        config = MemorySearchConfig(
            sources=sources,
            experimental=ExperimentalMemoryConfig(session_memory=on),
            remember_across_conversations=across,
            sync=EmbeddingSyncConfig(sessions=SessionSyncConfig(**sync)),
        )
        return create(
            MemoryContext(
                agent_id="main",
                workspace=self.workspace,
                home=self.workspace.parent,
                index_path=self.index,
                logger=logging.getLogger("test"),
                config=config,
                embeddings=embeddings,
                transcripts=transcripts_of(
                    config,
                    folder=self.sessions,
                    entries=lambda: list(self.entries.values()),
                    agent_id="main",
                ),
            )
        )


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


@pytest.fixture
async def opened(home):
    """Opens a memory, which is closed at the end."""
    memories = []

    def make(**settings):
        memories.append(home.open(**settings))
        return memories[-1]

    yield make
    for memory in memories:
        await memory.close()


def snippets(result):
    return [hit.snippet for hit in result.hits]


async def test_what_was_said_is_found_with_the_lines_of_the_transcript(home, opened):
    home.say("s", user("Hello"), assistant("Hello."))
    home.say(
        "s", {"role": "toolResult", "content": "sluice"}, {"role": "toolResult", "content": "x"}
    )
    home.say("s", user("The sluice opens at " + "noon or " * 150 + "never."), assistant("Good."))
    (hit, *_) = (await opened().search("when does the sluice open", session_key=MAIN)).hits
    assert (hit.path, hit.source) == ("sessions/s.jsonl", "sessions")
    assert hit.start_line <= 6 <= hit.end_line
    lines = (home.sessions / "s.jsonl").read_text().splitlines()
    assert "The sluice opens" in lines[5]
    assert "sluice opens" in hit.snippet


async def test_sources_narrow_the_search_to_one(home, opened):
    home.note("MEMORY.md", "The lantern is green.\n")
    home.say("s", user("The lantern is red."))
    memory = opened()
    both = await memory.search("lantern", session_key=MAIN)
    assert {hit.source for hit in both.hits} == {"memory", "sessions"}
    for source in ("memory", "sessions"):
        found = await memory.search("lantern", sources=[source], session_key=MAIN)
        assert [hit.source for hit in found.hits] == [source]
    assert (await memory.search("lantern", sources=[], session_key=MAIN)).hits == ()


@pytest.mark.parametrize(
    "settings", [{"on": False}, {"on": False, "sources": ("sessions",)}, {"sources": ("memory",)}]
)
async def test_without_both_settings_sessions_are_no_source(home, opened, settings):
    home.note("MEMORY.md", "The lantern is green.\n")
    home.say("s", user("The lantern is red."))
    memory = opened(**settings)
    found = await memory.search("lantern", session_key=MAIN)
    assert [hit.source for hit in found.hits] == ["memory"]
    assert (await memory.status()).details["sources"] == ["memory"]


async def test_sessions_alone_can_be_the_source(home, opened):
    home.note("MEMORY.md", "The lantern is green.\n")
    home.say("s", user("The lantern is red."))
    memory = opened(sources=("sessions",))
    found = await memory.search("lantern", session_key=MAIN)
    assert [hit.source for hit in found.hits] == ["sessions"]
    assert (await memory.read("MEMORY.md")).text == "The lantern is green."


async def test_many_sessions_never_crowd_out_the_memory_files(home, opened):
    """#46570: 550 sessions against 54 files, and only session hits came back."""
    for number in range(54):
        home.note(f"memory/file-{number:02}.md", f"- Note {number}: a harbour of sorts.\n")
    home.note("memory/file-07.md", "- The harbour master is Ines.\n")
    for number in range(550):
        home.say(f"s{number:03}", user(f"harbour master harbour master {number}"), key=f"k{number}")
    home.entries = {MAIN: home.entries["k0"]}
    home.own("s000", previous=tuple(f"s{number:03}" for number in range(1, 550)))
    memory = opened()
    result = await memory.search("harbour master", session_key=MAIN)
    sources = [hit.source for hit in result.hits]
    assert (sources.count("memory"), sources.count("sessions")) == (3, 3)
    assert any("Ines" in snippet for snippet in snippets(result))
    (only,) = (await memory.search("harbour master", max_results=1, session_key=MAIN)).hits
    assert "Ines" in only.snippet


async def test_files_rank_among_themselves_as_if_there_were_no_sessions(home, opened):
    """What is common among sessions is no less rare among the files."""
    home.note("memory/a.md", "- The zebra crossing is closed.\n")
    home.note("memory/b.md", "- The bridge is closed.\n")
    without = await opened(on=False).search("zebra closed")
    for number in range(30):
        home.say("s", user(f"zebra {number}"))
    with_sessions = await opened().search("zebra closed", sources=["memory"], session_key=MAIN)
    assert with_sessions.hits == without.hits


HITS = st.lists(st.floats(0, 1), max_size=8).map(
    lambda scores: [
        Hit(path=f"p{place}", start_line=1, end_line=1, score=score, snippet="")
        for place, score in enumerate(sorted(scores, reverse=True))
    ]
)


@given(HITS, HITS, st.integers(1, 10))
def test_places_are_shared_out_fairly(files, sessions, limit):
    """Half of the places, rounded up, are the files'; no place stays empty that anybody could fill."""
    chosen = shared_out(files, sessions, limit)
    assert len(chosen) == min(limit, len(files) + len(sessions))
    of_files = sum(any(hit is each for each in files) for hit in chosen)
    assert of_files >= min(len(files), (limit + 1) // 2)
    assert len(chosen) - of_files >= min(len(sessions), limit // 2)
    assert [hit.score for hit in chosen] == sorted((hit.score for hit in chosen), reverse=True)


async def test_what_another_session_said_takes_no_part_in_the_ranking(home, opened):
    """Hits that may not be seen are no candidates, so they leave no gaps either (#53550)."""
    for number in range(300):
        home.say(f"o{number}", user("granite granite granite"), key=f"agent:main:x:direct:{number}")
    home.say("mine", *(user(f"A word about granite, number {number}.") for number in range(3)))
    home.say("other", user("granite"), key=OTHER)
    for embeddings in (None, HashedEmbeddings()):
        memory = opened(embeddings=embeddings)
        await memory.sync("test")
        found = await memory.search("granite", session_key=MAIN)
        assert {hit.path for hit in found.hits} == {"sessions/mine.jsonl"}
        assert (await memory.search("granite")).hits == ()
        mine = (
            await opened(across=True, embeddings=embeddings).search("granite", session_key=MAIN)
        ).hits
        assert len({hit.path for hit in mine}) > 1


async def test_vectors_take_part(home, opened):
    home.say("s", user("The anchor weighs forty kilos."))
    memory = opened(embeddings=HashedEmbeddings())
    await memory.sync("test")
    result = await memory.search("anchor", sources=["sessions"], session_key=MAIN)
    assert (result.mode, len(result.hits)) == ("hybrid", 1)


async def test_a_turn_is_indexed_once_the_conversation_has_grown_enough(home, opened):
    memory = opened(delta_messages=3, delta_bytes=1_000_000)
    home.say("s", user("The first word is apple."))
    assert (await memory.sync("turn")).indexed == 1
    home.say("s", user("The second word is birch."), user("And so on."))
    assert (await memory.sync("turn")).indexed == 0
    assert not (await memory.status()).dirty
    assert "birch" not in str(snippets(await memory.search("birch", session_key=MAIN)))
    home.say("s", user("The third word is cedar."))
    assert (await memory.status()).dirty
    assert (await memory.sync("turn")).indexed == 1
    found = snippets(await memory.search("birch", session_key=MAIN))
    assert "birch" in found[0]
    home.say("s", user("A fourth word."))
    assert (await memory.sync("turn")).indexed == 0


async def test_bytes_are_enough_too(home, opened):
    memory = opened(delta_messages=100, delta_bytes=500)
    home.say("s", user("a"))
    await memory.sync("turn")
    home.say("s", user("b" * 100))
    assert (await memory.sync("turn")).indexed == 0
    home.say("s", user("c" * 400))
    assert (await memory.sync("turn")).indexed == 1


async def test_a_compacted_transcript_does_not_wait(home, opened):
    home.say("s", user("a"))
    home.say("t", user("b"), key=OTHER)
    for force, indexed in ((True, 1), (False, 0)):
        memory = opened(post_compaction_force=force)
        await memory.sync("turn", force=True)
        home.say("t", user("not compacted"))
        home.say("s", user("more"))
        home.say("s", {}, kind="compaction")
        assert (await memory.sync("compaction")).indexed == indexed


async def test_forced_syncs_and_the_first_of_a_process_take_in_all(home, opened):
    memory = opened()
    home.say("s", user("a"))
    await memory.sync("turn")
    home.say("s", user("The pebble is round."))
    assert (await memory.sync("cli", force=True)).indexed == 1
    home.say("s", user("The kettle is hot."))
    assert (await memory.sync("turn")).indexed == 0
    found = await opened().search("kettle", session_key=MAIN)
    assert "kettle" in found.hits[0].snippet


@pytest.mark.parametrize("reason", ["session-start", "watch"])
async def test_syncs_that_are_about_files_leave_sessions_alone(home, opened, reason):
    memory = opened()
    home.say("s", user("a"))
    assert (await memory.sync(reason)).indexed == 0
    assert (await memory.sync("turn")).indexed == 1
    home.say("s", user("b" * 200_000))
    assert (await memory.sync(reason)).indexed == 0
    assert (await memory.sync("turn")).indexed == 1


async def test_a_conversation_that_is_over_is_indexed_whatever_its_size(home, opened):
    memory = opened()
    home.say("s", user("a"))
    await memory.sync("turn")
    home.say("s", user("The parting word is lilac."))
    assert (await memory.sync("turn")).indexed == 0
    home.say("next", user("a new beginning"))
    home.own("next", previous=("s",))
    await memory.sync("turn")
    assert "lilac" in snippets(await memory.search("lilac", session_key=MAIN))[0]


async def test_an_archive_is_indexed_and_the_name_that_it_had_is_forgotten(home, opened):
    memory = opened()
    home.say("s", user("The word is maple."))
    await memory.sync("turn")
    (home.sessions / "s.jsonl").rename(home.sessions / "s.jsonl.reset.2026-03-01T10-00-00.000Z")
    found = await memory.search("maple", session_key=MAIN)
    assert [hit.path for hit in found.hits] == ["sessions/s.jsonl.reset.2026-03-01T10-00-00.000Z"]
    assert (await memory.sync("turn")).removed == 0


async def test_a_transcript_that_grows_keeps_the_vectors_that_it_has(home, opened):
    embeddings = HashedEmbeddings()
    memory = opened(embeddings=embeddings, delta_bytes=0)
    home.say("s", *(user(f"Sentence number {number}: " + "word " * 100) for number in range(10)))
    await memory.sync("turn", force=True)
    known = embeddings.texts
    home.say("s", user("One more sentence, " + "other " * 100))
    report = await memory.sync("turn", force=True)
    assert 0 < embeddings.texts - known <= 3
    assert report.embedded == embeddings.texts - known


async def test_status_counts_every_source_and_names_empty_ones(home, opened):
    memory = opened()
    await memory.sync("turn")
    counts = (await memory.status()).details["sourceCounts"]
    assert counts == [
        {"source": "memory", "files": 0, "chunks": 0},
        {"source": "sessions", "files": 0, "chunks": 0},
    ]
    home.note("MEMORY.md", "- a\n")
    home.say("s", user("b"))
    home.say("t", user("c"), key=OTHER)
    await memory.sync("turn", force=True)
    status = await memory.status()
    assert (status.files, status.chunks) == (3, 3)
    assert status.details["sourceCounts"] == [
        {"source": "memory", "files": 1, "chunks": 1},
        {"source": "sessions", "files": 2, "chunks": 2},
    ]
    assert status.details["sources"] == ["memory", "sessions"]


async def test_sessions_that_are_no_source_any_more_leave_nothing_behind(home, opened):
    home.say("s", user("The word is maple."))
    memory = opened(embeddings=HashedEmbeddings())
    await memory.sync("turn", force=True)
    await memory.close()
    assert list(home.index.parent.glob("memory.sessions.*"))
    await opened(on=False).sync("turn")
    assert not list(home.index.parent.glob("memory.sessions.*"))


async def test_a_broken_folder_of_sessions_leaves_the_answer_to_the_files(home, opened):
    home.note("MEMORY.md", "The lantern is green.\n")
    memory = opened()
    home.sessions.rmdir()
    home.sessions.write_text("no folder")
    result = await memory.search("lantern", session_key=MAIN)
    assert len(result.hits) == 1
    assert result.degraded
    assert "Sessions were not searched" in str(result.reason)
    with pytest.raises(MemoryBackendError, match="cannot be listed"):
        await memory.sync("turn")


async def test_no_credential_reaches_the_index(home, opened):
    secret = "sk-" + "Zq7" * 12
    home.say("s", user(f"The key of the crane is {secret}, keep it."))
    memory = opened()
    await memory.sync("turn", force=True)
    assert "crane" in snippets(await memory.search("key of the crane", session_key=MAIN))[0]
    await memory.close()
    for file in home.index.parent.glob("memory.sessions.*"):
        assert b"Zq7Zq7" not in file.read_bytes()
