from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermitcrab.errors import SessionKeyError, TranscriptError
from hermitcrab.messages.text import scrub
from hermitcrab.sessions.format import new_header
from hermitcrab.sessions.transcript import JsonlTranscriptStore, Position

any_text = st.text(st.characters(), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "toolResult", "custom"]),
        "content": any_text
        | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": any_text}), max_size=2),
    },
    optional={"details": json_values, "futureField": json_values, "timestamp": st.integers(0)},
)


class Writer:
    """Appends to one transcript as its only program."""

    def __init__(self, store: JsonlTranscriptStore, clock: Any) -> None:
        self.store = store
        self.position = store.create(new_header("s1", clock(), cwd="/work"))
        self.path = store.path("s1")

    def append(self, *entries: Any) -> Any:
        result = self.store.append(
            "s1", self.position, lambda leaf_id, found: entries, purpose="test", flush=False
        )
        self.position = result.position
        return result


@pytest.fixture
def writer(files: Any, clock: Any) -> Writer:
    return Writer(files.store, clock)


def ids(entries: Any) -> list[str]:
    return [entry["id"] for entry in entries]


def custom(entry_id: str, **more: Any) -> Any:
    return {"type": "custom", "id": entry_id, **more}


class TestRoundTrip:
    def test_what_is_appended_is_read_back_in_one_line(self, writer: Writer) -> None:
        writer.append(custom("a"), custom("b"))
        result = writer.append(custom("c"))
        assert result.position == Position(
            end=writer.path.stat().st_size, leaf_id="c", header_id="s1"
        )
        branch = writer.store.read_branch("s1")
        assert ids(branch.entries) == ["a", "b", "c"]
        assert [entry["parentId"] for entry in branch.entries] == [None, "a", "b"]
        assert branch.end == result.position.end

    @settings(
        max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.lists(messages, max_size=5))
    def test_any_messages_survive_closing_and_opening(
        self, files: Any, given_messages: Any
    ) -> None:
        """C50, C57: any Unicode, any nesting, fields of the future; lone surrogates become U+FFFD."""
        files.write()
        position = files.store.read_branch("s1")
        entries = [
            {"type": "message", "id": f"m{index}", "message": message, "unknownField": message}
            for index, message in enumerate(given_messages)
        ]
        result = files.store.append(
            "s1",
            Position(end=position.end, leaf_id=None, header_id="s1"),
            lambda leaf_id, found: entries,
            purpose="test",
            flush=False,
        )
        reopened = JsonlTranscriptStore(files.folder)
        for read in (reopened.read_branch("s1"), reopened.read_all("s1")):
            assert list(read.entries) == list(result.written)
            assert [entry["message"] for entry in read.entries] == scrub(list(given_messages))

    def test_an_entry_that_names_its_parent_keeps_it(self, writer: Writer) -> None:
        writer.append(custom("a"), custom("b"))
        writer.append(custom("c", parentId="a"), custom("d"))
        assert ids(writer.store.read_branch("s1").entries) == ["a", "c", "d"]

    def test_the_maker_sees_the_true_leaf_and_what_others_wrote(self, writer: Writer) -> None:
        """C15."""
        stale = writer.position
        writer.append(custom("a"), custom("b"))
        seen: list[Any] = []

        def make(leaf_id: Any, found: Any) -> Any:
            seen.append((leaf_id, ids(found)))
            return [custom("c")]

        result = writer.store.append("s1", stale, make, purpose="test", flush=True)
        assert seen == [("b", ["a", "b"])]
        assert result.written[0]["parentId"] == "b"
        assert ids(result.found) == ["a", "b"]

    def test_linear_lines_of_another_program_are_linked_and_identified(
        self, writer: Writer, files: Any
    ) -> None:
        writer.append(custom("a"))
        with writer.path.open("ab") as file:
            file.write(files.line({"type": "custom"}) + files.line({"type": "custom", "id": 5}))
        result = writer.append(custom("d"))
        read = writer.store.read_all("s1")
        assert ids(read.entries) == ["a", *ids(result.found), "d"]
        assert [entry["parentId"] for entry in result.found] == ["a", result.found[0]["id"]]
        assert ids(read.branch()) == ids(read.entries)
        assert ids(writer.store.read_branch("s1").entries) == ids(read.entries)

    def test_a_file_that_became_shorter_is_read_anew(self, writer: Writer) -> None:
        """A backup was restored under us: the parent must be a line that is there."""
        writer.append(custom("a"))
        backup = writer.path.read_bytes()
        writer.append(custom("b"), custom("c"))
        writer.path.write_bytes(backup)
        writer.append(custom("d"))
        branch = writer.store.read_branch("s1")
        assert ids(branch.entries) == ["a", "d"]
        assert not branch.faults.any


