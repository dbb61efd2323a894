"""The pure parts: decay, coverage, plans, snippets, expressions."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.memory.files import Discovery, Keywords, MemoryFile
from hermitcrab_memory_core.index import StoredFile, StoredPassage
from hermitcrab_memory_core.plan import plan_sync
from hermitcrab_memory_core.ranking import Score, Terms, combine, decay, finish
from hermitcrab_memory_core.snippets import snippet
from hermitcrab_memory_core.terms import chunk_query, passage_query

TODAY = date(2026, 3, 31)


PORT = Keywords(words=("port",))


def scored(number: int, score: float, path: str = "MEMORY.md") -> Score:
    return Score(number, path, number, number, score)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("memory/2026-03-31.md", 1.0),
        ("memory/2026-03-01.md", 0.95),
        ("memory/2026-03-01-standup.md", 0.95),
        ("memory/2027-01-01.md", 1.0),
        ("memory/1990-01-01.md", 0.9),
        ("memory/2026-02-31.md", 1.0),
        ("MEMORY.md", 1.0),
        ("memory/topics/2026-03-01.md", 1.0),
    ],
)
def test_decay_only_takes_a_tenth_and_only_from_dated_files(path: str, expected: float):
    assert decay(path, today=TODAY) == pytest.approx(expected, abs=0.001)


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=20))
def test_scores_lie_between_zero_and_one_and_keep_their_order(scores: list[float]):
    finished = finish(
        [scored(number, score) for number, score in enumerate(scores)], {}, PORT, today=TODAY
    )
    assert all(0 <= item.score <= 1 for item in finished)
    assert [scores[item.id] for item in finished] == pytest.approx(sorted(scores, reverse=True))


def test_a_passage_gains_by_its_neighbours_in_the_same_file():
    combined = combine([scored(1, 3.0, "a.md"), scored(5, 3.0), scored(6, 2.0), scored(2, 2.0)], [])
    assert {item.id: item.score for item in combined} == {5: 4.0, 6: 3.5, 1: 3.0, 2: 2.0}
    assert [item.id for item in combined] == [5, 6, 1, 2]


def test_a_passage_gains_by_the_best_chunk_that_it_begins_in():
    chunks = [
        Score(1, "MEMORY.md", 8, 10, 1.0),
        Score(2, "MEMORY.md", 9, 12, 5.0),
        Score(3, "USER.md", 1, 3, 9.0),
    ]
    combined = combine([scored(1, 2.0), scored(9, 2.0)], chunks)
    assert [(item.id, item.score) for item in combined] == [(9, 5.0), (1, 2.0)]


def test_where_bm25_says_nothing_the_share_of_found_words_decides():
    finished = finish(
        [scored(1, 1e-6), scored(2, 1e-6), scored(3, 1e-6)],
        {1: Terms(" ports", " "), 2: Terms(" the ports staging", " ")},
        Keywords(words=("port", "staging")),
        today=TODAY,
    )
    assert [item.id for item in finished] == [2, 1, 3]
    assert finished[0].score == pytest.approx(0.5, abs=0.01)


def test_decay_reorders_near_ties_only():
    today, old = "memory/2026-03-31.md", "memory/2020-01-01.md"
    close = finish([scored(1, 10.0, old), scored(2, 9.9, today)], {}, PORT, today=TODAY)
    assert [item.id for item in close] == [2, 1]
    clear = finish([scored(1, 12.0, old), scored(2, 9.9, today)], {}, PORT, today=TODAY)
    assert [item.id for item in clear] == [1, 2]


def test_expressions_hold_quoted_terms_only():
    terms = Keywords(("port", "and"), ("端口",), ("端", "口"))
    assert passage_query(terms) == (
        '{words headings path} : ("port" OR "and") OR '
        '{pairs headings path} : ("端口") OR {characters} : ("端" OR "口")'
    )
    assert chunk_query(Keywords(characters=("端",))) == ""


def file(path: str, mtime_ns: int = 5, size: int = 3) -> MemoryFile:
    return MemoryFile(path, Path("/w") / path, mtime_ns, size)


def test_a_plan_reads_what_may_have_changed_and_forgets_what_is_gone():
    later = 10**9
    stored = {
        "same.md": StoredFile("h", 5, 3, later),
        "touched.md": StoredFile("h", 4, 3, later),
        "grown.md": StoredFile("h", 5, 2, later),
        "fresh.md": StoredFile("h", 5, 3, 6),
        "gone.md": StoredFile("h", 5, 3, later),
    }
    names = ("same.md", "touched.md", "grown.md", "fresh.md", "new.md")
    plan = plan_sync(stored, Discovery(tuple(map(file, names))))
    assert [suspect.path for suspect in plan.suspects] == list(names[1:])
    assert plan.vanished == ("gone.md",)
    assert plan.unchanged == 1
    assert len(plan_sync(stored, Discovery(tuple(map(file, names))), force=True).suspects) == 5


def passage(number: int, text: str, line: int | None = None) -> StoredPassage:
    return StoredPassage(number, "a.md", line or number, line or number, text)


def test_a_snippet_takes_neighbours_as_far_as_they_fit():
    around = [passage(1, "a" * 400), passage(2, "b" * 200), passage(3, "c" * 300)]
    part = snippet(2, around)
    assert part.text == "b" * 200 + "\n" + "c" * 300
    assert (part.start_line, part.end_line, part.ids) == (2, 3, {2, 3})


def test_a_snippet_leaves_out_what_was_shown_before():
    around = [passage(1, "a"), passage(2, "b"), passage(3, "c")]
    assert snippet(2, around, frozenset({3})).text == "a\nb"


def test_pieces_of_one_line_are_joined_without_a_newline():
    around = [passage(1, "one ", line=1), passage(2, "two", line=1), passage(3, "three", line=4)]
    assert snippet(2, around).text == "one two\n\nthree"
