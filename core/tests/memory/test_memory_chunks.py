"""Chunks of Markdown: the budget, the overlap, and that nothing is lost (memory 3.4)."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.memory.files import CHUNKER_VERSION, chunk_markdown, weighted_length

LINES = st.lists(
    st.text(st.sampled_from("ab -#中文字。😀\t"), max_size=120), min_size=0, max_size=40
)
TEXTS = LINES.map("\n".join)


def test_a_chunker_change_is_visible_by_its_version():
    assert CHUNKER_VERSION == 6


def test_a_cjk_character_weighs_as_much_as_a_token():
    assert weighted_length("ab") == 2
    assert weighted_length("中") == 4
    assert weighted_length("か") == 4
    assert weighted_length("한") == 4
    assert weighted_length("😀") == 1


def test_a_short_text_is_one_chunk():
    [chunk] = chunk_markdown("one\n\ntwo\n")
    assert (chunk.start_line, chunk.end_line, chunk.text) == (1, 4, "one\n\ntwo\n")
    assert chunk.hash == hashlib.sha256(b"one\n\ntwo\n").hexdigest()


def test_a_blank_text_has_no_chunks():
    assert chunk_markdown("") == []
    assert chunk_markdown("\n  \n\t\n") == []


def test_three_lines_near_the_budget_stay_within_it():
    """Carrying whole lines as overlap once doubled the size of chunks (memory 3.4, pitfall 43)."""
    text = "\n".join(letter * 1500 for letter in "abc")
    chunks = chunk_markdown(text)
    assert [weighted_length(chunk.text) for chunk in chunks] == [1500, 1599, 1599]
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [(1, 1), (1, 2), (2, 3)]


def test_the_overlap_repeats_whole_lines_where_they_fit():
    text = "\n".join(f"line {number:02d} " + "x" * 91 for number in range(40))
    first, second, *_ = chunk_markdown(text)
    repeated = [line for line in second.text.split("\n") if line in first.text.split("\n")]
    assert repeated == first.text.split("\n")[-3:]
    assert second.start_line == first.end_line - 2


def test_the_overlap_is_a_trailing_slice_where_no_line_fits():
    text = "a" * 700 + "b" * 400 + "\n" + "c" * 1000
    first, second = chunk_markdown(text)
    assert second.text.split("\n")[0] == "b" * 319
    assert second.start_line == first.end_line == 1


def test_no_overlap_is_carried_where_the_next_line_fills_the_budget():
    first, second = chunk_markdown("a" * 900 + "\n" + "b" * 1600)
    assert second.text == "b" * 1600
    assert second.start_line == 2
    assert first.text == "a" * 900


def test_a_long_cjk_line_is_cut_by_weight():
    chunks = chunk_markdown("字" * 1000, overlap=0)
    assert [len(chunk.text) for chunk in chunks] == [400, 400, 200]
    assert {(chunk.start_line, chunk.end_line) for chunk in chunks} == {(1, 1)}


def test_overlap_larger_than_the_chunk_is_limited():
    chunks = chunk_markdown("\n".join("word " * 3 for _ in range(50)), tokens=10, overlap=500)
    assert all(weighted_length(chunk.text) <= 40 for chunk in chunks)
    assert chunks[-1].end_line == 50


@given(TEXTS, st.integers(1, 60), st.integers(0, 60))
def test_no_chunk_exceeds_the_budget(text: str, tokens: int, overlap: int):
    budget = max(32, tokens * 4)
    for chunk in chunk_markdown(text, tokens=tokens, overlap=overlap):
        assert weighted_length(chunk.text) <= budget
        assert chunk.text.strip()


@given(TEXTS, st.integers(1, 60), st.integers(0, 60))
def test_every_visible_character_of_every_line_is_in_a_chunk(text: str, tokens: int, overlap: int):
    chunks = chunk_markdown(text, tokens=tokens, overlap=overlap)
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        having = [chunk for chunk in chunks if chunk.start_line <= number <= chunk.end_line]
        assert having
        pieces = "".join(chunk.text for chunk in having)
        assert all(pieces.count(letter) >= line.count(letter) for letter in set(line) - set(" \t"))


@given(TEXTS)
def test_chunking_is_deterministic_and_hashed_by_text(text: str):
    chunks = chunk_markdown(text)
    assert chunks == chunk_markdown(text)
    for chunk in chunks:
        assert chunk.hash == hashlib.sha256(chunk.text.encode()).hexdigest()
