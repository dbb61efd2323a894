"""The table of hooks: complete, and in step with its event and result classes."""

from __future__ import annotations

import re
import subprocess
import sys

import attrs
import pytest

import hermitcrab.hooks as public
from hermitcrab.hooks.events import HookEvent
from hermitcrab.hooks.merge import merge_rules
from hermitcrab.hooks.specifications import HOOKS

REFERENCE_NAMES = [
    "before_model_resolve",
    "before_prompt_build",
    "before_agent_start",
    "llm_input",
    "llm_output",
    "agent_end",
    "before_compaction",
    "after_compaction",
    "before_reset",
    "inbound_claim",
    "message_received",
    "message_sending",
    "message_sent",
    "before_tool_call",
    "after_tool_call",
    "tool_result_persist",
    "before_message_write",
    "session_start",
    "session_end",
    "subagent_spawning",
    "subagent_delivery_target",
    "subagent_spawned",
    "subagent_ended",
    "gateway_start",
    "gateway_stop",
    "agent_turn_prepare",
    "before_agent_run",
    "before_agent_reply",
    "before_agent_finalize",
    "model_call_started",
    "model_call_ended",
    "reply_payload_sending",
    "session_before_compact",
]


def test_every_hook_of_the_list_is_there_and_no_other() -> None:
    assert sorted(HOOKS) == sorted(REFERENCE_NAMES)


@pytest.mark.parametrize("name", REFERENCE_NAMES)
def test_an_event_class_is_named_after_its_hook_and_is_public(name: str) -> None:
    event = HOOKS[name].event
    assert event.hook == name
    assert re.sub(r"(?<!^)([A-Z])", r"_\1", event.__name__).lower() == name
    assert getattr(public, event.__name__) is event


@pytest.mark.parametrize("name", [name for name in REFERENCE_NAMES if HOOKS[name].result])
def test_a_result_class_is_public_says_how_every_field_merges_and_can_be_empty(name: str) -> None:
    result = HOOKS[name].result
    assert result is not None
    assert getattr(public, result.__name__) is result
    assert set(merge_rules(result)) == {each.name for each in attrs.fields(result)}
    assert result() == result()


def test_only_hooks_with_answers_have_a_result_class() -> None:
    assert {name for name, each in HOOKS.items() if each.result is None} == {
        name for name, each in HOOKS.items() if each.mode == "void"
    }


def test_the_gates_are_the_two_that_fail_closed() -> None:
    assert {name for name, each in HOOKS.items() if each.gate} == {
        "before_agent_run",
        "before_tool_call",
    }


def test_every_awaited_hook_has_a_time_limit_so_that_none_can_hang_a_turn() -> None:
    """Sessions 9.4, #48534: a handler without an end blocked the agent for ever."""
    awaited = [each for each in HOOKS.values() if each.awaited and each.mode != "sync"]
    assert all(each.default_timeout_ms for each in awaited)
    assert HOOKS["agent_end"].default_timeout_ms == 30_000
    assert HOOKS["before_compaction"].default_timeout_ms == 30_000
    assert HOOKS["before_tool_call"].default_timeout_ms == 15_000
    assert HOOKS["before_model_resolve"].default_timeout_ms == 15_000
    assert HOOKS["gateway_stop"].default_timeout_ms == 5_000


def test_events_are_frozen_and_keep_their_messages_from_being_changed() -> None:
    event = public.BeforePromptBuild(prompt="hi", messages=[{"role": "user", "content": "hi"}])
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        event.prompt = "ho"  # type: ignore[misc]
    assert isinstance(event.messages, tuple)


def test_the_public_names_are_those_of_all() -> None:
    classes = {
        name
        for name, value in vars(public).items()
        if isinstance(value, type) and value.__module__.startswith("hermitcrab.hooks")
    }
    assert classes | {"hookimpl"} == set(public.__all__)
    assert issubclass(public.AgentEnd, HookEvent)


def test_importing_the_hooks_loads_nothing_heavy() -> None:
    code = (
        "import sys, hermitcrab.hooks, hermitcrab.hooks.dispatcher\n"
        "print([m for m in ('pluggy', 'sqlite3', 'httpx', 'cattrs', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
