from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hermitcrab.sessions import lines
from hermitcrab.sessions.branch import kept_part, linked, path_to, without_repeats
from hermitcrab.sessions.format import derived_id
from hermitcrab.sessions.reading import read_branch, read_transcript

ids = st.sampled_from(["a", "b", "c", "d", "aa", "e\u00e9"])
parents = st.one_of(st.none(), ids, ids, ids)


@st.composite
def trees(draw: st.DrawFn) -> list[Any]:
    """Lines of any tree: branches, leaf entries, compactions, repeated ids, cycles, holes, and no ids at all."""
    found: list[Any] = []
    for index in range(draw(st.integers(0, 10))):
        kind = draw(st.sampled_from(["message"] * 4 + ["custom", "leaf", "compaction", "junk"]))
        if kind == "junk":
            found.append(draw(st.sampled_from([b"garbage\n", b"\n", b'{"id": "a"}\n', b"[1]\n"])))
            continue
        fields: Any = {"type": kind, "id": draw(ids) if draw(st.booleans()) else f"id{index}"}
        if index and draw(st.integers(0, 3)):
            known = [one["id"] for one in found if isinstance(one, dict) and "id" in one]
            fields["parentId"] = known[-1] if known else None
        elif draw(st.booleans()):
            fields["parentId"] = draw(parents)
        if draw(st.integers(0, 9)) == 0:
            del fields["id"]
        if kind == "leaf":
            fields["targetId"] = draw(parents)
        if kind == "compaction":
            fields |= {"summary": "s", "firstKeptEntryId": draw(st.one_of(parents, st.just(7)))}
        if draw(st.booleans()):
            fields["message"] = {"role": "user", "content": f"mentions {draw(ids)}"}
        found.append(fields)
    return found


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(entries=trees(), torn=st.sampled_from([b"", b'{"type":"mess', b'{"type":"custom"}']))
@example(entries=[{"type": "message", "id": "a", "parentId": "a"}], torn=b"")
def test_reading_from_the_end_finds_what_reading_everything_finds(
    files: Any, entries: list[Any], torn: bytes
) -> None:
    """Design 5: the cost of a turn does not grow with history, and its result does not depend on that."""
    path: Path = files.write(*entries, torn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_CHUNK_BYTES", 50)
        branch = read_branch(path)
    contents = read_transcript(path)
    whole, missing = path_to(contents.leaf_id(), contents.entries)
    expected = without_repeats(kept_part(whole))
    # The walk backwards may stop at what the last compaction kept, before it comes to a hole.
    assert branch.faults.missing_ancestor in {missing, None}
    assert _unlinked(branch.entries) == _unlinked(expected)
    assert branch.leaf_id == contents.leaf_id()
    assert branch.end == contents.end
    assert branch.faults.unfinished_bytes == contents.faults.unfinished_bytes
    assert set(branch.faults.bad_lines) <= set(contents.faults.bad_lines)


def _unlinked(entries: Any) -> list[Any]:
    return [{key: entry[key] for key in entry if key != "parentId"} for entry in entries]


class TestBranches:
    def test_the_branch_is_the_way_from_the_root_to_the_leaf(self, files: Any) -> None:
        path = files.write(*files.chain("a", "b", "c"))
        assert [entry["id"] for entry in read_branch(path).entries] == ["a", "b", "c"]
        assert read_branch(path).leaf_id == "c"

    def test_abandoned_branches_are_passed_over(self, files: Any) -> None:
        entries = [*files.chain("a", "b", "c"), files.message("d", "a", "mentions b and c")]
        path = files.write(*entries)
        assert [entry["id"] for entry in read_branch(path).entries] == ["a", "d"]

    def test_a_leaf_entry_moves_the_leaf(self, files: Any) -> None:
        leaf = {"type": "leaf", "id": "l", "parentId": "c", "targetId": "b"}
        path = files.write(*files.chain("a", "b", "c"), leaf)
        branch = read_branch(path)
        assert [entry["id"] for entry in branch.entries] == ["a", "b"]
        assert branch.leaf_id == "b"

    def test_a_leaf_entry_without_a_target_starts_over(self, files: Any) -> None:
        leaf = {"type": "leaf", "id": "l", "parentId": "b", "targetId": None}
        branch = read_branch(files.write(*files.chain("a", "b"), leaf))
        assert (branch.entries, branch.leaf_id, branch.faults.any) == ((), None, False)

    def test_a_file_without_parents_is_one_line(self, files: Any) -> None:
        entries = files.chain("a", "b", "c")
        for entry in entries:
            del entry["parentId"]
        branch = read_branch(files.write(*entries))
        assert [entry["id"] for entry in branch.entries] == ["a", "b", "c"]
        assert not branch.faults.any

    def test_an_entry_whose_id_is_no_text_gets_a_derived_one(self, files: Any) -> None:
        first, second = files.message(17, None), files.message(["x"], 17)
        path = files.write(first, second)
        offsets = [len(files.line(files.header))]
        offsets.append(offsets[0] + len(files.line(first)))
        expected = [derived_id("s1", offset) for offset in offsets]
        assert [entry["id"] for entry in read_branch(path).entries] == expected
        assert [entry["id"] for entry in read_transcript(path).entries] == expected

    def test_a_line_that_mentions_the_wanted_id_is_not_taken_for_it(self, files: Any) -> None:
        decoy = files.message("x", "nobody", 'says "id":"a" and a')
        path = files.write(files.message("a", None), decoy, files.message("b", "a"))
        assert [entry["id"] for entry in read_branch(path).entries] == ["a", "b"]

    def test_an_id_that_another_program_escaped_is_found(self, files: Any) -> None:
        path = files.write(files.message("é", None), files.message("b", "é"))
        branch = read_branch(path)
        assert [entry["id"] for entry in branch.entries] == ["é", "b"]
        assert not branch.faults.any

    def test_lines_that_end_as_windows_ends_them_are_read(self, files: Any) -> None:
        entries = [files.line(one).replace(b"\n", b"\r\n") for one in files.chain("a", "b")]
        header = files.line(files.header).replace(b"\n", b"\r\n")
        path = files.write(*entries, b"\r\n", header=header)
        assert [entry["id"] for entry in read_branch(path).entries] == ["a", "b"]
        assert not read_branch(path).faults.any
        assert not read_transcript(path).faults.any


class TestCompactions:
    def compaction(self, entry_id: str, parent: str, first_kept: Any) -> Any:
        return {
            "type": "compaction",
            "id": entry_id,
            "parentId": parent,
            "summary": "s",
            "firstKeptEntryId": first_kept,
        }

    def test_the_branch_begins_at_what_the_last_compaction_kept(self, files: Any) -> None:
        entries = files.chain("a", "b", "c")
        path = files.write(*entries, self.compaction("x", "c", "b"), files.message("d", "x"))
        branch = read_branch(path)
        assert [entry["id"] for entry in branch.entries] == ["b", "c", "x", "d"]
        assert branch.start == len(files.line(files.header)) + len(files.line(entries[0]))
        everything = [entry["id"] for entry in read_transcript(path).branch()]
        assert everything == ["a", "b", "c", "x", "d"]

    @pytest.mark.parametrize("first_kept", ["x", None, "gone", 7, ["b"]])
    def test_a_compaction_that_keeps_nothing_known_keeps_nothing(
        self, files: Any, first_kept: Any
    ) -> None:
        """Context 9.3: its own id, or one that is not on the path before it."""
        compaction = self.compaction("x", "b", first_kept)
        path = files.write(*files.chain("a", "b"), compaction, files.message("d", "x"))
        branch = read_branch(path)
        assert [entry["id"] for entry in branch.entries] == ["x", "d"]
        assert not branch.faults.any

    def test_nothing_before_what_is_kept_is_read(
        self, files: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lines, "_CHUNK_BYTES", 256)
        entries = [b"this line would be reported\n" * 50, *files.chain("b", "c")]
        path = files.write(*entries, self.compaction("x", "c", "b"))
        assert read_branch(path).faults.bad_lines == ()
        assert len(read_transcript(path).faults.bad_lines) == 50

    def test_an_earlier_compaction_in_the_kept_part_does_not_stop_the_reading(
        self, files: Any
    ) -> None:
        path = files.write(
            *files.chain("a", "b"),
            self.compaction("x", "b", "b"),
            files.message("c", "x"),
            self.compaction("y", "c", "b"),
        )
        assert [entry["id"] for entry in read_branch(path).entries] == ["b", "x", "c", "y"]


class TestPaths:
    def entry(self, entry_id: str, parent: str | None, kind: str = "message") -> Any:
        return {"type": kind, "id": entry_id, "parentId": parent}

    def test_a_cycle_ends_the_walk_and_is_told(self) -> None:
        entries = [self.entry("a", "b"), self.entry("b", "a")]
        assert path_to("b", entries) == ((entries[0], entries[1]), "b")

    def test_an_entry_that_is_its_own_parent_is_a_cycle(self) -> None:
        entries = [self.entry("a", "a")]
        assert path_to("a", entries) == ((entries[0],), "a")

    def test_of_two_lines_with_one_id_the_nearest_before_is_meant(self) -> None:
        entries = [self.entry("a", None), self.entry("b", "a"), self.entry("a", "b")]
        assert path_to("a", entries) == (tuple(entries), None)
        assert [entry["id"] for entry in without_repeats(entries)] == ["a", "b"]

    def test_a_message_written_twice_stands_on_the_branch_once(self, files: Any) -> None:
        """C12: two code paths wrote each turn."""
        first, second = files.chain("a", "b")
        again = files.message("b", "c", "text of b")
        path = files.write(first, second, second, files.message("c", "b"), again)
        assert [entry["id"] for entry in read_branch(path).entries] == ["a", "b", "c"]
        assert [entry["id"] for entry in read_transcript(path).branch()] == ["a", "b", "c"]

    def test_a_parent_that_stands_later_in_the_file_is_found(self, files: Any) -> None:
        path = files.write(
            files.message("b", "a"), files.message("a", None), files.message("c", "b")
        )
        assert [entry["id"] for entry in read_branch(path).entries] == ["a", "b", "c"]

    def test_entries_without_a_parent_follow_the_leaf_where_they_stand(self) -> None:
        entries: Any = [
            {"type": "leaf", "id": "l", "parentId": "b", "targetId": "a"},
            {"type": "x", "id": "c"},
        ]
        assert linked(entries, "b")[1]["parentId"] == "a"
        assert "parentId" not in entries[1]
