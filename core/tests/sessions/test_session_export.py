"""Taking conversations away: as a transcript that imports again as it was, and for reading."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.config import config_from
from hermitcrab.errors import SessionError, SessionNotFoundError, TranscriptError
from hermitcrab.messages import user
from hermitcrab.sessions import export_session, import_sessions
from hermitcrab.sessions.blobs.files import blob_folder
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.exporting.file import write_new_file
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:telegram:direct:7"
CONFIG = config_from({}, environ={})


class Home:
    """A home with one agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "agents" / "main" / "sessions"
        self._moment = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def clock(self) -> datetime:
        self._moment += timedelta(seconds=1)
        return self._moment

    @contextlib.asynccontextmanager
    async def sessions(self):
        sessions = Sessions(
            store=JsonlTranscriptStore(self.folder),
            entries=SessionEntries(self.folder / "sessions.sqlite"),
            clock=self.clock,
            cwd="/work",
            durability="os",
        )
        yield sessions
        await sessions.close()

    def entry(self, key: str = KEY):
        table = SessionEntries(self.folder / "sessions.sqlite")
        try:
            return table.get(key)
        finally:
            table.close()

    def export(self, key: str = KEY, **options) -> bytes:
        return b"".join(export_session(key, home=self.root, config=CONFIG, **options))

    def take(self, path: Path, **options):
        return import_sessions(path, home=self.root, config=CONFIG, **options)


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def imported(home, files):
    """Writes a transcript and imports it under ``KEY``."""

    def take(*entries, header=None):
        path = files.write(*entries, header=header or files.header)
        home.take(path, key=KEY)
        return home

    return take


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "toolResult", "custom"]), "content": JSON},
    optional={"details": JSON, "timestamp": st.integers(0, 2**41)},
)
STEPS = st.lists(
    st.tuples(st.just("append"), MESSAGES)
    | st.tuples(st.just("compact"), st.text(max_size=20))
    | st.tuples(st.just("branch"), st.integers(0, 5))
    | st.tuples(st.just("patch"), st.fixed_dictionaries({"displayName": st.just("D")})),
    max_size=8,
)


@settings(max_examples=15, deadline=None)
@given(STEPS)
def test_an_exported_transcript_imports_again_as_it_was(steps):
    """Every entry, every branch and every setting; and what is exported there is the same again."""
    with tempfile.TemporaryDirectory() as place:
        ours, theirs = Home(Path(place) / "a"), Home(Path(place) / "b")
        asyncio.run(_carry_out(steps, ours))
        content = ours.export()
        file = Path(place) / "taken.jsonl"
        write_new_file(file, [content])
        report = theirs.take(file)
        assert report.is_complete
        assert theirs.export() == content
        # The last activity is the last line; later looks at the clock do not count.
        known = evolve(ours.entry(), updated_at=theirs.entry().updated_at)
        assert theirs.entry() == known
        assert theirs.take(file).count("unchanged") == 1


async def _carry_out(steps, home: Home) -> None:
    async with home.sessions() as sessions:
        log = await sessions.open(KEY)
        await log.append_messages([user("hello")])
        await log.patch_entry({"label": "Harbour", "thinkingLevel": "high"})
        for kind, value in steps:
            if kind == "append":
                await log.append_messages([value])
            elif kind == "compact":
                kept = log.path[-1]["id"]
                entry = log.new_entry("compaction", summary=value, firstKeptEntryId=kept)
                await log.append_compaction(entry)
                await log.update_entry(record=False, add_compactions=1)
            elif kind == "branch":
                target = log.path[min(value, len(log.path) - 1)]["id"]
                await log.append([log.new_entry("leaf", targetId=target)])
            else:
                await log.patch_entry(value)
        last = await log.append_messages([user("bye")])
        moment = int(datetime.fromisoformat(last[0]["timestamp"]).timestamp() * 1000)
        await log.update_entry(last_interaction_at=moment)
        await log.end_turn()


def test_an_export_is_the_file_byte_for_byte(imported, files):
    """Unknown fields, other spellings of JSON and bad lines in the middle come along."""
    odd = b'{ "type":"message", "id":"e1" , "new":[1e3], "message":{"role":"user","content":"\\u0041"} }\n'
    home = imported(odd, b"garbage\n", b"\xff\n")
    [path] = home.folder.glob("*.jsonl")
    assert home.export() == path.read_bytes()
    assert b'"content":"\\u0041"' in home.export()


def test_a_line_that_is_being_written_is_left_out_and_told(imported, files):
    home = imported(*files.chain("e1"))
    [path] = home.folder.glob("*.jsonl")
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"type":"mess')
    told = []
    assert home.export(report=told.append) == whole
    assert len(told) == 1


