"""The levels and policies of a session in words, for ``/status`` and the commands that set them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hermitcrab.sessions.effective_levels import Level, SessionLevels

_SOURCES = {
    "session": "set for this session",
    "config": "as configured",
    "model": "what the model is marked with",
}


def level_text(level: Level) -> str:
    """A level and who said so."""
    return f"{level.value} ({_SOURCES[level.source]})"


def thinking_text(levels: SessionLevels, model: str, known: Sequence[str]) -> str:
    """The thinking level, and what the model is told where that differs."""
    text = f"Thinking: {level_text(levels.thinking)}"
    wanted, told = levels.thinking.value, levels.told_thinking
    if told == wanted or (told is None and wanted == "off"):
        return text
    if told is None:
        return (
            f"{text}. The model {model} is told nothing of it: it is not marked `reasoning: true`."
        )
    return f"{text}. The model {model} knows {', '.join(known)} and is told {told}."


def fast_text(levels: SessionLevels, model: str, *, has_fast_mode: bool) -> str:
    """The fast mode, and whether the model has one."""
    text = f"Fast mode: {level_text(levels.fast)}"
    if not levels.is_fast or has_fast_mode:
        return text
    return f"{text}. The model {model} has none: no `fastBody` is configured for it."


def verbose_text(levels: SessionLevels) -> str:
    """Whether tool calls are told."""
    if levels.verbose is None:
        return "Verbose: not set; tool calls are shown on a terminal only"
    return f"Verbose: {level_text(levels.verbose)}"


def reasoning_text(levels: SessionLevels) -> str:
    """Whether thinking is shown."""
    return f"Reasoning: {level_text(levels.reasoning)}"


def levels_line(levels: SessionLevels) -> str:
    """All levels on one line."""
    verbose = levels.verbose.value if levels.verbose else "not set"
    return (
        f"thinking {levels.thinking.value}, fast {levels.fast.value}, verbose {verbose},"
        f" reasoning {levels.reasoning.value}"
    )


def sending_text(own: str | None, *, is_sent: bool) -> str:
    """Whether replies go out."""
    source = _SOURCES["config" if own is None else "session"]
    return f"{'on' if is_sent else 'off'} ({source})"


def activation_text(own: str | None, configured: str) -> str:
    """What is answered in a group."""
    return f"{own or configured} ({_SOURCES['config' if own is None else 'session']})"
