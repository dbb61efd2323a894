"""The part of a long reply that answers a question."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")
_BULLET = re.compile(r"^\s*[-*]\s+")
_CITATION = re.compile(r"\s+\([^()\s]+#L\d+(?:-L\d+)?\)$")


def answer_in(reply: str, expect: Sequence[str]) -> str:
    """The fewest sentences in a row of one line of ``reply`` that hold most of the expected words.

    An ellipsis stands where something of the line is left out, other than its citation.
    """
    lines = [_bare(line) for line in reply.splitlines() if line.strip()]
    if not lines:
        return ""
    line = max(lines, key=lambda text: _count(text, expect))
    sentences = _SENTENCE_END.split(line)
    wanted = _count(line, expect)
    first, last = min(
        (
            (first, last)
            for first in range(len(sentences))
            for last in range(first, len(sentences))
            if _count(" ".join(sentences[first : last + 1]), expect) == wanted
        ),
        key=lambda span: span[1] - span[0],
        default=(0, len(sentences) - 1),
    )
    text = " ".join(sentences[first : last + 1])
    return f"{'… ' if first else ''}{text}{' …' if last + 1 < len(sentences) else ''}"


def _bare(line: str) -> str:
    return _CITATION.sub("", _BULLET.sub("", line.rstrip()))


def _count(text: str, words: Sequence[str]) -> int:
    return sum(word in text for word in words)
