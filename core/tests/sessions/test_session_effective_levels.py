"""Which levels hold in a session, and what the model is told of the thinking level (sessions 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.sessions.effective_levels import (
    Level,
    levels_of,
    nearest_thinking,
    summary_thinking,
)
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.levels import THINKING_LEVELS, THINKING_RANKS

ENTRY = SessionEntry(key="agent:main:main", session_id="s", updated_at=1, session_started_at=1)
USUAL = ("low", "medium", "high")


@frozen(kw_only=True)
class Settings:
    thinking_default: str | None = None
    fast_mode_default: bool = False
    verbose_default: str | None = None
    reasoning_default: str = "off"


def levels(settings: Settings | None = None, known: Sequence[str] = (), **own: Any) -> Any:
    return levels_of(evolve(ENTRY, **own), settings or Settings(), known)


def test_a_model_that_thinks_thinks_a_little_and_others_not_at_all() -> None:
    assert levels(known=USUAL).thinking == Level("low", "model")
    assert levels(known=USUAL).told_thinking == "low"
    assert levels(known=()).thinking == Level("off", "model")
    assert levels(known=()).told_thinking is None


def test_a_session_wins_over_config_and_config_over_the_model() -> None:
    config = Settings(thinking_default="high", verbose_default="on", reasoning_default="stream")
    assert levels(config, USUAL).thinking == Level("high", "config")
    assert levels(config, USUAL, thinking_level="off").thinking == Level("off", "session")
    assert levels(config).verbose == Level("on", "config")
    assert levels(config, verbose_level="full").verbose == Level("full", "session")
    assert levels(config, reasoning_level="off").reasoning == Level("off", "session")
    assert levels().verbose is None


@pytest.mark.parametrize(
    ("mode", "default", "word", "is_fast"),
    [
        (None, False, "off", False),
        (None, True, "on", True),
        (True, False, "on", True),
        (False, True, "off", False),
        ("auto", True, "auto", False),
    ],
)
def test_fast_mode(mode: Any, default: bool, word: str, is_fast: bool) -> None:
    found = levels(Settings(fast_mode_default=default), fast_mode=mode)
    assert (found.fast.value, found.is_fast) == (word, is_fast)


@pytest.mark.parametrize(
    ("level", "known", "told"),
    [
        ("high", USUAL, "high"),
        ("minimal", USUAL, "low"),
        ("adaptive", USUAL, "medium"),
        ("xhigh", USUAL, "high"),
        ("ultra", (*USUAL, "xhigh"), "xhigh"),
        ("medium", ("low", "high"), "low"),
        ("minimal", ("off", "low"), "low"),
        ("off", USUAL, None),
        ("off", ("off", *USUAL), "off"),
        ("high", ("off",), None),
        ("high", (), None),
    ],
)
def test_a_level_that_the_model_does_not_know_becomes_the_nearest(
    level: str, known: Sequence[str], told: str | None
) -> None:
    assert nearest_thinking(level, known) == told


@given(st.sampled_from(THINKING_LEVELS), st.lists(st.sampled_from(THINKING_LEVELS), unique=True))
def test_a_model_is_only_told_what_it_knows_and_never_not_to_think_unasked(
    level: str, known: list[str]
) -> None:
    told = nearest_thinking(level, known)
    assert told is None or told in known
    assert (told == "off") <= (level == "off")


def test_every_level_has_a_rank() -> None:
    assert set(THINKING_RANKS) == set(THINKING_LEVELS)


@pytest.mark.parametrize(
    ("wanted", "own", "known", "told"),
    [
        (None, "high", USUAL, "low"),
        (None, None, (), None),
        ("high", None, USUAL, "high"),
        ("max", None, USUAL, "high"),
        ("high", None, (), None),
        ("off", "high", USUAL, None),
        ("off", "high", ("off", *USUAL), "off"),
        ("inherit", "high", USUAL, "high"),
        ("inherit", None, USUAL, "low"),
        ("inherit", "off", USUAL, None),
    ],
)
def test_a_summary_takes_little_thinking_unless_config_says_otherwise(
    wanted: str | None, own: str | None, known: Sequence[str], told: str | None
) -> None:
    """Context 8, ``compaction.thinkingLevel``."""
    entry = evolve(ENTRY, thinking_level=own)
    assert summary_thinking(wanted, entry, Settings(), known) == told
