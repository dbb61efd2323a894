"""Which levels hold in a session, and who said so (sessions 5.2). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from attrs import frozen

from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.levels import THINKING_RANKS, FastMode

#: The session itself, the configuration, or what follows from the model.
LevelSource = Literal["session", "config", "model"]


@frozen
class Level:
    """The name of a level, and who said so."""

    value: str
    source: LevelSource


@frozen(kw_only=True)
class SessionLevels:
    """The levels that hold in a session.

    ``told_thinking`` is what the model is told of ``thinking``: the nearest level that it knows, ``None`` for nothing.
    ``verbose`` is ``None`` where nobody said anything, and those who show a turn decide.
    """

    thinking: Level
    told_thinking: str | None
    fast: Level
    verbose: Level | None
    reasoning: Level

    @property
    def is_fast(self) -> bool:
        """Whether requests ask for fast mode; ``auto`` leaves it to the provider."""
        return self.fast.value == "on"


class LevelSettings(Protocol):
    """What config says for an agent."""

    @property
    def thinking_default(self) -> str | None: ...
    @property
    def fast_mode_default(self) -> bool: ...
    @property
    def verbose_default(self) -> str | None: ...
    @property
    def reasoning_default(self) -> str: ...


def levels_of(
    entry: SessionEntry | None, settings: LevelSettings, known: Sequence[str]
) -> SessionLevels:
    """The levels of a session: its own, else those of config, else what the model is marked with.

    :param known: the thinking levels that the model can be told; none for a model that cannot be told any.
    """
    own = entry.thinking_level if entry else None
    thinking = _level(own, settings.thinking_default) or Level("low" if known else "off", "model")
    fast = fast_word(entry.fast_mode if entry else None)
    verbose = entry.verbose_level if entry else None
    reasoning = entry.reasoning_level if entry else None
    return SessionLevels(
        thinking=thinking,
        told_thinking=nearest_thinking(thinking.value, known),
        fast=_level(fast, None) or Level("on" if settings.fast_mode_default else "off", "config"),
        verbose=_level(verbose, settings.verbose_default),
        reasoning=_level(reasoning, None) or Level(settings.reasoning_default, "config"),
    )


def summary_thinking(
    wanted: str | None, entry: SessionEntry, settings: LevelSettings, known: Sequence[str]
) -> str | None:
    """What a model is told that writes a summary: ``compaction.thinkingLevel``, and by default to think little.

    :param wanted: a level, ``inherit`` for that of the session, or ``None``.
    :param known: the thinking levels that the model can be told.
    """
    if wanted == "inherit":
        wanted = levels_of(entry, settings, known).thinking.value
    return nearest_thinking(wanted or "low", known)


def _level(own: str | None, configured: str | None) -> Level | None:
    if own is not None:
        return Level(own, "session")
    return None if configured is None else Level(configured, "config")


def fast_word(mode: FastMode | None) -> str | None:
    """The word for a fast mode."""
    if mode is None or mode == "auto":
        return mode
    return "on" if mode else "off"


def nearest_thinking(level: str, known: Sequence[str]) -> str | None:
    """What to tell a model that knows these levels; of two that are equally near the one with less thinking.

    ``off`` is told only to a model that knows it, and no other level becomes ``off``.
    """
    if level in known:
        return level
    others = sorted((one for one in known if one != "off"), key=THINKING_RANKS.__getitem__)
    if level == "off" or not others:
        return None
    rank = THINKING_RANKS[level]
    return min(others, key=lambda one: abs(THINKING_RANKS[one] - rank))
