"""When a conversation is over by itself (sessions 2.9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.config import config_from
from hermitcrab.sessions.entries import SessionEntry
from hermitcrab.sessions.inbound import InboundMessage
from hermitcrab.sessions.reset_policy import (
    ResetPolicy,
    daily_boundary,
    policy_for,
    reset_type,
    stale_reason,
)

NOW = datetime(2026, 6, 10, 12, 0, tzinfo=UTC)
KEY = "agent:main:main"


def entry(*, started: Any, spoken: Any = None) -> SessionEntry:
    def milliseconds(value: Any) -> Any:
        return int(value.timestamp() * 1000) if isinstance(value, datetime) else value

    return SessionEntry(
        key=KEY,
        session_id="s",
        updated_at=int(NOW.timestamp() * 1000),
        session_started_at=milliseconds(started),
        last_interaction_at=milliseconds(spoken),
    )


def settings(**session: Any) -> Any:
    return config_from({"session": session}).session


def message(**fields: Any) -> InboundMessage:
    return InboundMessage(text="hi", **fields)


class TestPolicy:
    def test_a_conversation_goes_on_until_the_user_ends_it(self) -> None:
        """#96751: a default reset made conversations vanish."""
        policy = policy_for(message(), KEY, settings())
        assert policy.mode == "none"
        ancient = entry(started=NOW - timedelta(days=400))
        assert stale_reason(policy, ancient, NOW, UTC) is None

    def test_a_type_is_laid_over_the_general_policy_field_by_field(self) -> None:
        chosen = settings(
            reset={"mode": "daily", "atHour": 5}, resetByType={"group": {"idleMinutes": 30}}
        )
        group = message(channel="telegram", chat_type="group", peer="1")
        assert policy_for(group, "agent:main:telegram:group:1", chosen) == ResetPolicy(
            mode="daily", at_hour=5, idle_minutes=30
        )
        assert policy_for(message(), KEY, chosen) == ResetPolicy(mode="daily", at_hour=5)

    def test_a_channel_replaces_everything_else(self) -> None:
        chosen = settings(
            reset={"mode": "daily", "atHour": 5, "idleMinutes": 10},
            resetByChannel={"Discord": {"mode": "idle"}},
        )
        assert policy_for(message(channel="discord"), KEY, chosen) == ResetPolicy(mode="idle")

    @pytest.mark.parametrize(
        ("fields", "key", "expected"),
        [
            ({}, KEY, "direct"),
            ({"thread": "7"}, KEY, "thread"),
            ({}, "agent:main:telegram:group:1:thread:7", "thread"),
            ({"chat_type": "group"}, KEY, "group"),
            ({}, "agent:main:telegram:channel:c", "group"),
        ],
    )
    def test_a_thread_comes_before_a_group_before_a_direct_chat(
        self, fields: dict[str, Any], key: str, expected: str
    ) -> None:
        assert reset_type(message(**fields), key) == expected


class TestDaily:
    DAILY = ResetPolicy(mode="daily", at_hour=4)

    def test_a_session_from_before_the_hour_is_over(self) -> None:
        assert stale_reason(self.DAILY, entry(started=NOW.replace(hour=3)), NOW, UTC) == "daily"
        assert stale_reason(self.DAILY, entry(started=NOW.replace(hour=4)), NOW, UTC) is None

    def test_before_the_hour_yesterdays_counts(self) -> None:
        early = NOW.replace(hour=2)
        yesterday = early - timedelta(days=1)
        assert stale_reason(self.DAILY, entry(started=yesterday), early, UTC) == "daily"
        assert (
            stale_reason(self.DAILY, entry(started=yesterday.replace(hour=5)), early, UTC) is None
        )

    @pytest.mark.parametrize("day", [datetime(2026, 3, 29), datetime(2026, 10, 25)])
    def test_the_hour_is_the_users_on_days_when_clocks_change_too(self, day: datetime) -> None:
        zone = ZoneInfo("Europe/Berlin")
        noon = day.replace(hour=12, tzinfo=zone)
        boundary = daily_boundary(noon, 4, zone).astimezone(zone)
        assert (boundary.date(), boundary.hour) == (day.date(), 4)

    @given(
        st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)),
        st.integers(0, 23),
        st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia"]),
    )
    def test_the_hour_has_always_struck_within_the_last_day_or_so(
        self, now: datetime, hour: int, name: str
    ) -> None:
        moment = now.replace(tzinfo=UTC)
        boundary = daily_boundary(moment, hour, ZoneInfo(name))
        assert boundary <= moment < boundary + timedelta(hours=49)


class TestIdle:
    IDLE = ResetPolicy(mode="idle", idle_minutes=60)

    def test_exactly_at_the_limit_a_session_is_fresh(self) -> None:
        at_limit = entry(started=NOW - timedelta(days=1), spoken=NOW - timedelta(minutes=60))
        over = entry(started=NOW - timedelta(days=1), spoken=NOW - timedelta(minutes=61))
        assert stale_reason(self.IDLE, at_limit, NOW, UTC) is None
        assert stale_reason(self.IDLE, over, NOW, UTC) == "idle"

    def test_bookkeeping_does_not_keep_a_session_alive(self) -> None:
        """#11520, #51991, #49515: what a row says of its last change is not what the user did."""
        silent = entry(started=NOW - timedelta(days=3), spoken=NOW - timedelta(days=2))
        assert silent.updated_at == int(NOW.timestamp() * 1000)
        assert stale_reason(self.IDLE, silent, NOW, UTC) == "idle"

    def test_a_session_in_which_nobody_spoke_is_measured_from_its_beginning(self) -> None:
        assert stale_reason(self.IDLE, entry(started=NOW - timedelta(hours=2)), NOW, UTC) == "idle"

    def test_idle_without_a_time_never_ends(self) -> None:
        policy = ResetPolicy(mode="idle")
        assert stale_reason(policy, entry(started=NOW - timedelta(days=90)), NOW, UTC) is None

    @pytest.mark.parametrize("impossible", [-5, 0, NOW + timedelta(hours=1)])
    def test_times_that_cannot_be_are_ignored(self, impossible: Any) -> None:
        assert stale_reason(self.IDLE, entry(started=impossible), NOW, UTC) is None

    def test_where_both_hold_the_reason_is_what_came_first(self) -> None:
        both = ResetPolicy(mode="daily", at_hour=4, idle_minutes=60)
        long_silent = entry(
            started=NOW - timedelta(days=2), spoken=NOW.replace(hour=1) - timedelta(minutes=1)
        )
        assert stale_reason(both, long_silent, NOW, UTC) == "idle"
        just_before = entry(started=NOW - timedelta(days=2), spoken=NOW.replace(hour=3, minute=50))
        assert stale_reason(both, just_before, NOW, UTC) == "daily"
