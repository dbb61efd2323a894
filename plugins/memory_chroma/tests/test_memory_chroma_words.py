"""Searching by words where the store only says which documents contain a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab_memory_chroma.names import digest
from hermitcrab_memory_chroma.words import (
    MOST_CANDIDATES,
    MOST_TERMS,
    Document,
    candidates,
    document_terms,
    folded,
    query_terms,
    scores,
    stem,
)


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_a_document_counts_as_a_term_is_contained_in_what_is_searched(
    text: str, heading: str
) -> None:
    """Chroma finds candidates by substring: a term that is cut otherwise would never be found."""
    document = folded(text, heading)
    for term in document_terms(document):
        assert term in document


@given(st.text(max_size=200))
def test_terms_of_a_query_can_be_sent(query: str) -> None:
    terms = query_terms(query)
    assert len(terms) <= MOST_TERMS
    assert all(term and term == folded(term) and term.encode() for term in terms)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("decided", "decide"),
        ("running", "runs"),
        ("policies", "policy"),
        ("prefers", "prefer"),
        ("notes", "note"),
    ],
)
def test_forms_of_a_word_meet(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@given(st.from_regex(r"[a-z]{1,20}", fullmatch=True))
def test_a_stem_is_a_beginning_of_the_word(word: str) -> None:
    assert word.startswith(stem(word))
    assert stem(word)


def test_words_that_only_contain_a_term_do_not_match() -> None:
    """``art`` is contained in ``party``."""
    documents = [Document(id="a", text="the party"), Document(id="b", text="modern art")]
    assert set(scores(["art"], documents, {"art": 2}, 10)) == {"b"}


def test_the_rarer_word_counts_more() -> None:
    documents = [Document(id="common", text="tea"), Document(id="rare", text="walnut")]
    found = scores(["tea", "walnut"], documents, {"tea": 900, "walnut": 1}, 1_000)
    assert found["rare"] > found["common"] > 0


def test_neighbours_lend_the_words_that_a_passage_lacks() -> None:
    documents = [
        Document(id="asked", text="where is the port", beside=("answer",)),
        Document(id="alone", text="where is the port"),
        Document(id="answer", text="staging listens there", beside=("asked",)),
    ]
    matching = {"port": 2, "stag": 1}
    found = scores(["port", "stag"], documents, matching, 100)
    assert found["asked"] > found["alone"]


def test_candidates_are_those_with_the_rarest_words() -> None:
    many = [f"common-{number:05d}" for number in range(5 * MOST_CANDIDATES)]
    chosen = candidates({"the": many, "walnut": ["rare"]}, 10_000)
    assert chosen[0] == "rare"
    assert len(chosen) == MOST_CANDIDATES


def test_digests_of_parts_differ_from_those_of_their_concatenation() -> None:
    """C80: one agent and workspace must not have the key of another pair."""
    assert digest("a", "bc") != digest("ab", "c")
    assert digest("a\0", "b") != digest("a", "\0b")
