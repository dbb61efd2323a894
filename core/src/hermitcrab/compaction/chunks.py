"""Splitting messages for the summariser, never between a call and its results (context 4.3-4.5, version B)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hermitcrab.messages.pairing import group_messages
from hermitcrab.messages.types import Message

BASE_CHUNK_RATIO = 0.4
MINIMUM_CHUNK_RATIO = 0.15
#: Estimates may be this much too low.
SAFETY_MARGIN = 1.2
#: What the instructions around a chunk take, in tokens; in small windows at most an eighth of the window.
OVERHEAD_TOKENS = 4_096
DEFAULT_PARTS = 2
MINIMUM_MESSAGES_TO_SPLIT = 4

Count = Callable[[Message], int]
Chunk = list[Message]


def _groups(messages: Sequence[Message]) -> list[Chunk]:
    return [[messages[index] for index in group] for group in group_messages(messages)]


def _tokens(messages: Sequence[Message], count: Count) -> int:
    return sum(map(count, messages))


def normal_parts(parts: float, messages: int) -> int:
    """A usable number of parts: at least 1, at most one a message."""
    if not parts > 1 or parts == float("inf"):
        return 1
    return min(int(parts), max(1, messages))


def split_by_share(messages: Sequence[Message], parts: float, count: Count) -> list[Chunk]:
    """Split into ``parts`` chunks of about equal tokens, of whole groups."""
    wanted = normal_parts(parts, len(messages))
    target = _tokens(messages, count) / wanted
    return _pack(_groups(messages), count, target, wanted)


def split_by_size(messages: Sequence[Message], limit: int, count: Count) -> list[Chunk]:
    """Split into chunks of at most ``limit`` tokens, safety margin included; an oversize group stays whole."""
    return _pack(_groups(messages), count, max(1, int(limit / SAFETY_MARGIN)), None)


def _pack(groups: Sequence[Chunk], count: Count, target: float, most: int | None) -> list[Chunk]:
    chunks: list[Chunk] = []
    current: Chunk = []
    size = 0
    for group in groups:
        tokens = _tokens(group, count)
        if current and size + tokens > target and (most is None or len(chunks) < most - 1):
            chunks.append(current)
            current, size = [], 0
        current.extend(group)
        size += tokens
    if current:
        chunks.append(current)
    return chunks


def chunk_ratio(messages: Sequence[Message], window: int, count: Count) -> float:
    """The share of the window that a chunk may take: smaller where messages are large (context 4.5)."""
    if not messages:
        return BASE_CHUNK_RATIO
    average = _tokens(messages, count) / len(messages) * SAFETY_MARGIN / window
    if average <= 0.1:
        return BASE_CHUNK_RATIO
    return max(MINIMUM_CHUNK_RATIO, BASE_CHUNK_RATIO - min(2 * average, 0.25))


def chunk_limit(messages: Sequence[Message], window: int, count: Count) -> int:
    """The most tokens of conversation that one request to a summariser with this window carries."""
    overhead = min(OVERHEAD_TOKENS, window // 8)
    return max(1, int(window * chunk_ratio(messages, window, count)) - overhead)


def prune_for_share(
    messages: Sequence[Message], budget: int, count: Count
) -> tuple[list[Message], list[Message]]:
    """Give up the oldest messages until the others take at most ``budget`` tokens: those given up, and those kept.

    Each step gives up about half of what is left, in whole groups; the last group always stays (context 4.9).
    """
    given_up: list[Message] = []
    kept = list(messages)
    while _tokens(kept, count) > budget:
        first, *rest = split_by_share(kept, DEFAULT_PARTS, count) or [[]]
        if not rest:
            break
        given_up += first
        kept = [message for chunk in rest for message in chunk]
    return given_up, kept
