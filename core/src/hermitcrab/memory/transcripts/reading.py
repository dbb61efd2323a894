"""A part of a rendered transcript, by the lines of its file (memory 6.5)."""

from __future__ import annotations

from itertools import groupby

from hermitcrab.memory.contract import ReadResult
from hermitcrab.memory.transcripts.rendering import Rendered

#: The most messages and characters of one answer.
MOST_MESSAGES = 120
MOST_CHARACTERS = 12_000


def lines_from(
    rendered: Rendered, *, path: str, start: int = 1, messages: int | None = None
) -> ReadResult:
    """Whole messages from line ``start`` of the JSONL file on, as many as were asked for and fit.

    A single message that is too long is cut. A transcript has nothing to say of most lines, such as results of tools:
    the first message at or behind ``start`` is the first that is shown.
    """
    start = max(1, start)
    found = _messages(rendered, start)
    wanted = found[: max(1, min(messages or MOST_MESSAGES, MOST_MESSAGES))]
    kept = _within_characters(wanted)
    text = "\n".join(text for _, text in kept)
    is_cut = len(text) > MOST_CHARACTERS
    following = found[len(kept)][0] if len(kept) < len(found) else None
    return ReadResult(
        path=path,
        text=text[:MOST_CHARACTERS],
        start=kept[0][0] if kept else start,
        lines=len(kept),
        truncated=is_cut or following is not None,
        next_start=following,
    )


def _messages(rendered: Rendered, start: int) -> list[tuple[int, str]]:
    """The messages from a line on, each with its line and its whole text."""
    if not rendered.lines:
        return []
    pairs = zip(rendered.lines, rendered.text.split("\n"), strict=True)
    grouped = groupby((pair for pair in pairs if pair[0] >= start), key=lambda pair: pair[0])
    return [(line, "\n".join(text for _, text in group)) for line, group in grouped]


def _within_characters(messages: list[tuple[int, str]]) -> list[tuple[int, str]]:
    used = 0
    for count, (_, text) in enumerate(messages):
        used += len(text) + 1
        if used > MOST_CHARACTERS + 1:
            return messages[: max(1, count)]
    return messages
