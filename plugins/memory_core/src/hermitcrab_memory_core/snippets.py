"""From ranked passages to hits: each shows its passage and as much of the neighbours as fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from itertools import pairwise

from attrs import frozen

from hermitcrab.memory import Hit
from hermitcrab_memory_core.index import SOURCE, StoredPassage
from hermitcrab_memory_core.ranking import Ranked

MAX_CHARACTERS = 700


@frozen
class Snippet:
    """Text of a file with its lines, and the ids of the passages in it."""

    text: str
    start_line: int
    end_line: int
    ids: frozenset[int]


def choose(
    ranked: Iterable[Ranked], around: Callable[[int], list[StoredPassage]], limit: int
) -> list[Hit]:
    """The first ``limit`` hits; a passage that an earlier hit has shown already is no hit of its own."""
    hits: list[Hit] = []
    shown: set[int] = set()
    for item in ranked:
        if len(hits) == limit:
            break
        if item.place.id in shown:
            continue
        part = snippet(item.place.id, around(item.place.id), shown)
        shown |= part.ids
        hits.append(
            Hit(
                path=item.place.path,
                start_line=part.start_line,
                end_line=part.end_line,
                score=item.score,
                snippet=part.text,
                source=SOURCE,
            )
        )
    return hits


def snippet(
    passage_id: int, around: Iterable[StoredPassage], shown: Set[int] = frozenset()
) -> Snippet:
    """The passage with its neighbours, the following one first, unless they have been ``shown``."""
    by_id = {passage.id: passage for passage in around}
    chosen = [by_id[passage_id]]
    for neighbour_id in (passage_id + 1, passage_id - 1):
        neighbour = by_id.get(neighbour_id)
        if neighbour is None or neighbour_id in shown:
            continue
        extended = sorted([*chosen, neighbour], key=lambda passage: passage.id)
        if len(_joined(extended)) <= MAX_CHARACTERS:
            chosen = extended
    return Snippet(
        _joined(chosen)[:MAX_CHARACTERS],
        chosen[0].start_line,
        chosen[-1].end_line,
        frozenset(passage.id for passage in chosen),
    )


def _joined(passages: Sequence[StoredPassage]) -> str:
    text = passages[0].text
    for previous, passage in pairwise(passages):
        # Pieces of one long line have no newline between them; blank lines become one.
        newlines = min(2, max(0, passage.start_line - previous.end_line))
        text += "\n" * newlines + passage.text
    return text