async def test_media_beside_the_transcript_are_put_back_into_the_export(home, tmp_path):
    """Design 5: an exported file stands for itself."""
    data = "iVBORw0K" * 200
    image = {"type": "image", "mimeType": "image/png", "data": data}
    text = "x" * 2_000_000
    result = {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": text}]}
    async with home.sessions() as sessions:
        log = await sessions.open(KEY)
        await log.append_messages([{"role": "user", "content": [image]}, result])
        file = log.file
    assert blob_folder(file).is_dir(), "this test needs something beside the transcript"
    lines = [json.loads(line) for line in home.export().splitlines()]
    messages = [line["message"] for line in lines if line["type"] == "message"]
    assert messages[0]["content"] == [image]
    assert messages[1]["content"][0]["text"] == text
    assert data.encode() in home.export(format="html")
    taken = tmp_path / "taken.jsonl"
    taken.write_bytes(home.export())
    other = Home(tmp_path / "other")
    assert other.take(taken).is_complete
    shutil.rmtree(blob_folder(file))
    told = []
    assert home.export(report=told.append) == file.read_bytes()
    assert len(told) == 2


async def test_an_earlier_session_of_a_key_can_be_taken_too(home):
    async with home.sessions() as sessions:
        old = await sessions.open(KEY)
        await old.append_messages([user("before")])
        await sessions.start_new(KEY)
    assert b"before" not in home.export()
    assert b"before" in home.export(session_id=old.session_id)
    with pytest.raises(SessionNotFoundError, match="has no session 'other'"):
        home.export(session_id="other")


@pytest.mark.parametrize("at_once", [True, False])
async def test_earlier_sessions_find_their_place_again(at_once, home, tmp_path):
    """Exported one by one; the present one knows the others by their ids."""
    async with home.sessions() as sessions:
        old = await sessions.open(KEY)
        await old.append_messages([user("before")])
        new = await sessions.start_new(KEY)
        await new.append_messages([user("after")])
    folder = tmp_path / "taken"
    folder.mkdir()
    for log in (new, old):
        file = folder / f"{log.session_id}.jsonl"
        write_new_file(file, [home.export(session_id=log.session_id)])
    other = Home(tmp_path / "other")
    if at_once:
        assert other.take(folder).is_complete
    else:
        for log in (new, old):
            assert other.take(folder / f"{log.session_id}.jsonl").is_complete
    entry = other.entry()
    assert (entry.session_id, entry.previous_session_ids) == (new.session_id, (old.session_id,))
    assert b"before" in other.export(session_id=old.session_id)
    archive = folder / f"{old.session_id}.jsonl.deleted.2026-03-02T00-00-00.000Z"
    (folder / f"{old.session_id}.jsonl").rename(archive)
    third = Home(tmp_path / "third")
    assert third.take(folder).is_complete
    assert b"before" in third.export(session_id=old.session_id)


async def test_a_session_that_gets_another_key_keeps_only_that_one(home, tmp_path):
    """Were the table lost, what was recorded in the other home must not take the place of a session here."""
    async with home.sessions() as sessions:
        log = await sessions.open(KEY)
        await log.append_messages([user("theirs")])
        await log.patch_entry({"label": "Harbour", "thinkingLevel": "high"})
    file = tmp_path / "taken.jsonl"
    write_new_file(file, [home.export()])
    other = Home(tmp_path / "other")
    async with other.sessions() as sessions:
        own = await sessions.open(KEY)
        await own.append_messages([user("ours")])
        await own.patch_entry({"label": "Harbour"})
    assert other.take(file, key="theirs").is_complete
    for table in other.folder.glob("sessions.sqlite*"):
        table.unlink()
    assert other.entry(KEY).session_id == own.session_id
    assert other.entry(KEY).previous_session_ids == ()
    theirs = other.entry("agent:main:theirs")
    assert (theirs.session_id, theirs.thinking_level) == (log.session_id, "high")
    assert (other.entry(KEY).label, theirs.label) == ("Harbour", None)


def test_what_is_not_there_is_an_error_before_anything_is_written(home, imported, files):
    with pytest.raises(SessionNotFoundError):
        home.export()
    imported(*files.chain("e1"))
    for path in home.folder.glob("*.jsonl"):
        path.unlink()
    for kind in ("jsonl", "markdown", "html"):
        with pytest.raises(TranscriptError):
            export_session(KEY, home=home.root, config=CONFIG, format=kind)


def test_an_unknown_format_is_an_error_that_names_the_others(home):
    with pytest.raises(SessionError, match="no format 'pdf'") as caught:
        home.export(format="pdf")
    assert "jsonl, markdown, html" in str(caught.value)


def test_a_page_shows_the_conversation_from_its_beginning(imported, files):
    """What was compacted is there, the compaction marked with its summary, tools folded away."""
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a.txt"}}
    answer = {
        "role": "assistant",
        "model": "large",
        "content": [{"type": "text", "text": "Yes."}, call],
    }
    result = {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": "the text"}
    compaction = {
        "type": "compaction",
        "id": "e3",
        "parentId": "e2",
        "summary": "In short.",
        "firstKeptEntryId": "e2",
        "tokensBefore": 12_000,
        "tokensAfter": 300,
    }
    home = imported(
        files.message("e0", None, "Hello?", timestamp="2026-03-01T12:00:00.000Z"),
        {"type": "message", "id": "e1", "parentId": "e0", "message": answer},
        {"type": "message", "id": "e2", "parentId": "e1", "message": result},
        compaction,
        files.message("e4", "e3", "After that"),
    )
    for kind in ("markdown", "html"):
        page = home.export(format=kind).decode()
        places = [
            page.index(text)
            for text in (
                "User",
                "2026-03-01 12:00 UTC",
                "Hello?",
                "Assistant (large)",
                "Yes.",
                "Tool call: read",
                "Tool result (read)",
                "the text",
                "Compacted here: 12,000 → 300 tokens",
                "In short.",
                "After that",
            )
        ]
        assert places == sorted(places)
        assert page.count("<details>") == 3


def test_branches_that_were_left_are_told_and_shown_on_demand(imported, files):
    home = imported(
        *files.chain("e1", "e2", "e3"),
        {"type": "leaf", "id": "e4", "parentId": "e3", "targetId": "e1"},
        files.message("e5", "e1", "another way"),
    )
    for kind in ("markdown", "html"):
        page = home.export(format=kind).decode()
        assert "1 branch that was left is not shown" in page
        assert "another way" in page
        assert "text of e3" not in page
        whole = home.export(format=kind, all_branches=True).decode()
        assert "not shown" not in whole
        assert whole.index("another way") < whole.index("Branch 1, behind entry e1")
        assert whole.index("text of e2") < whole.index("text of e3")
        assert whole.count("text of e1") == 1
    assert b"text of e3" in home.export()


def test_older_versions_are_shown_like_the_newest(imported, files):
    home = imported(
        b'{"type":"message","message":{"role":"user","content":"first"}}\n',
        b'{"type":"message","message":{"role":"hookMessage","content":"hooked"}}\n',
        header={"type": "session", "id": "s1"},
    )
    page = home.export(format="markdown").decode()
    assert "## User" in page
    assert "## Note" in page
    assert page.index("> first") < page.index("> hooked")


def test_credentials_are_hidden_on_demand(imported, files):
    secret = "sk-abcdefghijklmnopqrstuvwxyz012345"
    call = {"type": "toolCall", "id": "c", "name": "run", "arguments": {"env": f"TOKEN={secret}"}}
    home = imported(
        files.message("e1", None, f"the key is {secret}"),
        {
            "type": "message",
            "id": "e2",
            "parentId": "e1",
            "message": {"role": "assistant", "content": [call]},
        },
        {"type": "session_info", "id": "e3", "parentId": "e2", "name": f"about {secret}"},
        {"type": "label", "id": "e4", "parentId": "e3", "targetId": "e1", "label": secret},
    )
    for kind in ("markdown", "html"):
        assert secret in home.export(format=kind).decode()
        assert secret[5:] not in home.export(format=kind, redact=True).decode()


def test_a_conversation_of_any_size_is_written_in_pieces(imported, files):
    """One entry is in memory at a time."""
    home = imported(
        *(files.message(f"e{n}", f"e{n - 1}" if n else None, "x" * 10_000) for n in range(50))
    )
    for kind in ("jsonl", "markdown", "html"):
        pieces = list(export_session(KEY, home=home.root, config=CONFIG, format=kind))
        assert len(pieces) > 50
        assert max(map(len, pieces)) < 20_000


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out.md"

    def failing():
        yield b"half"
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        write_new_file(path, failing())
    assert list(tmp_path.iterdir()) == []
    write_new_file(path, [b"one"])
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_new_file(path, [b"two"])
    with pytest.raises(OSError, match="no space"):
        write_new_file(path, failing(), may_replace=True)
    assert path.read_bytes() == b"one"
    write_new_file(path, [b"two"], may_replace=True)
    assert path.read_bytes() == b"two"
