"""The session entry: what is known of a session key besides its transcript (sessions 2.2), and how it changes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from attrs import asdict, evolve, field, fields, frozen

from hermitcrab.config.names import camel_case
from hermitcrab.sessions.levels import FastMode

#: ``touch``: what is done counts as activity. ``preserve-activity``: it is bookkeeping (sessions 2.3).
MergePolicy = Literal["touch", "preserve-activity"]


@frozen(kw_only=True)
class SessionEntry:
    """What is known of a session key besides its transcript. Times are milliseconds since the epoch.

    ``updated_at`` is the last activity, ``session_started_at`` when this session id began, ``last_interaction_at`` the
    last turn of a user. ``compaction_count`` counts compactions and so names the current cycle; ``flushed_cycle`` is
    the last cycle whose flush ran, ``None`` for never, and ``flushed_entry_id`` the last entry that it saw.
    ``rejected_summaries`` counts summaries that failed within the current cycle, ``byte_latch`` is what keeps the byte
    trigger from firing again (context 6.2). ``spawn_depth`` is 0 for a session
    that a user talks to. ``model_override_source`` is ``user`` or ``auto``; without one, the user chose. The names of
    levels are those of :mod:`hermitcrab.sessions.levels`.
    """

    key: str
    session_id: str
    updated_at: int
    session_started_at: int
    last_interaction_at: int | None = None
    label: str | None = None
    display_name: str | None = None
    chat_type: str | None = None
    channel: str | None = None
    origin: Mapping[str, Any] | None = None
    provider_override: str | None = None
    model_override: str | None = None
    model_override_source: str | None = None
    thinking_level: str | None = None
    fast_mode: FastMode | None = None
    verbose_level: str | None = None
    reasoning_level: str | None = None
    send_policy: str | None = None
    group_activation: str | None = None
    spawned_by: str | None = None
    spawn_depth: int | None = None
    archived_at: int | None = None
    pinned_at: int | None = None
    status: str | None = None
    aborted_last_run: bool | None = None
    compaction_count: int = 0
    flushed_cycle: int | None = None
    flushed_at: int | None = None
    flushed_entry_id: str | None = None
    flush_failures: int = 0
    flush_error: str | None = None
    rejected_summaries: int = 0
    last_compaction: Mapping[str, Any] | None = None
    byte_latch: Mapping[str, Any] | None = None
    context_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    message_count: int = 0
    previous_session_ids: tuple[str, ...] = ()
    unknown: Mapping[str, Any] = field(factory=dict)

    @property
    def flushed(self) -> bool:
        """Whether the flush of the current cycle has run."""
        return self.flushed_cycle == self.compaction_count


_NAMES = {attribute.name for attribute in fields(SessionEntry)} - {"key", "unknown"}
#: The fields of an entry by their names in JSON.
FIELD_NAMES: Mapping[str, str] = {camel_case(name): name for name in sorted(_NAMES)}

#: What belongs to the conversation rather than to one session id, and so survives a reset (sessions 2.10).
_CARRIED_OVER = (
    "label",
    "display_name",
    "chat_type",
    "channel",
    "origin",
    "thinking_level",
    "fast_mode",
    "verbose_level",
    "reasoning_level",
    "send_policy",
    "group_activation",
    "spawned_by",
    "spawn_depth",
    "pinned_at",
)
_MODEL_CHOICE = ("provider_override", "model_override", "model_override_source")
#: What a transcript tells by itself, or what only describes the running process.
_NOT_RECORDED = frozenset(
    {
        "updated_at",
        "message_count",
        "rejected_summaries",
        "last_compaction",
        "byte_latch",
        "context_tokens",
        "total_tokens",
    }
)


def to_json(entry: SessionEntry) -> dict[str, Any]:
    """The row as JSON data with camelCase names; fields that are unset are left out."""
    values = asdict(entry, filter=lambda attribute, value: attribute.name in _NAMES)
    known = {
        camel_case(name): value
        for name, value in values.items()
        if value is not None and value != ()
    }
    return {**entry.unknown, **known}


def from_json(key: str, data: Mapping[str, Any]) -> SessionEntry:
    """The entry of a row; fields of a newer version are kept in ``unknown``."""
    known: dict[str, Any] = {
        FIELD_NAMES[name]: value for name, value in data.items() if name in FIELD_NAMES
    }
    known["previous_session_ids"] = tuple(known.get("previous_session_ids") or ())
    unknown = {name: value for name, value in data.items() if name not in FIELD_NAMES}
    known.setdefault("updated_at", 0)
    known.setdefault("session_started_at", 0)
    return SessionEntry(key=key, unknown=unknown, **known)


def record_of(entry: SessionEntry) -> dict[str, Any]:
    """The data of the ``hermitcrab.entry`` with which a transcript begins, or takes over, a key (design 5).

    With the transcript itself it says all that is needed to make the entry again.
    """
    left_out = {camel_case(name) for name in _NOT_RECORDED}
    stated = {name: value for name, value in to_json(entry).items() if name not in left_out}
    counters = {
        name: value
        for name, value in stated.items()
        if value or name not in {"compactionCount", "flushFailures"}
    }
    return {"key": entry.key, **counters}


def successor(old: SessionEntry, session_id: str, started_at: int) -> SessionEntry:
    """The entry of the session id that replaces another one under its key; what the user set is carried over.

    A model that the program chose is not: what made it do so belongs to the old session (sessions 2.10).
    """
    chosen = () if old.model_override_source == "auto" else _MODEL_CHOICE
    return SessionEntry(
        key=old.key,
        session_id=session_id,
        updated_at=started_at,
        session_started_at=started_at,
        previous_session_ids=(*old.previous_session_ids, old.session_id),
        **{name: getattr(old, name) for name in (*_CARRIED_OVER, *chosen)},
    )


def merge(
    entry: SessionEntry,
    changes: Mapping[str, Any],
    *,
    policy: MergePolicy = "touch",
    now: int | None = None,
) -> SessionEntry:
    """An entry with some fields changed (sessions 2.3).

    ``touch`` moves ``updated_at`` to the latest of the entry's, the changes' and ``now``, but never behind ``now``;
    ``preserve-activity`` leaves ``updated_at`` and ``last_interaction_at`` alone where they are known. Another model
    without a provider drops the old one's provider.
    """
    changes = dict(changes)
    stamp = changes.pop("updated_at", None)
    if policy == "touch":
        latest = max(entry.updated_at, stamp or 0, now or 0)
        changes["updated_at"] = latest if now is None else min(latest, now)
    else:
        changes["updated_at"] = entry.updated_at or stamp or now or 0
        if entry.last_interaction_at is not None:
            changes.pop("last_interaction_at", None)
    model = changes.get("model_override", entry.model_override)
    if model != entry.model_override:
        changes.setdefault("provider_override", None)
    return evolve(entry, **changes)


def milliseconds(moment: datetime) -> int:
    """A moment in milliseconds since the epoch, to the digit that an ISO text of it has."""
    return int(moment.replace(microsecond=0).timestamp()) * 1000 + moment.microsecond // 1000
