"""When a conversation is over by itself: daily, after a time without the user, or never (sessions 2.9). Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Literal, Protocol

from attrs import frozen

from hermitcrab.sessions.entries import SessionEntry
from hermitcrab.sessions.inbound import InboundMessage
from hermitcrab.sessions.keys import chat_type, fold, thread_parent

ResetMode = Literal["none", "daily", "idle"]
ResetType = Literal["direct", "group", "thread"]
#: Why a session is stale.
StaleReason = Literal["daily", "idle"]

DEFAULT_HOUR = 4


@frozen(kw_only=True)
class ResetPolicy:
    """``at_hour`` is an hour of the user's day; ``idle_minutes`` 0 is never. Daily and idle may hold together."""

    mode: ResetMode = "none"
    at_hour: int = DEFAULT_HOUR
    idle_minutes: int = 0


class ResetWish(Protocol):
    """What config says for some sessions; ``None`` leaves a field to what holds for all."""

    @property
    def mode(self) -> ResetMode | None: ...
    @property
    def at_hour(self) -> int | None: ...
    @property
    def idle_minutes(self) -> int | None: ...


class ResetWishes(Protocol):
    """What config says by kind of conversation."""

    @property
    def direct(self) -> ResetWish: ...
    @property
    def group(self) -> ResetWish: ...
    @property
    def thread(self) -> ResetWish: ...


class ResetSettings(Protocol):
    """The part of ``session`` in config that decides about resets."""

    @property
    def reset(self) -> ResetWish: ...
    @property
    def reset_by_type(self) -> ResetWishes: ...
    @property
    def reset_by_channel(self) -> Mapping[str, ResetWish]: ...


def policy_for(message: InboundMessage, key: str, settings: ResetSettings) -> ResetPolicy:
    """The policy for a message: its channel's alone, else its type's over the general one, field by field."""
    channel = fold(message.channel)
    for name, wish in settings.reset_by_channel.items():
        if fold(name) == channel:
            return _resolved(wish)
    by_type: ResetWish = getattr(settings.reset_by_type, reset_type(message, key))
    return _resolved(by_type, settings.reset)


def _resolved(*wishes: ResetWish) -> ResetPolicy:
    values = {
        name: next((value for wish in wishes if (value := getattr(wish, name)) is not None), None)
        for name in ("mode", "at_hour", "idle_minutes")
    }
    return ResetPolicy(**{name: value for name, value in values.items() if value is not None})


def reset_type(message: InboundMessage, key: str) -> ResetType:
    """What kind of conversation this is, for the policies by type: thread before group before direct."""
    if message.thread or thread_parent(key) is not None:
        return "thread"
    kinds = {fold(message.chat_type), chat_type(key)}
    return "group" if kinds & {"group", "channel"} else "direct"


def stale_reason(
    policy: ResetPolicy, entry: SessionEntry, now: datetime, zone: tzinfo
) -> StaleReason | None:
    """Why the session is over, or ``None`` while it goes on; where both hold, what came first.

    The day is measured from the beginning of the session, idleness from the user's last message; bookkeeping moves
    neither. Exactly at the limit a session is fresh. Times that cannot be (negative, in the future) are ignored.
    """
    if policy.mode == "none":
        return None
    ends: dict[StaleReason, datetime] = {}
    started = _moment(entry.session_started_at, now)
    if policy.mode == "daily" and started is not None:
        boundary = daily_boundary(now, policy.at_hour, zone)
        if started < boundary:
            ends["daily"] = boundary
    last = _moment(entry.last_interaction_at, now) or started
    if policy.idle_minutes > 0 and last is not None:
        limit = last + timedelta(minutes=policy.idle_minutes)
        if now > limit:
            ends["idle"] = limit
    return min(ends, key=lambda reason: ends[reason], default=None)


def daily_boundary(now: datetime, at_hour: int, zone: tzinfo) -> datetime:
    """The last time at which the hour struck in the user's zone."""
    local = now.astimezone(zone)
    for days in (0, 1):
        day = local.date() - timedelta(days=days)
        struck = datetime.combine(day, time(at_hour), tzinfo=zone).astimezone(UTC)
        if struck <= now:
            return struck
    raise AssertionError("yesterday's hour has struck")  # pragma: no cover


def _moment(milliseconds: float | None, now: datetime) -> datetime | None:
    if milliseconds is None or not math.isfinite(milliseconds) or milliseconds <= 0:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment if moment <= now else None
