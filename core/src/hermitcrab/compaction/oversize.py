"""Leaving out what is too large where a summary has failed with it (context 4.7). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hermitcrab.compaction.chunks import SAFETY_MARGIN
from hermitcrab.messages.pairing import group_messages
from hermitcrab.messages.types import Message

#: A message is too large from this share of the summariser's window on.
OVERSIZE_SHARE = 0.5
#: Notes on single messages; the rest is counted.
_MOST_NOTES = 8


def is_oversize(tokens: int, window: int) -> bool:
    """Whether a message of this many tokens, by an estimate, may be too large for one request."""
    return tokens * SAFETY_MARGIN > window * OVERSIZE_SHARE


def without_oversize(
    messages: Sequence[Message], window: int, count: Callable[[Message], int]
) -> tuple[list[Message], list[str]]:
    """The messages of which none is too large, and what is to be said of the others.

    Where one of a call and its results is too large, the rest of these goes with it: results without their call would
    be read as the user's words, and a call without its results as one that has failed.
    """
    kept: list[Message] = []
    left_out: list[str] = []
    for group in group_messages(messages):
        members = [messages[index] for index in group]
        large = [one for one in members if is_oversize(count(one), window)]
        if large:
            left_out += [_note(one, count(one)) for one in large]
        else:
            kept += members
    more = len(left_out) - _MOST_NOTES
    if more > 0:
        left_out[_MOST_NOTES:] = [f"[{more} more large messages omitted from summary]"]
    return kept, left_out


def _note(message: Message, tokens: int) -> str:
    return f"[Large {message.get('role')} (~{round(tokens / 1000)}K tokens) omitted from summary]"
