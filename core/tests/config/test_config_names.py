"""Names: camelCase in YAML, snake_case in Python, one converter for both."""

from __future__ import annotations

import keyword

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.config.keys import keys_of, shape_of
from hermitcrab.config.names import camel_case, snake_case
from hermitcrab.config.schema import Config

words = st.from_regex(r"[a-z][a-z0-9]*", fullmatch=True)
snake_names = st.builds(
    lambda first, rest: "_".join([first, *rest]),
    words,
    st.lists(st.from_regex(r"[a-z][a-z0-9]*", fullmatch=True), max_size=4),
).filter(lambda name: not keyword.iskeyword(name))  # no field is called so


def sections(cls: type) -> list[type]:
    found = [cls]
    for key in keys_of(cls):
        shape = shape_of(key.type)
        while shape.item is not None and shape.kind != "section":
            shape = shape_of(shape.item)
        if shape.kind == "section":
            found += sections(shape.item)
    return found


@pytest.mark.parametrize(
    ("snake", "camel"),
    [
        ("reserve_tokens_floor", "reserveTokensFloor"),
        ("timeout_ms", "timeoutMs"),
        ("id", "id"),
    ],
)
def test_names_convert(snake: str, camel: str) -> None:
    assert camel_case(snake) == camel
    assert snake_case(camel) == snake


@settings(deadline=None)
@given(snake_names)
def test_converting_there_and_back_changes_nothing(name: str) -> None:
    assert snake_case(camel_case(name)) == name


@settings(deadline=None)
@given(snake_names)
def test_camel_case_leaves_camel_case_alone(name: str) -> None:
    assert camel_case(camel_case(name)) == camel_case(name)


@pytest.mark.parametrize("cls", sections(Config), ids=lambda cls: cls.__name__)
def test_every_key_of_the_schema_converts_both_ways(cls: type) -> None:
    for attribute in attrs.fields(cls):
        assert snake_case(camel_case(attribute.name)) == attribute.name
        assert "_" not in camel_case(attribute.name)
