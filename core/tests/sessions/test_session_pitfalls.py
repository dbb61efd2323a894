"""What users lost to transcripts and entries: damage, duplicates, positions that name nothing (notes 8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermitcrab.messages.build import assistant, user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.importing.rows import entry_of_row
from hermitcrab.sessions.reading import read_branch

KEY = "agent:main:main"


def texts(log: Any) -> list[str]:
    return [text_of(item.message) for item in log.items()]


async def stored(files: Any, sessions: Any, **fields: Any) -> Any:
    """The session whose entry names the transcript ``s1``."""
    table = SessionEntries(files.folder / "sessions.sqlite")
    table.put(SessionEntry(key=KEY, session_id="s1", updated_at=1, session_started_at=1, **fields))
    table.close()
    return await sessions.open(KEY)


class TestDamageIsTold:
    @pytest.mark.parametrize(
        ("header", "told"),
        [
            (b'{"type":"session","id"\n', "header rebuilt: True"),
            (None, "header rebuilt: True"),
        ],
    )
    async def test_a_damaged_header_is_told_with_its_file_and_hides_no_entry(
        self,
        files: Any,
        open_sessions: Any,
        caplog: pytest.LogCaptureFixture,
        header: Any,
        told: str,
    ) -> None:
        """C1, #89037: resume began afresh, without a word, in the file that it had emptied."""
        path = files.write(*files.chain("a", "b", "c", "d", "e"), header=header)
        before = path.read_bytes()
        log = await stored(files, open_sessions())
        assert len(texts(log)) == 5
        await log.append_messages([user("and on")])
        assert path.read_bytes().startswith(before)
        assert len(texts(await open_sessions().open(KEY))) == 6
        [record] = [each for each in caplog.records if told in each.getMessage()][:1]
        assert str(path) in record.getMessage()
        assert record.levelname == "WARNING"

    async def test_a_missing_ancestor_is_told_with_its_file_and_its_id(
        self, files: Any, open_sessions: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """C6, #104323: the head of a conversation vanished and nobody was told."""
        path = files.write(files.message("b", "gone"), files.message("c", "b"))
        log = await stored(files, open_sessions())
        assert len(texts(log)) == 2
        assert log.faults.missing_ancestor == "gone"
        [record] = [each for each in caplog.records if "missing ancestor: gone" in each.message]
        assert str(path) in record.getMessage()


class TestPositionsThatNameNothing:
    """C8: a stored offset behind the last message hid the whole history."""

    @pytest.mark.parametrize("kept", ["gone", "zzz", "", None, 99, ["d"]])
    async def test_c8_what_a_compaction_keeps_never_hides_what_comes_after_it(
        self, files: Any, open_sessions: Any, kept: Any
    ) -> None:
        compaction = {
            "type": "compaction",
            "id": "x",
            "parentId": "b",
            "summary": "in short",
            "firstKeptEntryId": kept,
        }
        after = [files.message("c", "x"), files.message("d", "c")]
        files.write(*files.chain("a", "b"), compaction, *after)
        log = await stored(files, open_sessions())
        summary, *rest = texts(log)
        assert "in short" in summary
        assert len(rest) == 2
        await log.append_messages([user("and on")])
        assert len(texts(log)) == len(texts(await open_sessions().open(KEY))) == 4

    @pytest.mark.parametrize("index", [99, -1, "99"])
    async def test_c8_an_index_of_the_first_version_hides_nothing_after_it_either(
        self, files: Any, open_sessions: Any, index: Any
    ) -> None:
        said = {"type": "message", "message": {"role": "user", "content": "hi"}}
        compaction = {"type": "compaction", "summary": "in short", "firstKeptEntryIndex": index}
        header = {"type": "session", "id": "s1", "timestamp": "2025-01-01T00:00:00Z"}
        files.write(said, compaction, *[said] * 4, header=header)
        log = await stored(files, open_sessions())
        assert len(texts(log)) == 5
        await log.append_messages([user("and on")])
        assert len(texts(await open_sessions().open(KEY))) == 6

    async def test_c8_numbers_of_the_entry_beyond_the_transcript_hide_nothing(
        self, files: Any, open_sessions: Any
    ) -> None:
        files.write(*files.chain("a", "b", "c", "d"))
        wrong = {
            "message_count": 99,
            "compaction_count": 99,
            "flushed_cycle": 99,
            "flushed_entry_id": "nowhere",
            "last_compaction": {"firstKeptEntryId": "nowhere"},
        }
        log = await stored(files, open_sessions(), **wrong)
        assert len(texts(log)) == 4
        made = log.new_entry("compaction", summary="in short", firstKeptEntryId="d")
        assert await log.append_compaction(made)
        assert len(texts(log)) == 2


class TestOneEventOneEntry:
    """C16: the live and the redacted copy of one message were both taken in."""

    LIVE, MASKED = "the key is sk-live-4711", "the key is sk-****"

    async def test_c16_the_copy_that_came_first_is_the_one(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        live = log.new_entry("message", message=user(self.LIVE))
        masked = {**live, "message": user(self.MASKED)}
        [first] = await log.append([live])
        [second] = await log.append([masked])
        assert second == first
        assert texts(log) == texts(await open_sessions().open(KEY)) == [self.LIVE]
        assert self.MASKED.encode() not in log.file.read_bytes()

    async def test_c16_also_where_another_process_wrote_the_first_copy(
        self, open_sessions: Any
    ) -> None:
        one = await open_sessions().open(KEY)
        other = await open_sessions().open(KEY)
        masked = one.new_entry("message", message=user(self.MASKED))
        await one.append([masked])
        [standing] = await other.append([{**masked, "message": user(self.LIVE)}])
        assert text_of(standing["message"]) == self.MASKED
        assert texts(other) == [self.MASKED]

    def test_c16_two_copies_that_stand_in_a_file_are_seen_once(self, files: Any) -> None:
        live = files.message("b", "a", self.LIVE)
        masked = files.message("b", "a", self.MASKED)
        path = files.write(*files.chain("a"), live, masked, files.message("c", "b"))
        assert [each["id"] for each in read_branch(path).entries] == ["a", "b", "c"]


class TestStartingAgainAndAgain:
    """C95, #66360: a program that crashed at every start appended something each time."""

    @pytest.mark.parametrize("tail", [b"", b'{"type":"mess', b"garbage\n"])
    async def test_c95_opening_a_session_ten_times_adds_nothing(
        self, files: Any, open_sessions: Any, tail: bytes
    ) -> None:
        path = files.write(*files.chain("a", "b"), tail)
        before = path.read_bytes()
        for _ in range(10):
            log = await stored(files, open_sessions())
            await log.refresh()
            await log.end_turn()
            assert len(texts(log)) == 2
        assert path.read_bytes() == before

    async def test_c95_a_session_that_is_opened_again_and_again_is_one_session(
        self, files: Any, open_sessions: Any
    ) -> None:
        for _ in range(5):
            await open_sessions().open(KEY)
        [session_id] = files.store.list()
        assert len(read_branch(files.store.path(session_id)).entries) == 1


class TestIndex:
    async def test_a_row_does_not_grow_with_its_conversation(
        self, files: Any, open_sessions: Any
    ) -> None:
        """#13203, #15507: 56 rows with snapshots made an index of 9.8 MB, which timed out everybody."""
        log = await open_sessions().open(KEY)
        for number in range(20):
            await log.append_messages([user("why? " * 1_000), assistant("because " * 1_000)])
            await log.end_turn(status="done", input_tokens=number, output_tokens=number)
        table = SessionEntries(files.folder / "sessions.sqlite")
        size = table.transact(
            lambda connection: connection.execute(
                "select sum(length(entry)) from session_entries"
            ).fetchone()[0]
        )
        table.close()
        assert size < 1_000

    def test_snapshots_of_an_imported_index_stay_out_of_ours(self) -> None:
        """#13203: the reference keeps the text of skills and prompts in each row."""
        row = {
            "sessionId": "s1",
            "updatedAt": 5,
            "skillsSnapshot": {"prompt": "x" * 100_000},
            "systemPromptReport": {"text": "x" * 100_000},
            "somethingNew": 7,
        }
        known = SessionEntry(key=KEY, session_id="s1", updated_at=5, session_started_at=5)
        entry, _ = entry_of_row(row, known, now=9, stored_key=str)
        assert entry.unknown == {"somethingNew": 7}

    async def test_a_conversation_whose_row_was_lost_is_found_again_beside_the_one_after_it(
        self, files: Any, open_sessions: Any
    ) -> None:
        """#66522: after a restart the index had new sessions alone; the files of the others were still there."""
        old = await open_sessions().open(KEY)
        await old.append_messages([user("long ago")])
        path = files.folder / "sessions.sqlite"
        table = SessionEntries(path)
        table.transact(lambda connection: connection.execute("delete from session_entries"))
        table.close()
        new = await open_sessions().open(KEY)
        await new.append_messages([user("today")])
        path.unlink()
        for left in files.folder.glob("sessions.sqlite-*"):
            left.unlink()
        entry = (await open_sessions().open(KEY)).entry
        assert (entry.session_id, entry.previous_session_ids) == (new.session_id, (old.session_id,))

    async def test_no_reset_leaves_the_old_file_under_the_new_id(self, open_sessions: Any) -> None:
        """#78607, #57020, #69155: the id changed and the file did not, so the context grew for weeks."""
        sessions = open_sessions()
        log = await sessions.open(KEY)
        for number in range(5):
            await log.append_messages([user(f"day {number}")])
            before, old = log.file.read_bytes(), log
            log = await sessions.start_new(KEY)
            assert log.entry.session_id == log.session_id == log.file.stem != old.session_id
            await log.append_messages([user("morning")])
            assert texts(log) == texts(await open_sessions().open(KEY)) == ["morning"]
            assert old.file.read_bytes() == before
            header = json.loads(log.file.read_bytes().splitlines()[0])
            assert header["id"] == log.session_id
