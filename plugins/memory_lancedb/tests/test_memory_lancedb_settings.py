"""The settings of memory-lancedb, and what it decides without touching a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab_memory_lancedb.config import LanceDbConfig, Location, locations
from hermitcrab_memory_lancedb.sql import among, equals, every, quoted
from hermitcrab_memory_lancedb.terms import asked_terms, is_only_stop_words, stored_terms

_HOME = Path("/home/crab")


def test_tables_stand_below_the_home_by_default() -> None:
    memories, files = locations(LanceDbConfig(), _HOME)
    assert memories == files == Location("/home/crab/memory/lancedb")


@pytest.mark.parametrize(
    ("path", "expected"), [("store", "/home/crab/store"), ("/srv/store", "/srv/store")]
)
def test_a_folder_is_relative_to_the_home(path: str, expected: str) -> None:
    memories, files = locations(LanceDbConfig(db_path=path), _HOME)
    assert memories == files
    assert memories.folder == Path(expected)


@pytest.mark.parametrize("address", ["s3://bucket/crab", "gs://bucket/crab", "az://box/crab"])
def test_an_address_is_passed_on_and_the_index_of_files_stays_here(address: str) -> None:
    config = LanceDbConfig(db_path=address, storage_options={"region": "eu"})
    memories, files = locations(config, _HOME)
    assert (memories.uri, memories.folder, memories.options) == (address, None, {"region": "eu"})
    assert files.folder == Path("/home/crab/memory/lancedb")
    assert not files.options


def test_nothing_shows_credentials() -> None:
    config = LanceDbConfig(
        db_path="s3://id:hush@bucket/crab?token=hush", storage_options={"key": "hush"}
    )
    memories, _ = locations(config, _HOME)
    assert "hush" not in f"{config!r}".replace(str(config.db_path), "")
    assert "hush" not in str(memories)


def test_the_keys_of_embeddings_are_refused_with_those_that_take_their_place() -> None:
    with pytest.raises(ValueError, match=r"agents\.defaults\.memorySearch\.provider"):
        LanceDbConfig(embedding={"provider": "openai"})


@given(st.text())
def test_a_literal_ends_where_its_text_ends(text: str) -> None:
    literal = quoted(text)
    assert literal[0] == literal[-1] == "'"
    assert "'" not in literal[1:-1].replace("''", "")


def test_predicates_are_one_text() -> None:
    both = every(equals("agentId", "it's"), "", among("number", [1, 2]))
    assert both == "(agentId = 'it''s') AND (number IN (1, 2))"
    assert among("id", []) == "false"


@given(st.text())
def test_what_is_asked_for_is_among_what_is_stored(text: str) -> None:
    assert set(asked_terms(text)) <= set(stored_terms(text).split())


@pytest.mark.parametrize(
    ("question", "expected"),
    [("what is it?", True), ("what is the port?", False), ("猫", False), ("", True)],
)
def test_a_question_of_stop_words_says_nothing(question: str, expected: bool) -> None:
    assert is_only_stop_words(question) is expected