class TestFiles:
    def test_files_are_for_their_owner_only(self, writer: Writer) -> None:
        assert writer.path.stat().st_mode & 0o777 == 0o600
        assert writer.path.parent.stat().st_mode & 0o777 == 0o700
        writer.append(custom("a"))
        locks = list(writer.path.parent.glob("*.lock"))
        assert [lock.stat().st_mode & 0o777 for lock in locks] == [0o600]

    def test_an_existing_transcript_is_never_created_over(self, writer: Writer, clock: Any) -> None:
        writer.append(custom("a"))
        with pytest.raises(TranscriptError, match="cannot be written"):
            writer.store.create(new_header("s1", clock(), cwd="/"))
        assert ids(writer.store.read_branch("s1").entries) == ["a"]

    def test_unsafe_session_ids_never_become_paths(self, files: Any) -> None:
        with pytest.raises(SessionKeyError):
            files.store.read_branch("../../etc/passwd")

    def test_a_transcript_that_is_gone_is_not_made_again(self, writer: Writer) -> None:
        """C10."""
        writer.path.unlink()
        with pytest.raises(TranscriptError, match="cannot be written"):
            writer.append(custom("a"))
        with pytest.raises(TranscriptError, match="no such transcript"):
            writer.store.read_branch("s1")
        with pytest.raises(TranscriptError):
            writer.store.sync("s1")

    def test_only_transcripts_are_listed(self, writer: Writer) -> None:
        (writer.path.parent / "not a session.jsonl").write_text("")
        (writer.path.parent / "sessions.sqlite").write_text("")
        writer.append(custom("a"))
        assert writer.store.list() == ["s1"]
        assert JsonlTranscriptStore(writer.path.parent / "none").list() == []


class TestWriting:
    def test_the_cost_of_an_append_does_not_grow_with_the_file(
        self, writer: Writer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """C20: saving rewrote the whole file; here the bytes written are the bytes of the lines."""
        written = read = 0
        real_write, real_pread = os.write, os.pread

        def counting_write(descriptor: int, data: Any) -> int:
            nonlocal written
            done = real_write(descriptor, data)
            written += done
            return done

        def counting_pread(descriptor: int, size: int, offset: int) -> bytes:
            nonlocal read
            data = real_pread(descriptor, size, offset)
            read += len(data)
            return data

        before = writer.path.stat().st_size
        monkeypatch.setattr(os, "write", counting_write)
        monkeypatch.setattr(os, "pread", counting_pread)
        for number in range(300):
            writer.append(custom(f"id{number}", data="x" * 100))
        assert written == writer.path.stat().st_size - before
        assert read <= 300

    def test_a_short_write_is_completed(
        self, writer: Writer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.write
        monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:1]))
        writer.append(custom("a", data="中文"), custom("b"))
        monkeypatch.undo()
        assert ids(writer.store.read_branch("s1").entries) == ["a", "b"]

    def test_a_full_disk_is_a_typed_error_and_costs_nothing_that_was_there(
        self, writer: Writer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writer.append(custom("a"))
        before = writer.path.read_bytes()
        real, calls = os.write, 0

        def full(descriptor: int, data: Any) -> int:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(descriptor, data[: len(data) // 2])

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(TranscriptError, match="No space left on device") as caught:
            writer.append(custom("b", data="x" * 200))
        monkeypatch.undo()
        assert caught.value.where == str(writer.path)
        assert writer.path.read_bytes().startswith(before)
        assert ids(writer.store.read_branch("s1").entries) == ["a"]

        writer.append(custom("c"))
        branch = writer.store.read_branch("s1")
        assert ids(branch.entries) == ["a", "c"]
        assert len(branch.faults.bad_lines) == 1

    def test_what_cannot_be_written_as_json_writes_nothing(self, writer: Writer) -> None:
        before = writer.path.read_bytes()
        with pytest.raises(TranscriptError, match="cannot be written as JSON"):
            writer.append(custom("a"), custom("b", data=object()))
        assert writer.path.read_bytes() == before

    def test_a_flush_reaches_the_disk(
        self, writer: Writer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", synced.append)
        writer.append(custom("a"))
        assert synced == []
        writer.store.append(
            "s1", writer.position, lambda leaf, found: [custom("b")], purpose="t", flush=True
        )
        writer.store.sync("s1")
        assert len(synced) == 2


class TestSize:
    def test_a_line_of_twenty_megabytes_is_read_in_bounded_memory(self, writer: Writer) -> None:
        """C95: the line, its text and its value; never a multiple of that."""
        import tracemalloc

        size = 20_000_000
        writer.append(custom("a"), custom("big", data="x" * size), custom("c"))
        for read in (writer.store.read_branch, writer.store.read_all):
            tracemalloc.start()
            try:
                found = read("s1")
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert ids(found.entries) == ["a", "big", "c"]
            assert len(found.entries[1]["data"]) == size
            assert peak < 3.1 * size

    def test_a_long_abandoned_line_is_not_even_parsed(self, writer: Writer) -> None:
        """C95: what no turn needs costs no more than its bytes."""
        import tracemalloc

        size = 20_000_000
        writer.append(custom("first"), custom("left"), custom("big", data="x" * size))
        writer.append(custom("last", parentId="first"))
        tracemalloc.start()
        try:
            found = writer.store.read_branch("s1")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert ids(found.entries) == ["first", "last"]
        assert peak < 1.5 * size
