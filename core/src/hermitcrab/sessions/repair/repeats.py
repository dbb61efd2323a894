"""Ids that stand on several lines of a transcript, and what becomes of those lines when it is mended. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import field, frozen

from hermitcrab.sessions.format import derived_id
from hermitcrab.sessions.repair.lineage import Lineage, Place
from hermitcrab.sessions.repair.survey import Survey


@frozen(kw_only=True)
class Repeats:
    """What becomes of the lines whose id stands on an earlier line.

    ``dropped`` leads from the place of a line that says the same again to the place that stands for it: that of the
    first, or where both are on one way, that of its parent; ``originals`` leads to the first in both cases. ``renamed``
    holds the new ids of all others.
    """

    dropped: Mapping[int, Place] = field(factory=dict)
    originals: Mapping[int, int] = field(factory=dict)
    renamed: Mapping[int, str] = field(factory=dict)

    def standing(self, place: Place) -> Place:
        """The place that stands for another in the mended file."""
        while place is not None and place in self.dropped:
            place = self.dropped[place]
        return place


def repeats_in(survey: Survey, lineage: Lineage) -> Repeats:
    """Byte-identical repeats that follow the same entry are dropped; whatever else repeats an id gets a new one.

    Where entries name later ones as their parents, nothing is dropped that could close a cycle.
    """
    parents = lineage.as_read()
    looks_ahead = any(parent is not None and parent > place for place, parent in enumerate(parents))
    dropped: dict[int, Place] = {}
    originals: dict[int, int] = {}
    renamed: dict[int, str] = {}
    found = Repeats(dropped=dropped, originals=originals, renamed=renamed)
    compactions = [i for i, entry in enumerate(survey.entries) if entry["type"] == "compaction"]
    last_compaction = compactions[-1] if compactions else -1
    for first, others in _repeated(lineage):
        same = {survey.lines[first].content: first}
        for place in others:
            original = same.setdefault(survey.lines[place].content, place)
            # A leaf entry counts where it stands, so that its repeat says something.
            is_leaf = survey.entries[place]["type"] == "leaf"
            is_broken = lineage.is_broken(place) or lineage.is_broken(original)
            if original == place or is_leaf or (looks_ahead and is_broken):
                renamed[place] = _fresh_id(survey, lineage, place)
            elif found.standing(parents[place]) == found.standing(parents[original]):
                dropped[place] = originals[place] = original
            elif last_compaction < original and _is_above(original, place, parents):
                dropped[place], originals[place] = parents[place], original
            else:
                renamed[place] = _fresh_id(survey, lineage, place)
    return found


def _repeated(lineage: Lineage) -> Iterator[tuple[int, list[int]]]:
    for places in sorted(places for places in lineage.positions.values() if len(places) > 1):
        yield places[0], places[1:]


def _is_above(place: int, below: int, parents: Sequence[Place]) -> bool:
    above = parents[below]
    while above is not None and above != place:
        above = parents[above]
    return above == place


def _fresh_id(survey: Survey, lineage: Lineage, place: int) -> str:
    salt = survey.header["id"]
    while (made := derived_id(salt, survey.lines[place].offset)) in lineage.positions:
        salt += "'"
    return made
