from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.sessions.levels import (
    THINKING_LEVELS,
    fast_mode,
    reasoning_level,
    thinking_level,
    verbose_level,
)

YES = ["on", "true", "yes", "1", "enable", "enabled", " ON "]
NO = ["off", "false", "no", "0", "disable", "disabled"]

#: Sessions 5.2.
THINKING = {
    "off": NO,
    "minimal": ["minimal", "think", "min"],
    "low": ["low", "thinkhard", "think hard", "Think-Hard", "think_hard", *YES],
    "medium": ["medium", "thinkharder", "harder", "mid", "med"],
    "high": ["high", "ultrathink", "ULTRA THINK", "thinkhardest", "highest"],
    "xhigh": ["xhigh", "extrahigh", "extra high", "x-high"],
    "adaptive": ["adaptive", "auto"],
    "max": ["max"],
    "ultra": ["ultra"],
}
VERBOSE = {"off": NO, "on": ["minimal", *YES], "full": ["full", "all", "everything"]}
REASONING = {
    "off": ["hide", "hidden", *NO],
    "on": ["show", "visible", *YES],
    "stream": ["stream", "streaming", "draft", "live"],
}
FAST: dict[Any, list[str]] = {
    True: ["fast", *YES],
    False: ["normal", *NO],
    "auto": ["auto", "automatic"],
}
READERS: list[tuple[Any, dict[Any, list[str]]]] = [
    (thinking_level, THINKING),
    (verbose_level, VERBOSE),
    (reasoning_level, REASONING),
    (fast_mode, FAST),
]


@pytest.mark.parametrize(
    ("read", "word", "level"),
    [
        pytest.param(read, word, level, id=f"{read.__name__}-{word}")
        for read, table in READERS
        for level, words in table.items()
        for word in words
    ],
)
def test_every_word_for_a_level_is_understood(read: Any, word: str, level: Any) -> None:
    assert read(word) == level


@pytest.mark.parametrize("read", [read for read, _ in READERS])
@pytest.mark.parametrize("word", ["", " ", "offf", "2", "none", "höher"])
def test_other_words_name_no_level(read: Any, word: str) -> None:
    assert read(word) is None


def test_the_table_names_every_thinking_level() -> None:
    assert set(THINKING) == set(THINKING_LEVELS)
