"""Whether a session may be imported into what is there already: nothing that stands is ever written over. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import define, evolve, field, frozen

from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.importing.values import WantedSession

#: ``contained``: the file here begins with all that is to be imported, whatever was added since.
Relation = Literal["absent", "contained", "differs"]
Action = Literal["imported", "unchanged", "conflict", "failed"]

_WAY_OUT = "--key imports it under another key"


@frozen(kw_only=True)
class Decision:
    """What is done with a session, and which of its entries are added."""

    action: Action
    wanted: WantedSession
    entries: tuple[SessionEntry, ...] = ()
    reason: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def task(self) -> WantedSession:
        """The session with the entries that are added, and no others."""
        is_recorded = self.wanted.is_recorded and self.entries == self.wanted.entries
        return evolve(self.wanted, entries=self.entries, is_recorded=is_recorded)


@define
class Standing:
    """The entries of one agent: those that are there, and those that were decided on since."""

    by_key: dict[str, SessionEntry] = field(factory=dict)
    owners: dict[str, str] = field(factory=dict)
    labels: dict[str, str] = field(factory=dict)

    @classmethod
    def of(cls, entries: Iterable[SessionEntry]) -> Standing:
        """What entries amount to."""
        standing = cls()
        for entry in entries:
            standing.take(entry)
        return standing

    def take(self, entry: SessionEntry) -> None:
        """Count an entry as there."""
        self.by_key[entry.key] = entry
        for session_id in entry.previous_session_ids:
            self.owners.setdefault(session_id, entry.key)
        self.owners[entry.session_id] = entry.key
        if entry.label is not None:
            self.labels[entry.label] = entry.key


def decide(wanted: WantedSession, standing: Standing, relation: Relation) -> Decision:
    """What to do with a session that keys name; what is added counts as ``standing`` afterwards."""
    owner = standing.owners.get(wanted.session_id)
    if relation == "differs":
        return _conflict(
            wanted,
            f"session {wanted.session_id} is here with other content"
            f"{f' as {owner}' if owner else ''}; {_WAY_OUT}",
        )
    new = [entry for entry in wanted.entries if entry.key not in standing.by_key]
    is_ours = owner in wanted.keys
    if owner is not None and (not is_ours or not new):
        if relation == "absent":
            reason = f"its transcript was missing here; {owner} has it again"
            return Decision(action="imported", wanted=wanted, reason=reason)
        elsewhere = None if is_ours else f"it is here already, as {owner}"
        return Decision(action="unchanged", wanted=wanted, reason=elsewhere)
    if not new:
        key = wanted.keys[0]
        standing_id = standing.by_key[key].session_id
        return _conflict(wanted, f"{key} is here with another session, {standing_id}; {_WAY_OUT}")
    return _imported(wanted, new, standing)


def _imported(wanted: WantedSession, new: Iterable[SessionEntry], standing: Standing) -> Decision:
    notes: list[str] = []
    entries: list[SessionEntry] = []
    for entry in new:
        holder = None if entry.label is None else standing.labels.get(entry.label)
        if holder is not None:
            notes.append(f"{entry.key} lost its label {entry.label!r}, which {holder} has")
            entry = evolve(entry, label=None)
        standing.take(entry)
        entries.append(entry)
    added = {entry.key for entry in entries}
    notes += [f"{key} is here with another session" for key in wanted.keys if key not in added]
    return Decision(action="imported", wanted=wanted, entries=tuple(entries), notes=tuple(notes))


def decide_earlier(
    wanted: WantedSession, owner: Decision | None, standing: Standing, relation: Relation
) -> Decision:
    """What to do with an earlier session of a key, given what is done with the key."""
    if owner is None or owner.action not in {"imported", "unchanged"}:
        return _conflict(wanted, f"its key {wanted.owner} is not imported")
    if standing.owners.get(wanted.session_id) != wanted.owner:
        return _conflict(wanted, f"{wanted.owner} is here without it; {_WAY_OUT}")
    if relation == "differs":
        reason = f"session {wanted.session_id} is here with other content; {_WAY_OUT}"
        return _conflict(wanted, reason)
    return Decision(action="unchanged" if relation == "contained" else "imported", wanted=wanted)


def _conflict(wanted: WantedSession, reason: str) -> Decision:
    return Decision(action="conflict", wanted=wanted, reason=reason)
