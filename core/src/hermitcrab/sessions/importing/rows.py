"""From a row of a foreign ``sessions.json`` to a session entry (sessions 2.2). Pure.

Flushes are not taken over: what they saved lies in another workspace, so that the next flush here sees everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import evolve

from hermitcrab.errors import SessionError
from hermitcrab.messages.text import scrub
from hermitcrab.sessions.entry import FIELD_NAMES, SessionEntry, merge
from hermitcrab.sessions.patching import parse_patch

#: Fields by their older names (sessions 2.2, end).
_RENAMED = {"provider": "channel", "lastProvider": "lastChannel", "room": "groupChannel"}
#: What is read in another way than as a patch, or only tells of the machine that the row comes from.
_NOT_PATCHED = frozenset(
    {"sessionId", "sessionFile", "updatedAt", "sessionStartedAt", "lastInteractionAt"}
)
#: Large texts that are made anew for every turn.
_SNAPSHOTS = frozenset({"skillsSnapshot", "systemPromptReport"})
#: Fields whose names stand for something else here: the model's window, and the tokens of the last run.
_OTHER_MEANING = frozenset({"contextTokens", "totalTokens"})
#: The model and its provider say little without each other.
_MODEL = ("providerOverride", "modelOverride", "modelOverrideSource")
_PATCHED = frozenset(
    {
        "label",
        "displayName",
        "chatType",
        "channel",
        "origin",
        "thinkingLevel",
        "fastMode",
        "verboseLevel",
        "reasoningLevel",
        "sendPolicy",
        "groupActivation",
        "spawnedBy",
        "spawnDepth",
        "archivedAt",
        "pinnedAt",
        "status",
        "abortedLastRun",
        "inputTokens",
        "outputTokens",
    }
)


def entry_of_row(
    row: Mapping[str, Any],
    known: SessionEntry,
    *,
    now: int,
    stored_key: Callable[[str], str],
) -> tuple[SessionEntry, list[str]]:
    """The entry that a row and its transcript tell together, and what of the row could not be taken over.

    :param known: what the transcript tells, under the key that the entry is to have.
    :param now: milliseconds; no time of activity lies behind it (sessions 2.3).
    :param stored_key: the key here for a key there; raises ``SessionError`` for what is none.
    """
    row = scrub(_with_current_names(row))
    changes: dict[str, Any] = {}
    notes: list[str] = []
    for patch in _patches(row):
        try:
            if isinstance(patch.get("spawnedBy"), str):
                patch = {"spawnedBy": stored_key(patch["spawnedBy"])}
            changes |= parse_patch(evolve(known, **changes), patch)
        except SessionError as error:
            notes.append(f"{known.key}: {error.message}; it was left out")
    entry = merge(known, changes, policy="preserve-activity")
    return evolve(
        entry,
        updated_at=min(_moment(row, "updatedAt") or entry.updated_at, now),
        session_started_at=_moment(row, "sessionStartedAt") or entry.session_started_at,
        last_interaction_at=_moment(row, "lastInteractionAt") or entry.last_interaction_at,
        compaction_count=max(_whole(row.get("compactionCount")) or 0, entry.compaction_count),
        unknown={name: value for name, value in row.items() if _is_unknown(name)},
    ), notes


def session_ids_before(row: Mapping[str, Any]) -> list[str]:
    """The session ids that a key had before its present one, as far as its row tells."""
    ids = row.get("usageFamilySessionIds")
    texts = [each for each in ids if isinstance(each, str)] if isinstance(ids, list) else []
    return [each for each in dict.fromkeys(texts) if each != row.get("sessionId")]


def updated_at(row: Mapping[str, Any]) -> int:
    """When a row was last changed, in milliseconds; 0 if it does not say."""
    return _moment(row, "updatedAt") or 0


def _with_current_names(row: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {new: row[old] for old, new in _RENAMED.items() if old in row and new not in row}
    return {**{name: value for name, value in row.items() if name not in _RENAMED}, **renamed}


def _patches(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What of a row is set as by a patch, each by itself, so that one bad value does not keep the others out."""
    model = {name: row[name] for name in _MODEL if row.get(name) is not None}
    if model:
        yield model
    for name in sorted(_PATCHED & row.keys()):
        # Nothing runs here that ran there.
        if row[name] is not None and (name, row[name]) != ("status", "running"):
            yield {name: row[name]}


def _is_unknown(name: str) -> bool:
    return not (
        name in FIELD_NAMES
        or name in _NOT_PATCHED
        or name in _SNAPSHOTS
        or name in _OTHER_MEANING
        or name == "key"
    )


def _moment(row: Mapping[str, Any], name: str) -> int | None:
    return _whole(row.get(name)) or None


def _whole(value: Any) -> int | None:
    """A whole number of 0 or more, below what a database holds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return None
    return int(value)
