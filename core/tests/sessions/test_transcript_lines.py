from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.errors import TranscriptError
from hermitcrab.sessions import lines
from hermitcrab.sessions.format import (
    IdSource,
    decode_line,
    derived_id,
    encode_entry,
    encode_line,
    format_version,
    identified,
    iso,
    parse_time,
    reference,
)
from hermitcrab.sessions.lines import lines_backwards, open_transcript

any_text = st.text(st.characters())
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


def lines_forwards(data: bytes) -> list[tuple[int, bytes]]:
    found, offset = [], 0
    for line in data.split(b"\n"):
        found.append((offset, line))
        offset += len(line) + 1
    return found


class TestBackwards:
    @given(
        st.lists(st.binary(max_size=40) | st.just(b"x" * 300), max_size=12).map(b"\n".join),
        st.integers(1, 64),
    )
    def test_lines_backwards_are_the_lines_forwards_in_reverse(
        self, data: bytes, chunk_bytes: int
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lines, "_CHUNK_BYTES", chunk_bytes)
            found = list(lines_backwards(io.BytesIO(data), len(data)))
        assert found == lines_forwards(data)[::-1]

    @given(st.binary(max_size=200), st.integers(0, 200))
    def test_reading_may_begin_anywhere(self, data: bytes, end: int) -> None:
        end = min(end, len(data))
        found = list(lines_backwards(io.BytesIO(data), end))
        assert found == lines_forwards(data[:end])[::-1]

    def test_every_byte_is_read_at_most_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A line much longer than a chunk does not cost its square."""

        class Counting(io.BytesIO):
            total = 0

            def read(self, size: int | None = -1) -> bytes:
                data = super().read(size)
                self.total += len(data)
                return data

        monkeypatch.setattr(lines, "_CHUNK_BYTES", 16)
        file = Counting(b"a" * 10_000 + b"\n" + b"b" * 10_000 + b"\n" + b"c\n" * 1000)
        assert len(list(lines_backwards(file, len(file.getvalue())))) == 1003
        assert file.total <= 2 * len(file.getvalue()) + 16


class TestEncoding:
    @given(st.dictionaries(any_text, json_values, max_size=4))
    def test_a_line_is_one_line_and_reads_back_with_surrogates_replaced(
        self, fields: dict[str, Any]
    ) -> None:
        """C50, C57."""
        line = encode_line({"type": "custom", **fields, "type": "custom"})  # noqa: F601
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        decoded = decode_line(line)
        assert decoded is not None
        assert encode_line(decoded) == line

    def test_what_needs_no_repair_is_kept_as_the_same_object(self) -> None:
        entry: Any = {"type": "custom", "id": "a", "data": {"text": "中文 😀"}}
        assert encode_entry(entry)[0] is entry

    def test_a_lone_surrogate_is_replaced_in_the_file_and_in_memory(self) -> None:
        """C57."""
        entry: Any = {"type": "custom", "id": "a", "data": {"k\ud83d": ["\ude00x"]}}
        written, line = encode_entry(entry)
        assert written["data"] == {"k\ufffd": ["\ufffdx"]}
        assert decode_line(line) == written

    def test_surrogates_that_others_wrote_are_replaced_on_reading(self) -> None:
        """C57."""
        assert decode_line(rb'{"type":"a","x":"\ud83d"}') == {"type": "a", "x": "\ufffd"}
        assert decode_line(b'{"type":"a","x":"\xed\xa0\xbd"}') == {"type": "a", "x": "\ufffd"}
        assert decode_line(rb'{"type":"a","x":"\ud83d\ude00"}') == {"type": "a", "x": "😀"}

    def test_numbers_that_json_lacks_become_null(self) -> None:
        line = encode_line({"type": "a", "x": [float("nan"), float("inf"), 1.5]})
        assert json.loads(line) == {"type": "a", "x": [None, None, 1.5]}

    @pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", {(1, 2): 3}])
    def test_what_json_cannot_express_is_a_typed_error(self, value: Any) -> None:
        with pytest.raises(TranscriptError, match="cannot be written as JSON"):
            encode_line({"type": "message", "details": value})

    def test_endless_and_very_deep_values_are_typed_errors(self) -> None:
        endless: Any = []
        endless.append(endless)
        deep: Any = []
        for _ in range(100_000):
            deep = [deep]
        for value in (endless, deep):
            with pytest.raises(TranscriptError, match="cannot be written as JSON"):
                encode_line({"type": "message", "details": value})

    @pytest.mark.parametrize(
        "line",
        [
            b"",
            b"garbage",
            b"[1,2]",
            b"null",
            b"{}",
            b'{"type":3}',
            b'{"type":"a"',
            b"\xff\xfe\x00",
            b"[" * 100_000,
            b'{"type":"a","x":' + b"9" * 5000 + b"}",
        ],
    )
    def test_what_is_no_object_with_a_type_is_no_line(self, line: bytes) -> None:
        assert decode_line(line) is None

    def test_a_carriage_return_before_the_newline_does_not_matter(self) -> None:
        assert decode_line(b'{"type":"a"}\r') == {"type": "a"}


class TestFields:
    def test_ids_sort_by_time_and_never_repeat(self) -> None:
        moments = iter([5.0, 5.0, 5.0, 4.0, 6.0])
        source = IdSource(lambda: next(moments))
        made = [source.next() for _ in range(5)]
        assert made == sorted(set(made))
        assert all(len(entry_id) == 16 for entry_id in made)

    def test_derived_ids_depend_on_file_and_offset_only(self) -> None:
        assert derived_id("s", 10) == derived_id("s", 10)
        assert len({derived_id("s", 10), derived_id("s", 11), derived_id("t", 10)}) == 3

    @pytest.mark.parametrize("value", [None, 5, "", [], {"a": 1}, True])
    def test_an_id_that_is_no_text_names_nothing_and_is_derived(self, value: Any) -> None:
        assert reference(value) is None
        assert identified({"type": "a", "id": value}, "s", 10)["id"] == derived_id("s", 10)

    def test_an_entry_with_an_id_is_the_same_object(self) -> None:
        value = {"type": "a", "id": "x"}
        assert identified(value, "s", 10) is value

    @pytest.mark.parametrize(
        ("stated", "version"),
        [(3, 3), (2, 2), (1, 1), ("2", 2), (4, 4), ("three", 3), (None, 3), (True, 3), (2.0, 3)],
    )
    def test_a_version_that_cannot_be_read_is_taken_for_the_current_one(
        self, stated: Any, version: int
    ) -> None:
        assert format_version({"type": "session", "version": stated}) == version

    def test_a_header_without_a_version_is_of_the_first(self) -> None:
        assert format_version({"type": "session"}) == 1


class TestTimes:
    def test_a_moment_is_written_in_utc_with_milliseconds(self) -> None:
        assert iso(datetime(2026, 3, 1, 12, 0, 0, 7000, tzinfo=UTC)) == "2026-03-01T12:00:00.007Z"

    @pytest.mark.parametrize(
        "value",
        [
            "2026-03-01T12:00:00.000Z",
            "2026-03-01T13:00:00+01:00",
            "2026-03-01T12:00:00",
            1772366400000,
        ],
    )
    def test_texts_and_milliseconds_name_the_same_moment(self, value: Any) -> None:
        assert parse_time(value) == datetime(2026, 3, 1, 12, tzinfo=UTC)

    @pytest.mark.parametrize(
        "value",
        [
            "",
            "yesterday",
            None,
            True,
            [],
            10**30,
            -(10**30),
            10**400,
            float("nan"),
            float("inf"),
            "0001-01-01T00:00:00+23:59",
            "9999-12-31T23:59:59-23:59",
            "2026-13-45T00:00:00Z",
        ],
    )
    def test_what_names_no_moment_in_range_is_none(self, value: Any) -> None:
        assert parse_time(value) is None


class TestOpening:
    def test_a_missing_file_says_so(self, tmp_path: Any) -> None:
        with pytest.raises(TranscriptError, match="no such transcript"):
            open_transcript(tmp_path / "none.jsonl")

    def test_a_directory_says_so(self, tmp_path: Any) -> None:
        with pytest.raises(TranscriptError, match="this is a directory"):
            open_transcript(tmp_path)

    def test_a_path_through_a_file_says_so(self, tmp_path: Any) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(TranscriptError, match="cannot be opened"):
            open_transcript(tmp_path / "file" / "x.jsonl")
