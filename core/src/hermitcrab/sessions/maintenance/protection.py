"""Which sessions maintenance leaves alone, and why (sessions 2.8, versions B to D)."""

from __future__ import annotations

from collections.abc import Collection

from attrs import frozen

from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.keys import (
    DEFAULT_MAIN_KEY,
    chat_type,
    fold,
    is_ambiguous,
    is_cron,
    is_subagent,
    parse_agent_key,
)

#: A session that says it is running and was not used for so long does not run any more (#7331), in milliseconds.
RUNNING_MS = 86_400_000

_SYNTHETIC = ("acp:", "cron:", "hook:", "node:", "subagent:", "heartbeat")
_GROUP_TYPES = frozenset({"group", "channel", "thread"})


@frozen(kw_only=True)
class Protection:
    """What is left alone.

    :param main_key: the last part of the key of an agent's main conversation.
    :param preserve: the keys that the caller uses at the moment.
    """

    main_key: str = DEFAULT_MAIN_KEY
    preserve: Collection[str] = ()

    def reason(self, entry: SessionEntry, *, last_used: int, now: int) -> str | None:
        """Why a session stays whatever its age; ``None`` if it does not. Times are milliseconds."""
        if entry.key in self.preserve:
            return "it is in use"
        if entry.pinned_at is not None:
            return "it is pinned"
        if entry.status == "running" and now - last_used < RUNNING_MS:
            return "it is running"
        if is_synthetic(entry.key):
            return None
        if entry.archived_at is not None:
            return "it was put away to be kept"
        if self._is_main(entry.key):
            return "it is the main conversation"
        return "it is a conversation of people" if _is_group(entry) else None

    def _is_main(self, key: str) -> bool:
        rest = _rest(key)
        return rest in {DEFAULT_MAIN_KEY, fold(self.main_key), "global"}


def is_synthetic(key: str) -> bool:
    """Whether a session was begun by a program: a job, a hook, a heartbeat, another session (never protected)."""
    rest = _rest(key)
    return is_subagent(key) or is_cron(key) or rest.startswith(_SYNTHETIC) or ":heartbeat" in rest


def _is_group(entry: SessionEntry) -> bool:
    parts = _rest(entry.key).split(":")
    return (
        entry.chat_type in _GROUP_TYPES
        or chat_type(entry.key) in _GROUP_TYPES
        or is_ambiguous(entry.key)
        or not {"thread", "topic"}.isdisjoint(parts)
    )


def _rest(key: str) -> str:
    parsed = parse_agent_key(key)
    return fold(key if parsed is None else parsed.rest)
