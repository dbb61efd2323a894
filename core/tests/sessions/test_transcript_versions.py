from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermitcrab.errors import TranscriptError
from hermitcrab.messages.build import user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.entries import SessionEntries, SessionEntry
from hermitcrab.sessions.format import ENTRY_CHANGE
from hermitcrab.sessions.reading import read_branch, read_transcript
from hermitcrab.sessions.sessions import Sessions

KEY = "agent:main:main"
REAL_SESSION = Path(__file__).resolve().parents[3] / "../shared/data/coding-session-v1.jsonl"


def message(text: str, role: str = "user") -> Any:
    return {"type": "message", "message": {"role": role, "content": text}}


def version_1(files: Any, *entries: Any) -> Path:
    header = {"type": "session", "id": "s1", "timestamp": "2025-01-01T00:00:00Z", "cwd": "/old"}
    path: Path = files.write(*entries, header=header)
    return path


async def opened(files: Any, sessions: Sessions) -> Any:
    """The session whose entry points to the transcript ``s1``."""
    table = SessionEntries(files.folder / "sessions.sqlite")
    table.put(SessionEntry(key=KEY, session_id="s1", updated_at=1, session_started_at=1))
    table.close()
    return await sessions.open(KEY)


class TestReadingInPlace:
    def test_entries_of_version_1_get_stable_ids_and_form_one_line(self, files: Any) -> None:
        """Design 7: the ids come from the header's id and the byte offset."""
        path = version_1(files, message("one"), b"garbage\n", message("two"), message("three"))
        before = path.read_bytes()
        first, second = read_branch(path), read_transcript(path)
        made = [entry["id"] for entry in first.entries]
        assert made == [entry["id"] for entry in second.entries]
        assert len(set(made)) == 3
        assert [entry["parentId"] for entry in first.entries] == [None, *made[:-1]]
        assert first.leaf_id == made[-1]
        assert first.version == 1
        assert path.read_bytes() == before

    def test_a_compaction_of_version_1_counts_lines(self, files: Any) -> None:
        """Context 9.2: the header is line 0."""
        compaction = {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 2}
        path = version_1(files, message("one"), message("two"), compaction, message("three"))
        branch = read_branch(path)
        assert [entry["type"] for entry in branch.entries] == ["message", "compaction", "message"]
        assert branch.entries[1]["firstKeptEntryId"] == branch.entries[0]["id"]

    @pytest.mark.parametrize("index", [0, 99, -5, "2", None])
    def test_an_index_that_names_no_line_keeps_nothing(self, files: Any, index: Any) -> None:
        compaction = {"type": "compaction", "summary": "s", "firstKeptEntryIndex": index}
        path = version_1(files, message("one"), compaction, message("two"))
        assert [entry["type"] for entry in read_branch(path).entries] == ["compaction", "message"]

    def test_hook_messages_of_version_2_are_custom_messages(self, files: Any) -> None:
        """Context 9.2."""
        hook = {**message("x", "hookMessage"), "id": "b", "parentId": "a", "extra": 1}
        header = {**files.header, "version": 2}
        path = files.write({**message("q"), "id": "a", "parentId": None}, hook, header=header)
        branch = read_branch(path)
        assert branch.version == 2
        assert branch.entries[1]["message"]["role"] == "custom"
        assert branch.entries[1]["extra"] == 1

    def test_hook_messages_of_version_3_are_left_alone(self, files: Any) -> None:
        path = files.write({**message("x", "hookMessage"), "id": "a", "parentId": None})
        assert read_branch(path).entries[0]["message"]["role"] == "hookMessage"

    def test_branches_of_version_2_are_branches(self, files: Any) -> None:
        entries = [*files.chain("a", "b", "c"), files.message("d", "a")]
        path = files.write(*entries, header={**files.header, "version": 2})
        assert [entry["id"] for entry in read_branch(path).entries] == ["a", "d"]

    def test_a_recorded_session_of_version_1_is_read_whole(self) -> None:
        if not REAL_SESSION.exists():
            pytest.skip("the recorded session is not beside the repository")
        contents = read_transcript(REAL_SESSION)
        assert contents.version == 1
        assert not contents.faults.any
        assert contents.branch() == contents.entries
        assert len(contents.entries) == REAL_SESSION.read_bytes().count(b"\n") - 1


