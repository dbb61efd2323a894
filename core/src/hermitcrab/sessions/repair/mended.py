"""What a transcript says once it is mended (design 5). Pure: bytes come out, no file is touched."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from attrs import frozen

from hermitcrab.sessions.branch import has_parent, leaf_after, parent_of
from hermitcrab.sessions.format import (
    FORMAT_VERSION,
    Entry,
    derived_id,
    encode_line,
    iso,
    reference,
)
from hermitcrab.sessions.keys import is_session_id
from hermitcrab.sessions.repair.lineage import (
    Lineage,
    Place,
    kept_place,
    lineage_of,
    without_breaks,
)
from hermitcrab.sessions.repair.repeats import Repeats, repeats_in
from hermitcrab.sessions.repair.survey import Survey, other_header

#: Which field of an entry names another one without following it.
_MENTIONS = {"label": "targetId", "branch_summary": "fromId"}


def mended_content(survey: Survey, *, session_id: str | None, moment: datetime) -> bytes:
    """The transcript in format 3: a header, whole lines only, every entry with an id of its own and a known parent.

    Lines that need no change are taken over byte by byte. The active branch keeps its messages in their order; where a
    broken line of ancestors is joined, older ones come before them.

    :param session_id: the id that the header must have; ``None`` leaves the one that it has.
    :raises TranscriptError: if an entry that must be changed cannot be written as JSON.
    """
    return b"".join(line + b"\n" for line in _lines(survey, session_id, moment))


def _lines(survey: Survey, session_id: str | None, moment: datetime) -> Iterator[bytes]:
    lineage = lineage_of(survey.entries)
    parents = without_breaks(survey.entries, lineage)
    repeats = repeats_in(survey, lineage)
    standing = [repeats.standing(parent) for parent in parents]
    ties = _Ties(survey, lineage, standing, repeats)
    leaf_id: str | None = None
    yield _header(survey, session_id, moment)
    for place, line in enumerate(survey.lines):
        if place in ties.repeats.dropped:
            continue
        entry = ties.tied(place, leaf_id)
        leaf_id = leaf_after([entry], leaf_id)
        yield line.content if entry == line.value else encode_line(entry).removesuffix(b"\n")
    wanted = ties.leaf_id()
    if wanted != leaf_id:
        yield encode_line(
            {
                "type": "leaf",
                "id": derived_id(f"{survey.header['id']}:leaf", len(survey.lines)),
                "parentId": leaf_id,
                "timestamp": iso(moment),
                "targetId": wanted,
            }
        ).removesuffix(b"\n")


@frozen
class _Ties:
    """How the entries of the mended file name each other; ``parents`` are places that stand in it."""

    survey: Survey
    lineage: Lineage
    parents: list[Place]
    repeats: Repeats

    def leaf_id(self) -> str | None:
        """The end of the active branch."""
        entries = self.survey.entries
        last = len(entries) - 1
        if last < 0:
            return None
        is_leaf = entries[last]["type"] == "leaf"
        return self._id_at(self.parents[last] if is_leaf else self.repeats.standing(last))

    def tied(self, place: int, leaf_id: str | None) -> Entry:
        """An entry as it is to stand behind ``leaf_id``."""
        entry = self.survey.unlinked[place]
        changes: dict[str, Any] = {"id": self._id(place)}
        parent_id = self._id_at(self.parents[place])
        if entry["type"] == "leaf":
            if parent_of(entry) != parent_id:
                changes["targetId"] = parent_id
        elif (parent_of(entry) if has_parent(entry) else leaf_id) != parent_id:
            changes["parentId"] = parent_id
        changes |= self._mentions(place, entry)
        tied: Any = {**entry, **changes}
        result: Entry = tied
        return result

    def _mentions(self, place: int, entry: Entry) -> dict[str, Any]:
        if entry["type"] == "compaction":
            on_way, kept = kept_place(place, self.survey.entries, self.parents)
            # One that names itself keeps nothing before it, which is how an unknown id is read (context 9.3).
            return {"firstKeptEntryId": self._id(kept if on_way and kept is not None else place)}
        name = _MENTIONS.get(entry["type"])
        fields: Any = entry
        mentioned = self.lineage.place_of(reference(fields.get(name)), place) if name else None
        return {} if name is None or mentioned is None else {name: self._id(mentioned)}

    def _id(self, place: int) -> str:
        original = self.repeats.originals.get(place, place)
        return self.repeats.renamed.get(original) or self.survey.entries[original]["id"]

    def _id_at(self, place: Place) -> str | None:
        return None if place is None else self._id(place)


def _header(survey: Survey, session_id: str | None, moment: datetime) -> bytes:
    wanted = survey.header["id"]
    if session_id is not None and is_session_id(session_id) and not survey.is_named_after_header:
        wanted = session_id
    is_current = survey.version == FORMAT_VERSION and not survey.has_unreadable_version
    is_right = is_current and not survey.header_rebuilt and survey.header["id"] == wanted
    first = survey.header_line
    if first is not None and is_right:
        return first.content
    fields: dict[str, Any] = {**((first.value if first else None) or {})}
    if survey.header_rebuilt:
        fields = {**(other_header(survey) or fields), **survey.header}
    if not isinstance(fields.get("timestamp"), str):
        fields["timestamp"] = iso(moment)
    known = {"type": "session", "version": FORMAT_VERSION, "id": wanted}
    return encode_line({**known, **fields, **known}).removesuffix(b"\n")
