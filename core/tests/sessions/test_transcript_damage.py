from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.errors import TranscriptError
from hermitcrab.sessions.reading import read_branch, read_transcript
from hermitcrab.sessions.transcript import JsonlTranscriptStore, Position


def ids(entries: Any) -> list[str]:
    return [entry["id"] for entry in entries]


def append(store: JsonlTranscriptStore, *entries: Any, session_id: str = "s1") -> Any:
    """Append as a session does that has just been opened."""
    branch = store.read_branch(session_id)
    position = Position(end=branch.end, leaf_id=branch.leaf_id, header_id=branch.header["id"])
    return store.append(
        session_id, position, lambda leaf_id, found: entries, purpose="test", flush=False
    )


class TestDamagedHeader:
    @pytest.mark.parametrize(
        "header",
        [
            b'{"type":"session","id"\n',
            b"\xff\xfe garbage\n",
            b'{"type":"session"}\n',
            b'{"type":"session","id":5}\n',
            b"\n",
            b"[1]\n",
        ],
    )
    def test_a_damaged_header_costs_no_entry_and_no_byte(self, files: Any, header: bytes) -> None:
        """C1: resume started over and wiped the whole file."""
        entries = files.chain("a", "b", "c", "d", "e")
        entries[0]["timestamp"] = "2026-03-01T12:00:00.000Z"
        path = files.write(*entries, header=header)
        before = path.read_bytes()
        for read in (read_branch(path), read_transcript(path)):
            assert ids(read.entries) == ["a", "b", "c", "d", "e"]
            assert read.faults.header_rebuilt
            assert read.faults.bad_lines == ()
            assert read.header["id"] == "s1"
            assert read.header["timestamp"] == "2026-03-01T12:00:00.000Z"
            assert read.version == 3
        assert path.read_bytes() == before

    def test_a_file_without_a_header_keeps_its_first_entry(self, files: Any) -> None:
        """C1."""
        path = files.write(*files.chain("a", "b"), header=None)
        assert ids(read_branch(path).entries) == ids(read_transcript(path).entries) == ["a", "b"]

    def test_writing_behind_a_damaged_header_keeps_every_byte(self, files: Any) -> None:
        """C1."""
        path = files.write(*files.chain("a", "b"), header=b'{"type":"session","id"\n')
        before = path.read_bytes()
        append(files.store, {"type": "custom", "id": "c"})
        assert path.read_bytes().startswith(before)
        assert ids(read_branch(path).entries) == ["a", "b", "c"]

    def test_lines_without_ids_behind_a_damaged_header_are_of_the_first_version(
        self, files: Any
    ) -> None:
        message = {"type": "message", "message": {"role": "user", "content": "hi"}}
        path = files.write(message, message, header=b"broken\n")
        branch = read_branch(path)
        assert branch.version == 1
        assert len(branch.entries) == 2

    def test_a_header_of_megabytes_is_a_header(self, files: Any) -> None:
        path = files.write(*files.chain("a"), header={**files.header, "extra": "x" * 2_000_000})
        branch = read_branch(path)
        assert branch.header["id"] == "s1"
        assert not branch.faults.any
        assert ids(branch.entries) == ["a"]

    def test_a_second_header_in_the_middle_is_a_bad_line_and_not_an_entry(self, files: Any) -> None:
        first, second = files.chain("a", "b")
        path = files.write(first, files.header, second, files.header)
        assert ids(read_branch(path).entries) == ids(read_transcript(path).entries) == ["a", "b"]
        assert len(read_transcript(path).faults.bad_lines) == 2


class TestBadLines:
    def test_bad_lines_in_the_middle_are_skipped_and_reported_where_they_are(
        self, files: Any
    ) -> None:
        """C2: valid, garbage, valid, a list, valid."""
        first, second, third = files.chain("a", "b", "c")
        path = files.write(first, b"garbage\n", second, b"[1,2]\n", third)
        data = path.read_bytes()
        expected = (data.index(b"garbage"), data.index(b"[1,2]"))
        for read in (read_branch(path), read_transcript(path)):
            assert ids(read.entries) == ["a", "b", "c"]
            assert read.faults.bad_lines == expected
            assert read.faults.any

    def test_blank_lines_are_no_damage(self, files: Any) -> None:
        first, second = files.chain("a", "b")
        path = files.write(first, b"\n  \n", second, b"\n")
        assert not read_branch(path).faults.any
        assert not read_transcript(path).faults.any

    def test_a_file_without_any_entry_says_so(self, files: Any) -> None:
        with pytest.raises(TranscriptError, match="no line of this file is a transcript entry"):
            read_transcript(files.write(b"garbage\n", header=None))
        with pytest.raises(TranscriptError, match="this file is empty"):
            read_transcript(files.write(header=None))

    def test_a_new_transcript_without_entries_is_fine(self, files: Any) -> None:
        contents = read_transcript(files.write())
        assert (contents.entries, contents.leaf_id(), contents.faults.any) == ((), None, False)


