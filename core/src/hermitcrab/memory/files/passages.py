"""Cutting Markdown into passages: the small units that keyword search ranks and returns.

A passage is a list item, a table row, a heading or a few lines of prose. Ranking small units together with what
stands beside them finds more within the same amount of returned text than ranking whole chunks does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import evolve, frozen

#: Stored with an index; another number means that the index must be rebuilt.
PASSAGE_VERSION = 2

_LIMIT = 400
_HEADING = re.compile(r"#{1,6}\s+(?=\S)")
_ITEM = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s|\s*\|")
# A line that someone says: a name in front of it, a time or a mark around the name.
_SPEECH = re.compile(
    r"\s*(?:\[[^\]\n]{1,40}\]\s*|\([^)\n]{1,40}\)\s*|[0-9:.]{4,8}\s+)?"
    r"(?:\*\*|__)?[^\W_][^\s:：*_.!?。！？]{0,29}(?: [^\s:：*_.!?。！？]{1,30}){0,2}\s?"
    r"(?:\*\*|__)?[:：](?:\*\*|__)?\s*\S"
)
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
    for block in _blocks(lines):
        if sum(len(line) + 1 for _, line in block) - 1 <= _LIMIT:
            yield _joined(block)
        else:
            yield from _cut(block)


def _blocks(lines: list[str]) -> Iterator[list[tuple[int, str]]]:
    """Lines with their numbers: a heading, a list item with what belongs to it, or a paragraph."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, ""], start=1):
        if block and _ends_before(line, block[-1][1]):
            yield block
            block = []
        if line.strip():
            block.append((number, line))


def _ends_before(line: str, last: str) -> bool:
    """Whether the block that ends with ``last`` so far ends before ``line``."""
    return (
        not line.strip()
        or _HEADING.match(line) is not None
        or _HEADING.match(last) is not None
        or _ITEM.match(line) is not None
    )


def _cut(block: list[tuple[int, str]]) -> Iterator[Passage]:
    """A block that is too long: what each one says, where it is speech, else as many lines as fit."""
    is_speech = sum(_SPEECH.match(line) is not None for _, line in block) * 2 > len(block)
    group: list[tuple[int, str]] = []
    for number, line in block:
        if group and (
            (is_speech and _SPEECH.match(line) is not None)
            or sum(len(each) for _, each in group) + len(line) > _LIMIT
        ):
            yield _joined(group)
            group = []
        if len(line) > _LIMIT:
            yield from (Passage(number, number, piece) for piece in _pieces(line))
        else:
            group.append((number, line))
    if group:
        yield _joined(group)


def _joined(group: list[tuple[int, str]]) -> Passage:
    return Passage(group[0][0], group[-1][0], "\n".join(line for _, line in group))


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