class TestWriting:
    async def test_writing_makes_a_copy_of_version_3_and_leaves_the_old_file_alone(
        self, files: Any, open_sessions: Any
    ) -> None:
        """Design 7."""
        path = version_1(files, message("one"), message("two"))
        before = path.read_bytes()
        log = await opened(files, open_sessions())
        old_ids = [entry["id"] for entry in log.path]
        await log.append_messages([user("three")])

        assert path.read_bytes() == before
        assert log.session_id != "s1"
        copy = files.store.read_all(log.session_id)
        assert copy.version == 3
        assert copy.header["parentSession"] == str(path)
        assert copy.header["cwd"] == "/old"
        assert not copy.faults.any
        assert [entry["id"] for entry in copy.entries[:2]] == old_ids
        assert copy.entries[2]["data"] == {
            "key": KEY,
            "sessionId": log.session_id,
            "sessionStartedAt": 1,
            "previousSessionIds": ["s1"],
        }
        assert copy.entries[2]["customType"] == ENTRY_CHANGE
        assert [text_of(item.message) for item in log.items()] == ["one", "two", "three"]
        assert log.path == copy.branch()
        assert log.visible_bytes == log.file.stat().st_size - len(
            log.file.read_bytes().split(b"\n")[0] + b"\n"
        )

    async def test_the_session_entry_moves_to_the_copy(
        self, files: Any, open_sessions: Any
    ) -> None:
        version_1(files, message("one"))
        log = await opened(files, open_sessions())
        await log.append_messages([user("two")])
        other = await open_sessions().open(KEY)
        assert other.session_id == log.session_id
        assert other.entry.previous_session_ids == ("s1",)
        assert [text_of(item.message) for item in other.items()] == ["one", "two"]

    async def test_looking_does_not_copy(self, files: Any, open_sessions: Any) -> None:
        version_1(files, message("one"))
        log = await opened(files, open_sessions())
        await log.refresh()
        assert log.session_id == "s1"
        assert files.store.list() == ["s1"]

    async def test_two_writers_end_up_in_one_copy(self, files: Any, open_sessions: Any) -> None:
        """C15: the second process that writes to an old file joins the copy of the first."""
        version_1(files, message("one"))
        first = await opened(files, open_sessions())
        second = await opened(files, open_sessions())
        await first.append_messages([user("two")])
        await second.append_messages([user("three")])
        await first.refresh()
        assert first.session_id == second.session_id
        for log in (first, second):
            assert [text_of(item.message) for item in log.items()] == ["one", "two", "three"]

    async def test_a_file_without_a_final_newline_is_copied_whole(
        self, files: Any, open_sessions: Any
    ) -> None:
        version_1(files, message("one"), files.line(message("two")).rstrip())
        log = await opened(files, open_sessions())
        await log.append_messages([user("three")])
        assert [text_of(item.message) for item in log.items()] == ["one", "two", "three"]

    async def test_a_file_of_a_newer_version_is_read_and_not_written(
        self, files: Any, open_sessions: Any
    ) -> None:
        path = files.write(*files.chain("a", "b"), header={**files.header, "version": 4})
        before = path.read_bytes()
        log = await opened(files, open_sessions())
        await log.refresh()
        assert len(log.items()) == 2
        with pytest.raises(TranscriptError, match="Upgrade hermitcrab"):
            await log.append_messages([user("three")])
        assert path.read_bytes() == before
        assert files.store.list() == ["s1"]
