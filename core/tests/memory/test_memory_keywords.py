"""Search terms: what a query looks for and what a document offers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.memory.files import index_terms, keywords


def test_words_are_lower_case_and_normalised():
    assert keywords("Ｐｏｒｔ PORT Café").words == ("port", "café")


def test_a_question_keeps_what_it_asks_about():
    question = "Which port did we choose for the staging database?"
    assert keywords(question).words == ("port", "choose", "staging", "database")


def test_a_query_of_stop_words_keeps_them():
    assert keywords("who is it").words == ("who", "is", "it")


def test_a_document_keeps_repeats_and_stop_words():
    assert index_terms("the port, the Port").words == ("the", "port", "the", "port")


def test_a_camel_case_name_is_found_by_its_parts():
    assert index_terms("themeSelector").words == ("themeselector", "theme", "selector")
    assert keywords("theme_selector").words == ("theme", "selector")


@pytest.mark.parametrize(
    ("run", "pairs"),
    [
        ("成语接龙", ("成语", "语接", "接龙")),
        ("しりとり", ("しり", "りと", "とり")),
        ("끝말잇기", ("끝말", "말잇", "잇기")),
        ("ｶﾀｶﾅ", ("カタ", "タカ", "カナ")),
    ],
)
def test_cjk_runs_become_overlapping_pairs_and_single_characters(run, pairs):
    """C59: such runs hold no spaces, so whole runs would be the only words."""
    terms = index_terms(f"note {run}!")
    assert terms.pairs == pairs
    assert terms.characters == tuple("カタカナ" if run == "ｶﾀｶﾅ" else run)
    assert terms.words == ("note",)


def test_a_single_cjk_character_is_a_query():
    terms = keywords("猫")
    assert (terms.words, terms.pairs, terms.characters) == ((), (), ("猫",))


def test_pairs_that_only_ask_are_dropped_from_a_query():
    assert "端口" in keywords("什么端口").pairs
    assert "什么" not in keywords("什么端口").pairs
    assert keywords("什么").pairs == ("什么",)


@pytest.mark.parametrize("text", ["", "  ", "\n", "?!", '"', "*", "____", "\ud83d"])
def test_text_without_terms_is_falsy(text):
    assert not keywords(text)


@given(st.text())
def test_terms_are_deterministic_and_free_of_syntax(text: str):
    terms = index_terms(text)
    assert terms == index_terms(text)
    for term in (*terms.words, *terms.pairs, *terms.characters):
        assert term
        assert not set(term) & set(' "*:()^-+\x00\n')


@given(st.text())
def test_a_document_has_every_term_of_a_query_made_of_its_text(text: str):
    offered, wanted = index_terms(text), keywords(text)
    assert set(wanted.words) <= set(offered.words)
    assert set(wanted.pairs) <= set(offered.pairs)
    assert set(wanted.characters) <= set(offered.characters)
