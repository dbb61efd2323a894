"""Cutting Markdown into passages: the small units that keyword search ranks and returns.

A passage is a list item, a table row, a heading or a few lines of prose. Ranking small units together with what
stands beside them finds more within the same amount of returned text than ranking whole chunks does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import evolve, frozen

#: Stored with an index; another number means that the index must be rebuilt.
PASSAGE_VERSION = 1

_LIMIT = 400
_HEADING = re.compile(r"#{1,6}\s+(?=\S)")
_ITEM = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s|\s*\|")
_SENTENCE_END = re.compile(r"[.!?;][\"')\]]?\s+|[。！？；]")


@frozen
class Passage:
    """A unit of a file: lines counted from 1, both ends included.

    ``headings`` are the headings that it stands under, the outermost first.
    """

    start_line: int
    end_line: int
    text: str
    headings: tuple[str, ...] = ()


def passages_of(text: str) -> list[Passage]:
    """The passages of a Markdown text in order; every line that is not blank is in one."""
    return list(_with_headings(_units(text.split("\n"))))


def _units(lines: list[str]) -> Iterator[Passage]:
    start = 0
    collected: list[str] = []
    for number, line in enumerate([*lines, ""], start=1):
        if collected and _ends_before(line, collected):
            yield Passage(start, number - 1, "\n".join(collected))
            collected = []
        if len(line) > _LIMIT:
            yield from (Passage(number, number, piece) for piece in _pieces(line))
        elif line.strip():
            start = start if collected else number
            collected.append(line)


def _ends_before(line: str, collected: list[str]) -> bool:
    """Whether the unit so far ends before ``line``."""
    return (
        not line.strip()
        or _HEADING.match(line) is not None
        or _HEADING.match(collected[-1]) is not None
        or _ITEM.match(line) is not None
        or sum(map(len, collected)) + len(line) > _LIMIT
    )


def _pieces(line: str) -> Iterator[str]:
    """A long line cut after sentences, else at spaces, else anywhere."""
    while len(line) > _LIMIT:
        head = line[:_LIMIT]
        ends = [match.end() for match in _SENTENCE_END.finditer(head)]
        cut = ends[-1] if ends and ends[-1] > _LIMIT // 4 else head.rfind(" ") + 1
        cut = cut if cut > _LIMIT // 4 else _LIMIT
        if line[:cut].strip():
            yield line[:cut]
        line = line[cut:]
    if line.strip():
        yield line


def _with_headings(units: Iterator[Passage]) -> Iterator[Passage]:
    open_headings: list[tuple[int, str]] = []
    for unit in units:
        match = _HEADING.match(unit.text)
        if match is None:
            yield evolve(unit, headings=tuple(title for _, title in open_headings))
            continue
        level = match.end() - len(match[0].lstrip("#"))
        open_headings = [heading for heading in open_headings if heading[0] < level]
        yield evolve(unit, headings=tuple(title for _, title in open_headings))
        open_headings.append((level, unit.text[match.end() :].strip()))
