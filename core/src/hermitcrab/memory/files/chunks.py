"""Cutting Markdown into chunks of a fixed weighted size that overlap (memory 3.4, chunker version 6)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from attrs import frozen

#: Stored with an index; another number means that the index must be rebuilt.
CHUNKER_VERSION = 6

_CHARACTERS_PER_TOKEN = 4
_SMALLEST_BUDGET = 32
_WIDE_EXTRA = 3
_WIDE = re.compile(
    "[\u2e80-\u9fff\ua000-\ua4ff\uac00-\ud7af\uf900-\ufaff\uff01-\uff60\uffe0-\uffe6"
    "\U00020000-\U0002fa1f]"
)


@frozen
class Chunk:
    """A piece of a file: lines counted from 1, both ends included; ``hash`` is the SHA-256 of ``text``."""

    start_line: int
    end_line: int
    text: str
    hash: str


@frozen
class _Segment:
    """A line, or a piece of a line that was too long for one chunk."""

    line: int
    text: str

    @property
    def cost(self) -> int:
        """Weighted characters, plus one for the newline that joins segments."""
        return weighted_length(self.text) + 1


def weighted_length(text: str) -> int:
    """Characters of ``text``, a wide (CJK) character counting as four, that is as one token."""
    return len(text) + _WIDE_EXTRA * len(_WIDE.findall(text))


def chunk_markdown(text: str, *, tokens: int = 400, overlap: int = 80) -> list[Chunk]:
    """Cut ``text`` into chunks of at most ``tokens`` tokens that repeat up to ``overlap`` tokens (memory 3.4).

    A chunk never exceeds the budget of ``max(32, tokens * 4)`` weighted characters, and every line that is not blank
    is in at least one chunk.
    """
    tokens = max(1, tokens)
    budget = max(_SMALLEST_BUDGET, tokens * _CHARACTERS_PER_TOKEN)
    overlap_budget = min(max(0, overlap), tokens - 1) * _CHARACTERS_PER_TOKEN
    groups = _pack(_segments(text, budget), budget, overlap_budget)
    return [chunk for group in groups if (chunk := _chunk_of(group)).text.strip()]


def _segments(text: str, budget: int) -> Iterator[_Segment]:
    for number, line in enumerate(text.split("\n"), start=1):
        for piece in _pieces(line, budget):
            yield _Segment(number, piece)


def _pieces(line: str, budget: int) -> Iterator[str]:
    """``line`` whole if it fits, else cut at ``budget`` characters, and by accumulated weight where it is wide."""
    if not line:
        yield line
    for start in range(0, len(line), budget):
        piece = line[start : start + budget]
        while piece:
            head = _prefix_within(piece, budget)
            yield head
            piece = piece[len(head) :]


def _prefix_within(text: str, budget: int) -> str:
    """The longest prefix whose weighted length is at most ``budget``."""
    if weighted_length(text) <= budget:
        return text
    used = 0
    for position, character in enumerate(text):
        used += weighted_length(character)
        if used > budget:
            return text[:position]
    return text


def _pack(segments: Iterator[_Segment], budget: int, overlap: int) -> Iterator[list[_Segment]]:
    group: list[_Segment] = []
    cost = 0
    for segment in segments:
        if group and cost + segment.cost > budget:
            yield group
            group = _carried(group, max(0, min(overlap, budget - segment.cost)))
            cost = sum(carried.cost for carried in group)
        group.append(segment)
        cost += segment.cost
    if group:
        yield group


def _carried(group: list[_Segment], window: int) -> list[_Segment]:
    """The last whole segments that fit ``window``; if not even one does, the end of the last one."""
    carried: list[_Segment] = []
    room = window
    for segment in reversed(group):
        if segment.cost > room:
            break
        carried.insert(0, segment)
        room -= segment.cost
    if carried:
        return carried
    tail = _prefix_within(group[-1].text[::-1], window - 1)[::-1] if window > 1 else ""
    return [_Segment(group[-1].line, tail)] if tail else []


def _chunk_of(group: list[_Segment]) -> Chunk:
    text = "\n".join(segment.text for segment in group)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Chunk(group[0].line, group[-1].line, text, digest)
