"""What the tree of a transcript says: its branches, and the labels and settings on a path (context 9.2). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from hermitcrab.sessions.branch import leaf_after, parent_of
from hermitcrab.sessions.context import message_of
from hermitcrab.sessions.format import ENTRY_CHANGE, Entry, reference

#: What ``fromId`` of a branch summary says where the branch begins before the first entry.
ROOT = "root"


@frozen(kw_only=True)
class TranscriptBranch:
    """One branch, named by its tip.

    ``fork_id`` is the entry at which it leaves the branches listed before it, ``None`` if it begins at a root.
    ``length`` counts the entries behind the fork, ``depth`` all entries from the root to the tip. ``last_said`` is the
    last entry behind the fork that the model would see.
    """

    tip: Entry
    last_said: Entry | None
    fork_id: str | None
    length: int
    depth: int
    is_active: bool

    @property
    def tip_id(self) -> str:
        return self.tip["id"]


@frozen(kw_only=True)
class TranscriptTree:
    """The branches of a transcript in the order in which their tips were written.

    ``leaf_id`` is where the next entry goes, ``None`` for before the first; ``depth`` counts the entries up to there.
    """

    leaf_id: str | None
    depth: int
    branches: tuple[TranscriptBranch, ...]


def transcript_tree(entries: Sequence[Entry]) -> TranscriptTree:
    """The tree of all entries of a transcript, which are linked and in file order.

    Every entry that nothing follows is a tip, and so is the leaf. ``leaf`` entries are no part of the tree.
    """
    leaf_id = leaf_after(entries, None)
    parents = _parents(entries)
    leaf = _leaf_position(entries, parents, leaf_id)
    inner = set(parents.values())
    tips = [
        position
        for position, entry in enumerate(entries)
        if entry["type"] != "leaf" and (position not in inner or position == leaf)
    ]
    depths: dict[int, int] = {}
    branches: list[TranscriptBranch] = []
    for tip in tips:
        own, fork = _way_to_fork(tip, parents, depths)
        below = 0 if fork is None else depths[fork]
        depths.update((position, below + len(own) - i) for i, position in enumerate(own))
        branches.append(
            TranscriptBranch(
                tip=entries[tip],
                last_said=next((entries[i] for i in own if message_of(entries[i])), None),
                fork_id=None if fork is None else entries[fork]["id"],
                length=len(own),
                depth=below + len(own),
                is_active=tip == leaf,
            )
        )
    depth = next((branch.depth for branch in branches if branch.is_active), 0)
    return TranscriptTree(leaf_id=leaf_id, depth=depth, branches=tuple(branches))


def _parents(entries: Sequence[Entry]) -> dict[int, int | None]:
    """For each entry that is no ``leaf``, the position of its parent; what ``leaf`` entries stand for is looked up.

    An id means the nearest line before the one that names it, and only where there is none a later one.
    """
    anywhere = {entry["id"]: position for position, entry in enumerate(entries)}
    before: dict[str, int] = {}
    named: list[int | None] = []
    for position, entry in enumerate(entries):
        parent_id = parent_of(entry)
        named.append(None if parent_id is None else before.get(parent_id, anywhere.get(parent_id)))
        before[entry["id"]] = position
    return {
        position: _behind_leaves(named[position], entries, named)
        for position, entry in enumerate(entries)
        if entry["type"] != "leaf"
    }


def _behind_leaves(
    position: int | None, entries: Sequence[Entry], named: Sequence[int | None]
) -> int | None:
    seen: set[int] = set()
    while position is not None and entries[position]["type"] == "leaf" and position not in seen:
        seen.add(position)
        position = named[position]
    return None if position in seen else position


def _leaf_position(
    entries: Sequence[Entry], parents: Mapping[int, int | None], leaf_id: str | None
) -> int | None:
    if leaf_id is None:
        return None
    standing = (
        position
        for position in range(len(entries) - 1, -1, -1)
        if entries[position]["id"] == leaf_id and position in parents
    )
    return next(standing, None)


def _way_to_fork(
    tip: int, parents: Mapping[int, int | None], claimed: Collection[int]
) -> tuple[list[int], int | None]:
    """The positions from a tip down to the first that is claimed, and that one; a cycle ends the way."""
    own: dict[int, None] = {}
    position: int | None = tip
    while position is not None and position not in claimed:
        if position in own:
            return list(own), None
        own[position] = None
        position = parents.get(position)
    return list(own), position


@frozen(kw_only=True)
class Labels:
    """Labels by the id that they are on, and the ids that a label names although no entry has them."""

    by_entry: Mapping[str, str] = field(factory=dict)
    unknown: tuple[str, ...] = ()


def labels_on(path: Iterable[Entry], known: Collection[str] | None = None) -> Labels:
    """The labels on a path: the later one wins, an empty one removes (context 9.2).

    :param known: ids that a label may name; by default those of the path.
    """
    entries = list(path)
    ids = {entry["id"] for entry in entries} if known is None else known
    found: dict[str, str] = {}
    unknown: dict[str, None] = {}
    for entry in entries:
        target = reference(entry.get("targetId")) if entry["type"] == "label" else None
        if target is None:
            continue
        found.pop(target, None)
        label = entry.get("label")
        if target not in ids:
            unknown[target] = None
        elif isinstance(label, str) and label:
            found[target] = label
    return Labels(by_entry=found, unknown=tuple(unknown))


@frozen(kw_only=True)
class PathSettings:
    """The model and the thinking level that hold at the end of a path; ``None`` where nothing was chosen."""

    provider: str | None = None
    model_id: str | None = None
    thinking_level: str | None = None


_ENTRY_FIELDS = {
    "providerOverride": "provider",
    "modelOverride": "model_id",
    "thinkingLevel": "thinking_level",
}


def settings_on(path: Iterable[Entry], before: PathSettings) -> PathSettings:
    """The settings at the end of a path.

    :param before: what holds where the path says nothing: that of the session entry, for what a compaction hides.
    """
    found: dict[str, Any] = {
        "provider": before.provider,
        "model_id": before.model_id,
        "thinking_level": before.thinking_level,
    }
    for entry in path:
        found.update(_settings_of(entry))
    return PathSettings(
        **{name: value if isinstance(value, str) else None for name, value in found.items()}
    )


def _settings_of(entry: Entry) -> dict[str, Any]:
    kind = entry["type"]
    if kind == "model_change":
        return {"provider": entry.get("provider"), "model_id": entry.get("modelId")}
    if kind == "thinking_level_change":
        return {"thinking_level": entry.get("thinkingLevel")}
    data = entry.get("data") if kind == "custom" and entry.get("customType") == ENTRY_CHANGE else ()
    if not isinstance(data, dict):
        return {}
    return {name: data[field] for field, name in _ENTRY_FIELDS.items() if field in data}


def name_on(path: Sequence[Entry]) -> str | None:
    """The last name that a path gives the session; an empty one removes it."""
    for entry in reversed(path):
        if entry["type"] == "session_info":
            return reference(entry.get("name"))
    return None
