"""From ranked passages to hits: each shows its passage and as much of the neighbours as fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import islice, pairwise

from attrs import frozen

from hermitcrab.memory.contract import Hit
from hermitcrab.memory.ranking.fusion import Fused
from hermitcrab.memory.ranking.places import StoredPassage

MAX_CHARACTERS = 700

# What a snippet takes in, in this order: what follows, what is before, what comes after that.
_STEPS = (1, -1, 2)
# So many hits show what stands beside them. A later one shows its passage alone, and if that asks, what follows: its
# neighbours are seldom what was looked for, and the space is worth more to another hit.
_WITH_CONTEXT = 3
_ASKS = re.compile(r"[?？]\W*$")
# A passage with fewer characters says little by itself.
_SHORT = 40


@frozen
class Snippet:
    """Text of a file with its lines, and the ids of the passages in it."""

    text: str
    start_line: int
    end_line: int
    ids: frozenset[int]


def choose(
    ranked: Iterable[Fused], around: Callable[[int], list[StoredPassage]], limit: int
) -> list[Hit]:
    """The first ``limit`` hits; a passage that an earlier hit has shown already is no hit of its own."""
    return [hit for _, hit in islice(chosen(ranked, around), limit)]


def chosen(
    ranked: Iterable[Fused], around: Callable[[int], list[StoredPassage]]
) -> Iterator[tuple[Fused, Hit]]:
    """Every hit behind what it was made of."""
    shown: set[int] = set()
    number = 0
    for item in ranked:
        if item.place.id in shown:
            continue
        number += 1
        part = snippet(
            item.place.id, around(item.place.id), shown, with_context=number <= _WITH_CONTEXT
        )
        shown |= part.ids
        yield (
            item,
            Hit(
                path=item.place.path,
                start_line=part.start_line,
                end_line=part.end_line,
                score=item.score,
                snippet=part.text,
                source="memory",
            ),
        )


def snippet(
    passage_id: int,
    around: Iterable[StoredPassage],
    shown: Set[int] = frozenset(),
    *,
    with_context: bool = True,
) -> Snippet:
    """The passage with neighbours that have not been ``shown``, as far as they fit and belong to it.

    Without context it is the passage alone, with what follows if it asks something.
    """
    by_id = {passage.id: passage for passage in around}
    chosen = [by_id[passage_id]]
    for step in _STEPS if with_context else _needed(chosen[0]):
        neighbour = by_id.get(passage_id + step)
        if neighbour is None or neighbour.id in shown:
            continue
        extended = sorted([*chosen, neighbour], key=lambda passage: passage.id)
        if _belong(extended) and len(_joined(extended)) <= MAX_CHARACTERS:
            chosen = extended
    return Snippet(
        _joined(chosen)[:MAX_CHARACTERS],
        chosen[0].start_line,
        chosen[-1].end_line,
        frozenset(passage.id for passage in chosen),
    )


def _needed(passage: StoredPassage) -> tuple[int, ...]:
    return _STEPS[:1] if _ASKS.search(passage.text) else ()


def _belong(passages: Sequence[StoredPassage]) -> bool:
    """Whether the passages follow each other, and a blank line parts only short ones, such as headings."""
    return all(
        following.id == passage.id + 1
        and (
            following.start_line - passage.end_line <= 1
            or min(len(passage.text), len(following.text)) < _SHORT
        )
        for passage, following in pairwise(passages)
    )


def _joined(passages: Sequence[StoredPassage]) -> str:
    text = passages[0].text
    for previous, passage in pairwise(passages):
        # Pieces of one long line have no newline between them; blank lines become one.
        newlines = min(2, max(0, passage.start_line - previous.end_line))
        text += "\n" * newlines + passage.text
    return text
