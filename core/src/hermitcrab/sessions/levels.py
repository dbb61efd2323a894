"""Levels that a user can set on a session, and the words that people write for them (sessions 5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from hermitcrab.sessions.keys import fold

#: Values in rising order; a session stores one of these.
THINKING_LEVELS = (
    "off",
    "minimal",
    "low",
    "medium",
    "high",
    "xhigh",
    "adaptive",
    "max",
    "ultra",
)
#: How much thinking a level stands for, to find the nearest one that a model knows.
THINKING_RANKS = {
    "off": 0,
    "minimal": 10,
    "low": 20,
    "medium": 30,
    "adaptive": 30,
    "high": 40,
    "xhigh": 60,
    "max": 70,
    "ultra": 80,
}
VERBOSE_LEVELS = ("off", "on", "full")
REASONING_LEVELS = ("off", "on", "stream")

#: Whether a session answers in the provider's fast mode; ``auto`` leaves it to the model's default.
FastMode = bool | Literal["auto"]

#: Words that take an override away, so that the configured value applies again.
REMOVING_WORDS = frozenset({"default", "inherit", "clear", "reset", "unpin"})

_YES = ("on", "true", "yes", "1", "enable", "enabled")
_NO = ("off", "false", "no", "0", "disable", "disabled")
_SEPARATORS = str.maketrans("", "", " _-")


def _words(levels: tuple[str, ...], aliases: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    table = {level: level for level in levels}
    for level, words in aliases.items():
        table.update(dict.fromkeys(words, level))
    return table


_THINKING_WORDS = _words(
    THINKING_LEVELS,
    {
        "off": _NO,
        "minimal": ("think", "min"),
        "low": (*_YES, "thinkhard"),
        "medium": ("thinkharder", "harder", "mid", "med"),
        "high": ("ultrathink", "thinkhardest", "highest"),
        "xhigh": ("extrahigh",),
        "adaptive": ("auto",),
    },
)
_VERBOSE_WORDS = _words(
    VERBOSE_LEVELS, {"off": _NO, "on": (*_YES, "minimal"), "full": ("all", "everything")}
)
_REASONING_WORDS = _words(
    REASONING_LEVELS,
    {
        "off": (*_NO, "hide", "hidden"),
        "on": (*_YES, "show", "visible"),
        "stream": ("streaming", "draft", "live"),
    },
)
_FAST_WORDS: dict[str, FastMode] = {
    **dict.fromkeys((*_YES, "fast"), True),
    **dict.fromkeys((*_NO, "normal"), False),
    **dict.fromkeys(("auto", "automatic"), "auto"),
}


def thinking_level(text: str) -> str | None:
    """The thinking level that a text names, or ``None``; spaces, ``_`` and ``-`` do not matter."""
    return _THINKING_WORDS.get(fold(text).translate(_SEPARATORS))


def verbose_level(text: str) -> str | None:
    """The verbose level that a text names, or ``None``."""
    return _VERBOSE_WORDS.get(fold(text))


def reasoning_level(text: str) -> str | None:
    """The reasoning level that a text names, or ``None``."""
    return _REASONING_WORDS.get(fold(text))


def fast_mode(text: str) -> FastMode | None:
    """The fast mode that a text names, or ``None``."""
    return _FAST_WORDS.get(fold(text))
