from __future__ import annotations

from typing import Any, ClassVar

import pytest

from hermitcrab.errors import SessionKeyError
from hermitcrab.sessions.inbound import InboundMessage, resolve_session_key


def key_of(*, scope: Any = "main", links: Any = None, **fields: Any) -> str:
    fields = {"channel": "Telegram", "peer": "User1", **fields}
    message = InboundMessage(text="hi", **fields)
    return resolve_session_key(message, direct_scope=scope, identity_links=links)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("main", "agent:main:main"),
        ("per-peer", "agent:main:direct:user1"),
        ("per-channel-peer", "agent:main:telegram:direct:user1"),
        ("per-account-channel-peer", "agent:main:telegram:work:direct:user1"),
    ],
)
def test_the_direct_scope_decides_who_shares_a_session(scope: str, expected: str) -> None:
    """Sessions 1.2, 1.3."""
    assert key_of(scope=scope, account="Work") == expected


@pytest.mark.parametrize("scope", ["per-peer", "per-channel-peer", "per-account-channel-peer"])
def test_a_message_without_a_peer_goes_to_the_main_session(scope: str) -> None:
    assert key_of(scope=scope, peer=" ") == "agent:main:main"


def test_groups_and_channels_have_their_own_sessions_in_every_scope() -> None:
    assert key_of(chat_type="group", peer="-100") == "agent:main:telegram:group:-100"
    assert key_of(chat_type="channel", peer="C1") == "agent:main:telegram:channel:c1"
    assert key_of(chat_type="group", peer="", channel="") == "agent:main:unknown:group:unknown"


def test_a_missing_account_is_the_default_one() -> None:
    scope = "per-account-channel-peer"
    assert key_of(scope=scope, account="__proto__") == "agent:main:telegram:default:direct:user1"


def test_a_thread_is_a_session_of_its_own() -> None:
    assert key_of(thread="T7") == "agent:main:main:thread:t7"
    assert key_of(chat_type="group", peer="g", thread="7") == "agent:main:telegram:group:g:thread:7"


def test_case_sensitive_group_ids_do_not_collide() -> None:
    """Sessions 9.7."""
    first = key_of(chat_type="group", channel="Signal", peer="aBc=")
    assert first == "agent:main:signal:group:aBc="
    assert first != key_of(chat_type="group", channel="signal", peer="abc=")


def test_an_explicit_key_wins_over_everything() -> None:
    assert key_of(session_key="Cron:Job1", chat_type="group", agent_id="Work") == (
        "agent:work:cron:job1"
    )
    with pytest.raises(SessionKeyError):
        key_of(session_key="agent::broken")


def test_the_main_key_may_be_named_otherwise() -> None:
    message = InboundMessage(text="hi", agent_id="Work")
    assert resolve_session_key(message, main_key="Home") == "agent:work:home"


class TestIdentityLinks:
    """Sessions 1.3: one person on several channels."""

    links: ClassVar = {
        "alice": ["telegram:USER1", "discord:42"],
        "Bob": ["user1"],
        "carol": ["telegram:user1"],
    }

    def test_the_first_name_in_config_order_that_lists_the_peer_wins(self) -> None:
        assert key_of(scope="per-peer", links=self.links) == "agent:main:direct:alice"
        reordered = {name: self.links[name] for name in ("Bob", "alice")}
        assert key_of(scope="per-peer", links=reordered) == "agent:main:direct:bob"

    def test_a_peer_listed_with_another_channel_is_not_meant(self) -> None:
        assert (
            key_of(scope="per-peer", links={"alice": ["discord:user1"]})
            == "agent:main:direct:user1"
        )

    def test_links_are_ignored_where_all_share_the_main_session(self) -> None:
        assert key_of(scope="main", links=self.links) == "agent:main:main"

    def test_links_do_not_touch_groups(self) -> None:
        assert key_of(scope="per-peer", links=self.links, chat_type="group") == (
            "agent:main:telegram:group:user1"
        )

    def test_a_blank_name_is_passed_over(self) -> None:
        assert key_of(scope="per-peer", links={"  ": ["user1"]}) == "agent:main:direct:user1"


class TestGroups:
    def test_groups_may_share_the_main_session(self) -> None:
        message = InboundMessage(text="hi", channel="telegram", chat_type="group", peer="-100")
        assert resolve_session_key(message) == "agent:main:telegram:group:-100"
        assert resolve_session_key(message, group_scope="main") == "agent:main:main"

    def test_an_id_that_can_only_be_a_group_is_one(self) -> None:
        message = InboundMessage(text="hi", channel="whatsapp", peer="123-456@g.us")
        assert resolve_session_key(message, direct_scope="per-peer") == (
            "agent:main:whatsapp:group:123-456@g.us"
        )

    def test_a_topic_and_a_thread_have_conversations_of_their_own(self) -> None:
        message = InboundMessage(
            text="hi", channel="telegram", chat_type="group", peer="-100", topic="7", thread="t1"
        )
        assert resolve_session_key(message) == "agent:main:telegram:group:-100:topic:7:thread:t1"