class TestTornTail:
    def test_a_reader_without_the_lock_sees_an_unfinished_write_and_no_damage(
        self, files: Any
    ) -> None:
        """C3, design 5."""
        torn = b'{"type":"mess'
        path = files.write(*files.chain("a"), torn)
        for read in (read_branch(path), read_transcript(path)):
            assert ids(read.entries) == ["a"]
            assert read.faults.unfinished_bytes == len(torn)
            assert read.faults.bad_lines == ()
            assert not read.faults.any
            assert read.end == path.stat().st_size - len(torn)

    def test_an_append_behind_a_torn_tail_begins_on_its_own_line(self, files: Any) -> None:
        """C3: the next append was glued to the half line."""
        path = files.write(*files.chain("a"), b'{"type":"mess')
        before = path.read_bytes()
        result = append(files.store, {"type": "custom", "id": "b"})
        assert path.read_bytes().startswith(before + b"\n{")
        assert result.position.end == path.stat().st_size
        branch = read_branch(path)
        assert ids(branch.entries) == ["a", "b"]
        assert branch.entries[-1]["parentId"] == "a"
        assert branch.faults.bad_lines == (before.index(b'{"type":"mess'),)

    def test_looking_without_writing_leaves_the_torn_tail_alone(self, files: Any) -> None:
        path = files.write(*files.chain("a"), b'{"type":"mess')
        before = path.read_bytes()
        result = append(files.store)
        assert path.read_bytes() == before
        assert result.position.end == len(before) - len(b'{"type":"mess')

    def test_a_whole_entry_that_lacks_only_its_newline_is_not_lost(self, files: Any) -> None:
        last = files.line(files.message("b", "a")).rstrip()
        path = files.write(*files.chain("a"), last)
        assert ids(read_branch(path).entries) == ids(read_transcript(path).entries) == ["a", "b"]
        append(files.store, {"type": "custom", "id": "c"})
        assert ids(read_branch(path).entries) == ["a", "b", "c"]
        assert not read_transcript(path).faults.any

    def test_an_entry_that_was_torn_when_we_looked_and_whole_when_we_wrote_is_found(
        self, files: Any
    ) -> None:
        last = files.line(files.message("b", "a"))
        path = files.write(*files.chain("a"), last[:20])
        branch = files.store.read_branch("s1")
        position = Position(end=branch.end, leaf_id="a", header_id="s1")
        with path.open("ab") as file:
            file.write(last[20:-1])
        result = files.store.append(
            "s1",
            position,
            lambda leaf, found: [{"type": "custom", "id": "c"}],
            purpose="t",
            flush=False,
        )
        assert ids(result.found) == ["b"]
        assert ids(read_branch(path).entries) == ["a", "b", "c"]

    @pytest.mark.parametrize("torn", [b'{"type":"session","ver', b"", b"\n"])
    def test_a_file_that_is_nothing_but_a_torn_header_can_be_written(
        self, files: Any, torn: bytes
    ) -> None:
        """A crash while the session was created must not leave it stuck."""
        path = files.write(torn, header=None)
        assert read_branch(path).version == 3
        append(files.store, {"type": "custom", "id": "a"}, {"type": "custom", "id": "b"})
        branch = read_branch(path)
        assert ids(branch.entries) == ["a", "b"]
        assert branch.faults.header_rebuilt
        assert path.read_bytes().startswith(torn)

    def test_a_header_without_its_newline_is_a_header(self, files: Any) -> None:
        path = files.write(header=files.line(files.header).rstrip())
        append(files.store, {"type": "custom", "id": "a"})
        branch = read_branch(path)
        assert ids(branch.entries) == ["a"]
        assert not branch.faults.any


class TestMissingAncestors:
    def test_a_missing_ancestor_is_reported_and_the_rest_is_usable(self, files: Any) -> None:
        """C6: the head of a file vanished silently."""
        path = files.write(files.message("b", "gone"), files.message("c", "b"))
        branch = read_branch(path)
        assert ids(branch.entries) == ["b", "c"]
        assert branch.faults.missing_ancestor == "gone"
        assert branch.faults.any
        append(files.store, {"type": "custom", "id": "d"})
        assert ids(read_branch(path).entries) == ["b", "c", "d"]

    def test_a_hole_behind_the_last_compaction_does_not_matter(self, files: Any) -> None:
        compaction = {"type": "compaction", "id": "x", "parentId": "c", "firstKeptEntryId": "c"}
        path = files.write(files.message("b", "gone"), files.message("c", "b"), compaction)
        assert not read_branch(path).faults.any

    def test_a_cycle_is_reported_and_ends(self, files: Any) -> None:
        path = files.write(files.message("a", "b"), files.message("b", "a"))
        branch = read_branch(path)
        assert ids(branch.entries) == ["a", "b"]
        assert branch.faults.missing_ancestor == "b"

    def test_a_file_that_grew_while_it_was_read_whole_is_not_read_twice(self, files: Any) -> None:
        """The full scan that a hole causes may see lines that came later; they count once."""
        path = files.write(files.message("b", "gone"), files.message("c", "b"))
        branch = read_branch(path)
        assert branch.end == path.stat().st_size
        result = append(files.store)
        assert result.found == ()
