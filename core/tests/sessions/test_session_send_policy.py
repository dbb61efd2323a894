"""Whether replies of a session may go out (sessions 5.4)."""

from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.config import config_from
from hermitcrab.sessions.send_policy import may_send

GROUP = "agent:main:telegram:group:-100"


def settings(*rules: dict[str, Any], default: str = "allow") -> Any:
    document = {"session": {"sendPolicy": {"default": default, "rules": list(rules)}}}
    return config_from(document).session.send_policy


DENY_GROUPS = {"action": "deny", "match": {"chatType": "group"}}
ALLOW_TELEGRAM = {"action": "allow", "match": {"channel": "Telegram"}}


def test_without_a_policy_replies_go_out() -> None:
    assert may_send(settings(), GROUP)


def test_the_sessions_own_policy_decides_alone() -> None:
    assert may_send(settings(DENY_GROUPS), GROUP, own="allow")
    assert not may_send(settings(), GROUP, own="deny")


@pytest.mark.parametrize("order", [1, -1])
def test_a_rule_that_denies_wins_whatever_the_order(order: int) -> None:
    rules = [DENY_GROUPS, ALLOW_TELEGRAM][::order]
    assert not may_send(settings(*rules), GROUP, channel="telegram")


def test_the_default_holds_where_no_rule_matches() -> None:
    closed = settings(ALLOW_TELEGRAM, default="deny")
    assert may_send(closed, GROUP, channel="telegram")
    assert not may_send(closed, "agent:main:discord:group:1", channel="discord")


def test_all_conditions_of_a_rule_must_hold() -> None:
    rule = {"action": "deny", "match": {"channel": "telegram", "chatType": "direct"}}
    assert may_send(settings(rule), GROUP, channel="telegram")
    assert not may_send(settings(rule), "agent:main:telegram:direct:7", channel="telegram")


def test_an_empty_match_is_about_every_session() -> None:
    assert not may_send(settings({"action": "deny"}), "agent:main:main")


def test_prefixes_are_with_the_agent_or_without_it() -> None:
    short = {"action": "deny", "match": {"keyPrefix": "telegram:"}}
    long = {"action": "deny", "match": {"keyPrefix": "agent:main:telegram:"}}
    raw = {"action": "deny", "match": {"rawKeyPrefix": "telegram:"}}
    assert not may_send(settings(short), GROUP)
    assert not may_send(settings(long), GROUP)
    assert may_send(settings(raw), GROUP)


def test_dm_is_another_word_for_direct() -> None:
    rule = {"action": "deny", "match": {"chatType": "dm"}}
    assert not may_send(settings(rule), "agent:main:telegram:direct:7")


def test_a_key_that_does_not_tell_takes_the_messages_chat_type() -> None:
    rule = {"action": "deny", "match": {"chatType": "direct"}}
    assert not may_send(settings(rule), "agent:main:main", kind="direct")
    assert may_send(settings(rule), GROUP, kind="direct")


def test_a_key_that_could_be_of_two_types_is_denied_where_there_is_a_policy() -> None:
    ambiguous = "agent:main:telegram:direct:group:7"
    assert may_send(settings(), ambiguous)
    assert not may_send(settings(ALLOW_TELEGRAM), ambiguous, channel="telegram")
