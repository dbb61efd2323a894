"""Groups: what is for the agent, what it is shown of the rest; limits of history; the one session for all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.messages import user
from hermitcrab.sessions.activation import is_for_agent, shown_context, unanswered_context
from hermitcrab.sessions.history_limits import history_limit_for
from hermitcrab.sessions.inbound import InboundMessage, resolve_session_key
from hermitcrab.sessions.keys import channel_of, to_store_key


@frozen(kw_only=True)
class Settings:
    group_activation: Any = "mention"
    group_activation_by_channel: Mapping[str, Any] = field(factory=dict)


def asks(own: str | None = None, settings: Settings | None = None, **fields: Any) -> bool:
    values = {"channel": "telegram", "chat_type": "group", "mentioned": False, **fields}
    return is_for_agent(InboundMessage(text="hi", **values), own, settings or Settings())


class TestActivation:
    def test_a_group_is_answered_where_it_names_the_agent_or_replies_to_it(self) -> None:
        assert not asks()
        assert asks(mentioned=True)
        assert asks(reply_to_agent=True)

    def test_a_channel_that_cannot_tell_loses_no_message(self) -> None:
        assert asks(mentioned=None)

    @pytest.mark.parametrize("kind", ["direct", "dm"])
    def test_a_direct_message_needs_no_mention(self, kind: str) -> None:
        assert asks(chat_type=kind)

    def test_rooms_and_ids_that_tell_a_group_are_groups(self) -> None:
        assert not asks(chat_type="channel")
        assert not asks(chat_type="direct", channel="whatsapp", peer="123@g.us")

    def test_a_session_wins_over_its_channel_and_the_channel_over_the_rest(self) -> None:
        lively = Settings(group_activation_by_channel={"Telegram": "always"})
        assert asks(settings=lively)
        assert not asks(settings=lively, channel="slack")
        assert not asks("mention", lively)
        assert asks("always")
        assert asks(settings=Settings(group_activation="always"))


def heard(text: str) -> Any:
    message = user(text)
    message["groupContext"] = {"sender": "ann"}
    return message


class TestShownContext:
    def test_only_the_last_messages_before_each_answer_are_shown(self) -> None:
        talk = [heard("1"), heard("2"), heard("3"), user("ask"), heard("4"), heard("5")]
        assert shown_context(talk, 2) == [False, True, True, True, True, True]
        assert shown_context(talk, 0) == [False, False, False, True, False, False]

    @given(st.lists(st.booleans(), max_size=30), st.integers(0, 5))
    def test_what_was_shown_once_stays_shown_when_the_talk_goes_on(
        self, kinds: list[bool], limit: int
    ) -> None:
        talk = [heard("x") if is_context else user("y") for is_context in kinds]
        before = shown_context([*talk, user("ask")], limit)
        assert shown_context([*talk, user("ask"), heard("z")], limit)[: len(before)] == before

    def test_only_what_nobody_answered_is_taken_over(self) -> None:
        talk = [heard("1"), user("ask"), heard("2"), heard("3")]
        assert [m["content"][0]["text"] for m in unanswered_context(talk, 50)] == ["2", "3"]
        assert [m["content"][0]["text"] for m in unanswered_context(talk, 1)] == ["3"]
        assert unanswered_context(talk, 0) == []
        assert unanswered_context(talk[:2], 50) == []


@frozen(kw_only=True)
class ChannelLimits:
    direct: int | None = None
    group: int | None = None


@frozen(kw_only=True)
class Limits:
    history_limit: int | None = 9
    history_limit_by_channel: Mapping[str, ChannelLimits] = field(factory=dict)


class TestHistoryLimits:
    LIMITS = Limits(
        history_limit_by_channel={"Telegram": ChannelLimits(direct=3), "slack": ChannelLimits()}
    )

    @pytest.mark.parametrize(
        ("key", "limit"),
        [
            ("agent:main:telegram:direct:ann", 3),
            ("agent:main:telegram:work:direct:ann", 3),
            ("agent:main:telegram:direct:ann:thread:5", 3),
            ("agent:main:telegram:group:-100", 9),
            ("agent:main:slack:direct:ann", 9),
            ("agent:main:discord:direct:ann", 9),
            ("agent:main:main", 9),
            ("agent:main:direct:ann", 9),
        ],
    )
    def test_a_channels_own_limit_wins_over_the_general_one(self, key: str, limit: int) -> None:
        assert history_limit_for(key, self.LIMITS) == limit

    def test_a_channel_may_be_limited_alone(self) -> None:
        limits = Limits(
            history_limit=None, history_limit_by_channel={"telegram": ChannelLimits(group=4)}
        )
        assert history_limit_for("agent:main:telegram:channel:c1", limits) == 4
        assert history_limit_for("agent:main:telegram:direct:ann", limits) is None


@pytest.mark.parametrize(
    ("key", "channel"),
    [
        ("agent:main:telegram:direct:1", "telegram"),
        ("agent:main:signal:group:aBc=", "signal"),
        ("agent:main:telegram:work:dm:1", "telegram"),
        ("agent:main:main", None),
        ("agent:main:direct:1", None),
        ("agent:main:cron:nightly", None),
        ("global", None),
    ],
)
def test_the_channel_is_told_by_the_structure_of_a_key(key: str, channel: str | None) -> None:
    assert channel_of(key) == channel


class TestGlobalScope:
    def test_every_message_belongs_to_the_one_session(self) -> None:
        """Sessions 1.3."""
        for fields in (
            {},
            {"chat_type": "group", "peer": "g"},
            {"chat_type": "direct", "peer": "ann", "thread": "7", "agent_id": "work"},
            {"session_key": "main"},
        ):
            message = InboundMessage(text="hi", channel="telegram", **fields)  # type: ignore[arg-type]
            assert resolve_session_key(message, scope="global") == "global"

    @pytest.mark.parametrize("key", ["main", "", "office", "agent:work:main", "AGENT:x:Office"])
    def test_the_main_aliases_mean_it_on_every_path(self, key: str) -> None:
        """Sessions 1.4: on the way in and on the way out."""
        assert to_store_key(key, main_key="office", scope="global") == "global"

    def test_other_keys_stay_what_they_are(self) -> None:
        for key in ("agent:main:cron:x", "agent:main:subagent:1", "unknown"):
            assert to_store_key(key, scope="global") == key
        assert to_store_key("main") == "agent:main:main"


def test_the_way_out_and_the_way_in_find_the_same_session() -> None:
    """#58537: the outbound path built a direct key, the inbound one a group key, for the same chat."""
    message = InboundMessage(
        text="hi", channel="WhatsApp", chat_type="direct", peer="123@g.us", sender="ann"
    )
    key = resolve_session_key(message, direct_scope="per-channel-peer")
    assert key == "agent:main:whatsapp:group:123@g.us"
    assert to_store_key(key) == key
    again = InboundMessage(text="hi", session_key=key)
    assert resolve_session_key(again, direct_scope="per-channel-peer") == key


async def test_a_rebuilt_entry_does_not_take_the_talk_of_others_for_an_interaction(
    tmp_path: Path, open_sessions: Any
) -> None:
    """Sessions 9.6: else a lively group would keep an idle conversation from ending."""
    log = await open_sessions().open("agent:main:telegram:group:g")
    await log.append_messages([user("to the agent")])
    spoken = log.now()
    await log.append_messages([heard("to others")])
    for file in tmp_path.rglob("sessions.sqlite*"):
        file.unlink()
    entry = (await open_sessions().open("agent:main:telegram:group:g")).entry
    assert entry.message_count == 2
    assert entry.last_interaction_at is not None
    assert entry.last_interaction_at < spoken.timestamp() * 1000
