"""The pure parts: decay, coverage, plans, snippets, expressions."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.memory.files import Discovery, Keywords, MemoryFile, keywords
from hermitcrab.memory.ranking.fusion import Fused, FusionSettings, Unit, age_factor, fuse
from hermitcrab.memory.ranking.places import Place, StoredPassage, note_day
from hermitcrab.memory.ranking.snippets import snippet
from hermitcrab_memory_core.index import Index, StoredFile
from hermitcrab_memory_core.plan import plan_sync
from hermitcrab_memory_core.ranking import (
    Matches,
    keyword_scores,
    weights,
)
from hermitcrab_memory_core.terms import chunk_expressions, passage_expressions

TODAY = date(2026, 3, 31)


def place(number: int, path: str = "MEMORY.md") -> Place:
    return Place(number, path, number, number)


def rank(
    passages: dict[int, Place],
    passage_matches: list[Matches],
    chunks: dict[int, Place],
    chunk_matches: list[Matches],
) -> list[Fused]:
    """Keywords alone, as a search without an embedding provider has it."""
    scores = keyword_scores(passages, passage_matches, chunks, chunk_matches)
    units = (
        Unit(place=passages[each], keyword=score, day=note_day(passages[each].path))
        for each, score in scores.items()
    )
    return fuse(units, FusionSettings(), today=TODAY)


def ranked(places: list[Place], *terms: dict[int, float], rows: int = 1000) -> list[Fused]:
    """Rank by terms that are equally rare; the scores are those of FTS5."""
    matches = [Matches(rows, 10, term) for term in terms]
    return rank({item.id: item for item in places}, matches, {}, [])


def order(result: list[Fused]) -> list[int]:
    return [item.place.id for item in result]


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
    assert age_factor(note_day(path), today=TODAY) == pytest.approx(expected, abs=0.001)


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=20))
def test_scores_lie_between_zero_and_one_and_keep_their_order(scores: list[float]):
    places = [place(9 * number) for number in range(len(scores))]
    result = ranked(places, {9 * number: score for number, score in enumerate(scores)})
    assert all(0 <= item.score <= 1 for item in result)
    assert [scores[number // 9] for number in order(result)] == pytest.approx(
        sorted(scores, reverse=True)
    )


def test_a_neighbour_in_the_same_file_lends_its_terms():
    places = [place(1), place(2), place(8), place(11, "a.md"), place(12, "b.md")]
    port, staging = {1: 3.0, 8: 3.0, 11: 3.0, 12: 1.0}, {2: 3.0, 12: 1.0}
    assert order(ranked(places, port, staging))[:2] == [1, 2]
    alone = {item.place.id: item.score for item in ranked(places, port, staging)}
    assert alone[8] == alone[11]


def test_neighbours_that_repeat_a_word_do_not_outweigh_a_second_word():
    places = [place(number) for number in (1, 2, 3, 9)]
    port, staging = {1: 3.0, 2: 3.0, 3: 3.0, 9: 3.0}, {9: 1.5}
    assert order(ranked(places, port, staging))[0] == 9


def test_a_passage_gains_by_the_best_chunk_that_it_begins_in():
    chunks = {1: Place(1, "MEMORY.md", 8, 10), 2: Place(2, "USER.md", 1, 3)}
    matches = [Matches(100, 2, {1: 1.0, 2: 9.0})]
    passages = {1: place(1), 9: place(9)}
    result = rank(passages, [Matches(100, 2, {1: 2.0, 9: 2.0})], chunks, matches)
    assert order(result) == [9, 1]


def test_a_common_word_still_counts():
    """FTS5 weighs a word that half of the rows have with a millionth (memory 4.2)."""
    common = weights(Matches(rows=10, matching=8, scores={1: 1.5e-6}))
    rare = weights(Matches(rows=10, matching=1, scores={1: 1.5 * math.log(9.5 / 1.5)}))
    assert 1.5 < common[1] < 2.5 < rare[1]


def test_the_words_of_fts5_have_their_rarity_taken_out_again(tmp_path):
    """The factor must be the one that SQLite used: what is left lies between 0 and 2.2."""
    index = Index(tmp_path / "memory.sqlite", chunk_tokens=400, chunk_overlap=80)
    for number in range(30):
        text = "- port\n" if number < 20 else "- staging port\n" if number < 24 else "- beta\n"
        index.replace(file(f"memory/{number}.md"), text, "hash", 0)
    matches = index.passage_matches(keywords("port staging beta missing"))
    index.close()
    assert [match.matching for match in matches] == [24, 4, 6, 0]
    for match in matches:
        rarity = 1 + math.log1p((match.rows - match.matching + 0.5) / (match.matching + 0.5))
        assert all(0 < weight / rarity < 2.2 for weight in weights(match).values())
        assert all(weight / rarity > 0.5 for weight in weights(match).values())


def test_a_word_of_very_many_passages_still_counts_beside_a_rarer_one(tmp_path, monkeypatch):
    monkeypatch.setattr("hermitcrab_memory_core.index._MOST_ROWS_PER_TERM", 5)
    index = Index(tmp_path / "memory.sqlite", chunk_tokens=400, chunk_overlap=80)
    index.replace(file("memory/a.md"), "- one theme\n" * 50, "hash", 0)
    index.replace(file("memory/b.md"), "- the theme chosen by the selector of this page", "hash", 0)
    theme, selector = index.passage_matches(keywords("theme selector"))
    index.close()
    [both] = selector.scores
    assert theme.matching == 51
    assert both in theme.scores
    assert len(theme.scores) == 6


def test_decay_reorders_near_ties_only():
    today, old = place(1, "memory/2026-03-31.md"), place(5, "memory/2020-01-01.md")
    assert order(ranked([today, old], {1: 9.9, 5: 10.0})) == [1, 5]
    assert order(ranked([today, old], {1: 9.9, 5: 12.0})) == [5, 1]


def test_expressions_hold_one_quoted_term_each():
    terms = Keywords(("port", "and"), ("端口",), ("端",))
    assert passage_expressions(terms) == [
        '{words headings path} : "port"',
        '{words headings path} : "and"',
        '{pairs headings path} : "端口"',
        '{characters} : "端"',
    ]
    assert chunk_expressions(Keywords(characters=("端",))) == []


def file(path: str, mtime_ns: int = 5, size: int = 3) -> MemoryFile:
    return MemoryFile(path, Path("/w") / path, mtime_ns, size)


def test_a_plan_reads_what_may_have_changed_and_forgets_what_is_gone():
    later = 10**9
    stored = {
        "same.md": StoredFile("h", 5, 3, later, "c"),
        "touched.md": StoredFile("h", 4, 3, later, "c"),
        "grown.md": StoredFile("h", 5, 2, later, "c"),
        "fresh.md": StoredFile("h", 5, 3, 6, "c"),
        "gone.md": StoredFile("h", 5, 3, later, "c"),
    }
    names = ("same.md", "touched.md", "grown.md", "fresh.md", "new.md")
    plan = plan_sync(stored, Discovery(tuple(map(file, names))), chunking="c")
    assert [suspect.path for suspect in plan.suspects] == list(names[1:])
    assert plan.vanished == ("gone.md",)
    assert plan.unchanged == 1
    assert (
        len(
            plan_sync(stored, Discovery(tuple(map(file, names))), chunking="c", force=True).suspects
        )
        == 5
    )


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
