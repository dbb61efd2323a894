"""Sizes and durations as text (sessions 2.7)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.config.units import parse_duration_ms, parse_size
from hermitcrab.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (0, 0),
        (1.9, 1),
        ("17", 17),
        ("17b", 17),
        ("2mb", 2 * 1024**2),
        ("2MB", 2 * 1024**2),
        ("2M", 2 * 1024**2),
        (" 1.5 kb ", 1536),
        (".5g", 512 * 1024**2),
        ("1TB", 1024**4),
    ],
)
def test_sizes_are_read_in_units_of_1024(value: object, size: int) -> None:
    assert parse_size(value) == size


@pytest.mark.parametrize(
    "value",
    ["", "mb", "2 xb", "-1", "1,5mb", "2mb3", "٣mb", "1" * 400, -1, True, None, [], float("nan")],
)
def test_what_is_no_size_is_an_error(value: object) -> None:
    with pytest.raises(ConfigError, match="not a size"):
        parse_size(value)


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (250, 250),
        ("250", 250),
        ("250ms", 250),
        ("30s", 30_000),
        ("1.5M", 90_000),
        ("1h30m", 5_400_000),
        ("1d 2h", 93_600_000),
    ],
)
def test_durations_are_read(value: object, milliseconds: int) -> None:
    assert parse_duration_ms(value) == milliseconds


def test_a_bare_number_counts_in_the_default_unit() -> None:
    assert parse_duration_ms(2, default_unit="d") == 172_800_000
    assert parse_duration_ms("2", default_unit="d") == 172_800_000


@pytest.mark.parametrize("value", ["", "1h30", "h", "1h-2m", "soon", -1, False, None])
def test_what_is_no_duration_is_an_error(value: object) -> None:
    with pytest.raises(ConfigError, match="not a duration"):
        parse_duration_ms(value)


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=2**50))
def test_a_number_and_its_text_are_the_same_size(size: int) -> None:
    assert parse_size(size) == parse_size(str(size)) == parse_size(f"{size}b") == size


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_a_size_or_an_error(text: str) -> None:
    for parse in (parse_size, parse_duration_ms):
        with contextlib.suppress(ConfigError):
            assert parse(text) >= 0
