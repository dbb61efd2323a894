from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from hermitcrab.errors import SessionNotFoundError, TranscriptError
from hermitcrab.messages.build import assistant, user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.format import ENTRY_CHANGE

KEY = "agent:main:main"


def texts(log: Any) -> list[str]:
    return [text_of(item.message) for item in log.items()]


def compaction(log: Any, first_kept: str) -> Any:
    return log.new_entry("compaction", summary="short", firstKeptEntryId=first_kept)


class TestOneProcess:
    async def test_a_session_is_created_at_its_first_opening_and_found_later(
        self, open_sessions: Any
    ) -> None:
        log = await open_sessions().open(KEY)
        await log.append_messages([user("one"), assistant("two")])
        again = await open_sessions().open(KEY)
        assert again.session_id == log.session_id
        assert texts(again) == texts(log) == ["one", "two"]
        assert again.path == log.path
        assert again.visible_bytes == log.visible_bytes

    async def test_the_transcript_names_its_key_so_that_a_lost_table_can_be_rebuilt(
        self, open_sessions: Any
    ) -> None:
        """Design 5."""
        log = await open_sessions().open(KEY)
        await log.update_entry(label="Ports")
        changes = [entry for entry in log.path if entry.get("customType") == ENTRY_CHANGE]
        assert [entry["data"] for entry in changes] == [
            {
                "key": KEY,
                "sessionId": log.session_id,
                "sessionStartedAt": log.entry.session_started_at,
            },
            {"key": KEY, "label": "Ports"},
        ]
        assert log.entry.label == "Ports"

    async def test_opening_without_creating_names_the_key(self, open_sessions: Any) -> None:
        with pytest.raises(SessionNotFoundError, match="agent:main:none"):
            await open_sessions().open("agent:main:none", create=False)

    async def test_a_session_whose_transcript_is_gone_names_its_key(
        self, open_sessions: Any
    ) -> None:
        """C10."""
        log = await open_sessions().open(KEY)
        log.file.unlink()
        with pytest.raises(TranscriptError, match=f"session '{KEY}' cannot be opened") as caught:
            await open_sessions().open(KEY)
        assert caught.value.where == str(log.file)

    async def test_an_entry_that_stands_already_is_not_written_again(
        self, open_sessions: Any
    ) -> None:
        """C12, C14: the second call gives back the one that stands there."""
        log = await open_sessions().open(KEY)
        entry = log.new_entry("message", message=user("once"))
        [first] = await log.append([entry])
        [second, third] = await log.append([entry, entry])
        assert first == second == third
        assert texts(log) == ["once"]
        assert log.file.read_bytes().count(entry["id"].encode()) == 1

    async def test_an_entry_given_twice_in_one_call_is_written_once(
        self, open_sessions: Any
    ) -> None:
        """C12."""
        log = await open_sessions().open(KEY)
        entry = log.new_entry("message", message=user("once"))
        await log.append([entry, entry])
        assert texts(log) == ["once"]

    async def test_lone_surrogates_are_replaced_in_memory_as_on_disk(
        self, open_sessions: Any
    ) -> None:
        """C57: a model request with one in it would fail, although the file is fine."""
        log = await open_sessions().open(KEY)
        message: Any = {"role": "user", "content": "a\ud83d"}
        await log.append_messages([message])
        assert texts(log) == ["a\ufffd"]
        assert texts(await open_sessions().open(KEY)) == ["a\ufffd"]

    async def test_a_compaction_narrows_the_branch(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        entries = await log.append_messages([user("one"), user("two"), user("three")])
        before = log.visible_bytes
        assert await log.append_compaction(compaction(log, entries[2]["id"]))
        await log.append_messages([user("four")])
        assert [item.is_summary for item in log.items()] == [True, False, False]
        assert texts(log)[1:] == ["three", "four"]
        again = await open_sessions().open(KEY)
        assert again.path == log.path
        assert again.visible_bytes == log.visible_bytes < before + 500

    async def test_the_items_handed_out_do_not_change_afterwards(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        await log.append_messages([user("one")])
        items = log.items()
        await log.append_messages([user("two")])
        assert len(items) == 1
        assert texts(log) == ["one", "two"]

    async def test_concurrent_appends_stand_in_one_line(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        await asyncio.gather(*(log.append_messages([user(str(n))]) for n in range(20)))
        assert sorted(texts(log), key=int) == [str(n) for n in range(20)]
        assert texts(await open_sessions().open(KEY)) == texts(log)

    async def test_the_end_of_a_turn_counts_its_messages(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        await log.append_messages([user("one"), assistant("two")])
        await log.end_turn()
        await log.end_turn()
        assert log.entry.message_count == 2

    async def test_a_new_session_under_a_key_keeps_what_the_user_set(
        self, open_sessions: Any
    ) -> None:
        """Sessions 9.6: /model was lost at a reset; id and file change in one write."""
        sessions = open_sessions()
        old = await sessions.open(KEY)
        await old.append_messages([user("one")])
        await old.update_entry(label="Ports", model_override="m", compaction_count=4)
        new = await sessions.start_new(KEY)
        assert new.session_id != old.session_id
        assert new.file != old.file
        assert old.file.exists()
        assert (new.entry.label, new.entry.model_override) == ("Ports", "m")
        assert new.entry.compaction_count == 0
        assert new.entry.previous_session_ids == (old.session_id,)
        assert texts(new) == []
        assert await sessions.open(KEY) is new

    @pytest.mark.parametrize(("durability", "per_append"), [("message", 1), ("turn", 0), ("os", 0)])
    async def test_durability_says_when_the_disk_is_waited_for(
        self,
        open_sessions: Any,
        monkeypatch: pytest.MonkeyPatch,
        durability: str,
        per_append: int,
    ) -> None:
        """Design 5."""
        log = await open_sessions(durability=durability).open(KEY)
        synced: list[int] = []
        monkeypatch.setattr("os.fsync", synced.append)
        await log.append_messages([user("one")])
        assert len(synced) == per_append
        await log.end_turn()
        assert len(synced) == per_append + (durability == "turn")


class TestSeveralProcesses:
    async def test_turns_of_two_logs_on_one_file_interleave_in_one_line(
        self, open_sessions: Any
    ) -> None:
        """C15: nobody continues from a stale leaf."""
        first = await open_sessions().open(KEY)
        second = await open_sessions().open(KEY)
        for number in range(3):
            await first.append_messages([user(f"a{number}")])
            await second.append_messages([user(f"b{number}")])
        await first.refresh()
        expected = ["a0", "b0", "a1", "b1", "a2", "b2"]
        assert texts(first) == texts(second) == expected
        assert texts(await open_sessions().open(KEY)) == expected
        assert first.path == second.path

    async def test_two_processes_that_create_one_session_share_it(
        self, open_sessions: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = open_sessions(), open_sessions()
        logs = await asyncio.gather(first.open(KEY), second.open(KEY))
        assert logs[0].session_id == logs[1].session_id
        await logs[0].append_messages([user("one")])
        await logs[1].append_messages([user("two")])
        assert texts(await open_sessions().open(KEY)) == ["one", "two"]

    async def test_a_compaction_is_dropped_where_another_process_was_faster(
        self, open_sessions: Any
    ) -> None:
        """Design 5."""
        first = await open_sessions().open(KEY)
        entries = await first.append_messages([user("one"), user("two")])
        second = await open_sessions().open(KEY)
        assert await first.append_compaction(compaction(first, entries[1]["id"]))
        assert not await second.append_compaction(compaction(second, entries[0]["id"]))
        assert second.path == first.path
        assert first.file.read_bytes().count(b'"type":"compaction"') == 1

    async def test_a_branch_that_another_process_took_is_followed(self, open_sessions: Any) -> None:
        first = await open_sessions().open(KEY)
        entries = await first.append_messages([user("one"), user("two")])
        second = await open_sessions().open(KEY)
        await second.append([{"type": "leaf", "id": "l", "targetId": entries[0]["id"]}])
        await second.append_messages([user("other")])
        await first.append_messages([user("three")])
        assert texts(first) == ["one", "other", "three"]
        assert first.path == (await open_sessions().open(KEY)).path

    async def test_changes_of_the_session_entry_by_others_are_seen(
        self, open_sessions: Any
    ) -> None:
        first = await open_sessions().open(KEY)
        second = await open_sessions().open(KEY)
        await second.update_entry(model_override="m")
        await first.refresh()
        assert first.entry.model_override == "m"

    async def test_a_log_goes_on_in_its_own_file_when_its_key_moved_on(
        self, open_sessions: Any
    ) -> None:
        """A reset in another process must not send our lines into a file that we have not read."""
        old = await open_sessions().open(KEY)
        await old.append_messages([user("one")])
        new = await open_sessions().start_new(KEY)
        await old.update_entry(record=False, last_interaction_at=5)
        await old.append_messages([user("two")])
        assert texts(old) == ["one", "two"]
        assert old.session_id == old.file.stem != new.session_id
        await new.append_messages([user("fresh")])
        assert texts(await open_sessions().open(KEY)) == ["fresh"]
        assert new.path[-1]["parentId"] == new.path[-2]["id"]

    async def test_a_file_that_became_shorter_is_read_anew(self, open_sessions: Any) -> None:
        log = await open_sessions().open(KEY)
        await log.append_messages([user("one")])
        backup = log.file.read_bytes()
        await log.append_messages([user("two")])
        log.file.write_bytes(backup)
        await log.refresh()
        assert texts(log) == ["one"]
        await log.append_messages([user("three")])
        assert texts(log) == texts(await open_sessions().open(KEY)) == ["one", "three"]


class TestCancelling:
    async def test_a_cancelled_append_leaves_log_and_file_agreeing(
        self, open_sessions: Any, files: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """C24: even a caller that is cancelled again and again waits for what the worker still writes."""
        log = await open_sessions().open(KEY)
        started, go_on = threading.Event(), threading.Event()
        real = type(files.store).append

        def slow(self: Any, *arguments: Any, **options: Any) -> Any:
            started.set()
            assert go_on.wait(10)
            return real(self, *arguments, **options)

        monkeypatch.setattr(type(files.store), "append", slow)
        task = asyncio.create_task(log.append_messages([user("one")]))
        await asyncio.to_thread(started.wait, 10)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert texts(log) == ["one"]
        await log.append_messages([user("two")])
        assert texts(log) == texts(await open_sessions().open(KEY)) == ["one", "two"]

    async def test_a_caller_cancelled_in_the_queue_writes_nothing(
        self, open_sessions: Any, files: Any
    ) -> None:
        """C24."""
        log = await open_sessions().open(KEY)
        first = asyncio.create_task(log.append_messages([user("one")]))
        second = asyncio.create_task(log.append_messages([user("two")]))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        await log.append_messages([user("three")])
        assert texts(log) == texts(await open_sessions().open(KEY)) == ["one", "three"]

    async def test_a_failure_behind_a_cancelled_caller_is_logged_and_the_cancelling_holds(
        self,
        open_sessions: Any,
        files: Any,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        log = await open_sessions().open(KEY)
        started, go_on = threading.Event(), threading.Event()

        def fail(self: Any, *arguments: Any, **options: Any) -> Any:
            started.set()
            assert go_on.wait(10)
            raise TranscriptError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(type(files.store), "append", fail)
            task = asyncio.create_task(log.append_messages([user("one")]))
            await asyncio.to_thread(started.wait, 10)
            task.cancel()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert "the disk is full" in caplog.text
        await log.append_messages([user("two")])
        assert texts(log) == ["two"]


class TestFailures:
    async def test_a_failed_append_does_not_spoil_the_next(
        self, open_sessions: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = await open_sessions().open(KEY)
        with monkeypatch.context() as patch:
            patch.setattr("os.write", _disk_is_full)
            with pytest.raises(TranscriptError, match="No space left"):
                await log.append_messages([user("one")])
        await log.append_messages([user("two")])
        assert texts(log) == texts(await open_sessions().open(KEY)) == ["two"]

    async def test_faults_are_logged_with_key_and_file_when_a_session_is_opened(
        self, open_sessions: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """C1, C2: nothing is skipped without a trace."""
        log = await open_sessions().open(KEY)
        with log.file.open("ab") as file:
            file.write(b"garbage\n")
        again = await open_sessions().open(KEY)
        assert len(again.faults.bad_lines) == 1
        [record] = [one for one in caplog.records if "1 bad lines" in one.getMessage()]
        assert str(log.file) in record.getMessage()
        assert record.__dict__["session_key"] == KEY


def _disk_is_full(descriptor: int, data: Any) -> int:
    raise OSError(28, "No space left on device")


async def test_sessions_are_listed_newest_first(open_sessions: Any) -> None:
    sessions = open_sessions()
    for name in ("one", "two", "three"):
        await sessions.open(f"agent:main:{name}")
    listed = [entry.key.rpartition(":")[2] for entry in await sessions.list()]
    assert listed == ["three", "two", "one"]
    await sessions.close()
    await sessions.close()


async def test_a_log_tells_the_time_of_its_clock(open_sessions: Any) -> None:
    log = await open_sessions().open(KEY)
    assert log.now().date() == datetime(2026, 3, 1, tzinfo=UTC).date()
    assert log.key == KEY
