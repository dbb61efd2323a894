"""Calling handlers: order, arguments, modes, errors and gates (sessions 6.2, 6.3, 6.5)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hermitcrab.errors import HookError, PluginError
from hermitcrab.hooks import (
    AgentEnd,
    AgentStart,
    AgentTurnPrepare,
    BeforeAgentRun,
    BeforeAgentStart,
    BeforeMessageWrite,
    BeforePromptBuild,
    BeforeToolCall,
    GatewayStop,
    HookContext,
    MessageWriteDecision,
    PromptBuild,
    RunDecision,
    SubagentSpawned,
    ToolCallDecision,
    ToolResultPersist,
    hookimpl,
)
from hermitcrab.hooks.policy import HookPolicy, refusal, timeout_ms
from hermitcrab.hooks.signatures import accepted_arguments
from hermitcrab.hooks.specifications import HOOKS

PROMPT = BeforePromptBuild(prompt="hi")
TOOL_CALL = BeforeToolCall(tool_name="exec", params={})
RUN = BeforeAgentRun(prompt="hi")
STOP = GatewayStop()


def fail() -> None:
    raise RuntimeError("broken")


async def test_handlers_run_by_priority_then_by_registration(hooks: Any) -> None:
    called: list[str] = []
    for plugin, priority in (("a", 0), ("b", 10), ("c", 0), ("d", -5), ("e", 10)):
        hooks.add(
            "before_prompt_build",
            lambda plugin=plugin: called.append(plugin),
            plugin=plugin,
            priority=priority,
        )
    await hooks.fire(PROMPT)
    assert called == ["b", "e", "a", "c", "d"]


async def test_a_handler_gets_what_it_takes_and_the_config_of_its_own_plugin(hooks: Any) -> None:
    seen: list[Any] = []
    config = {"color": "red"}

    async def with_both(event: Any, ctx: HookContext) -> None:
        seen.append((event, ctx.plugin_id, ctx.plugin_config, ctx.session_key))

    def with_keyword_only(*, ctx: HookContext) -> None:
        seen.append(ctx.plugin_config)

    hooks.add("gateway_stop", with_both, plugin="a", plugin_config=config)
    hooks.add("gateway_stop", with_keyword_only, plugin="b")
    hooks.add("gateway_stop", lambda **rest: seen.append(sorted(rest)), plugin="c")
    await hooks.fire(STOP)
    assert (STOP, "a", config, "agent:main:main") in seen
    assert {} in seen
    assert ["ctx", "event"] in seen


async def test_without_handlers_nothing_happens(hooks: Any) -> None:
    assert hooks.dispatcher.has("before_prompt_build") is False
    assert await hooks.fire(PROMPT) is None


async def test_handlers_that_come_and_go_later_count(hooks: Any) -> None:
    """Sessions 9.4, #77438: a replaced list of handlers lost those of other plugins."""
    hooks.answers("before_prompt_build", PromptBuild(prepend_context="x"))
    assert (await hooks.fire(PROMPT)).prepend_context == "x"
    hooks.add("before_prompt_build", lambda: PromptBuild(prepend_context="y"), plugin="later")
    assert (await hooks.fire(PROMPT)).prepend_context == "x\n\ny"
    hooks.implementations.remove("p0")
    assert (await hooks.fire(PROMPT)).prepend_context == "y"
    hooks.implementations.remove("later")
    assert hooks.dispatcher.has("before_prompt_build") is False


async def test_observers_run_beside_each_other(hooks: Any) -> None:
    met = asyncio.Event()

    async def waits() -> None:
        await met.wait()

    async def releases() -> None:
        met.set()

    hooks.add("gateway_stop", waits, plugin="a")
    hooks.add("gateway_stop", releases, plugin="b")
    async with asyncio.timeout(5):
        await hooks.fire(STOP)
    assert hooks.reports.failures == []


async def test_a_later_handler_sees_the_original_event(hooks: Any) -> None:
    seen = []
    hooks.answers("before_tool_call", ToolCallDecision(params={"changed": True}))
    hooks.add("before_tool_call", lambda event: seen.append(event.params), plugin="z")
    await hooks.fire(TOOL_CALL)
    assert seen == [{}]


async def test_one_failing_handler_is_reported_and_harms_no_other(
    hooks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hooks.add("before_prompt_build", fail, plugin="broken")
    hooks.answers("before_prompt_build", PromptBuild(prepend_context="x"))
    assert (await hooks.fire(PROMPT)).prepend_context == "x"
    assert hooks.reports.failed_plugins == ["broken"]
    (record,) = [each for each in caplog.records if each.name == "hermitcrab.hooks"]
    assert "before_prompt_build handler of plugin broken failed" in record.getMessage()
    assert record.plugin_id == "broken"  # type: ignore[attr-defined]
    assert record.session_key == "agent:main:main"  # type: ignore[attr-defined]


async def test_a_failing_observer_does_not_stop_the_others(hooks: Any) -> None:
    called = []
    hooks.add("subagent_spawned", fail, plugin="broken")
    hooks.add("subagent_spawned", lambda: called.append(1), plugin="fine")
    event = SubagentSpawned(run_id="r", child_session_key="c", agent_id="main")
    assert await hooks.fire(event) is None
    assert called == [1]
    assert hooks.reports.failed_plugins == ["broken"]
    assert sorted(hooks.reports.timings) == [
        ("broken", "subagent_spawned"),
        ("fine", "subagent_spawned"),
    ]


async def test_a_handler_cannot_end_the_process(hooks: Any) -> None:
    def exits() -> None:
        raise SystemExit(3)

    async def exits_later() -> None:
        await asyncio.sleep(0)
        raise SystemExit(3)

    hooks.add("gateway_stop", exits, plugin="a")
    hooks.add("gateway_stop", exits_later, plugin="b")
    hooks.add("gateway_stop", exits, plugin="c", blocking=True)
    await hooks.fire(STOP)
    assert sorted(hooks.reports.failed_plugins) == ["a", "b", "c"]


async def test_a_failing_reporter_does_not_fail_the_turn(hooks: Any) -> None:
    def explode(*_: Any) -> None:
        raise RuntimeError("no disk")

    object.__setattr__(hooks.reports, "failures", property(explode))
    hooks.add("before_prompt_build", fail, plugin="broken")
    hooks.answers("before_prompt_build", PromptBuild(prepend_context="x"))
    assert (await hooks.fire(PROMPT)).prepend_context == "x"


@pytest.mark.parametrize(
    "answer",
    [
        {"prependContext": "x", "prependContent": "y"},
        {"prepend_context": 5},
        {"tools_allow": "exec"},
        "text",
        ToolCallDecision(),
    ],
)
async def test_an_invalid_answer_is_that_handlers_error(hooks: Any, answer: Any) -> None:
    hooks.add("before_prompt_build", lambda: answer, plugin="wrong")
    hooks.answers("before_prompt_build", {"appendContext": "fine"})
    assert (await hooks.fire(PROMPT)).append_context == "fine"
    assert hooks.reports.failed_plugins == ["wrong"]


async def test_an_unknown_field_is_named_with_the_nearest_one(hooks: Any) -> None:
    hooks.answers("before_prompt_build", {"prependContent": "x"})
    assert await hooks.fire(PROMPT) is None
    text = str(hooks.reports.failures[0][2])
    assert "prependContent" in text
    assert 'Did you mean "prepend_context"?' in text


async def test_a_failing_tool_gate_refuses_the_call_and_names_the_plugin(hooks: Any) -> None:
    hooks.add("before_tool_call", fail, plugin="guard")
    with pytest.raises(
        HookError, match=r"plugin guard: .*before_tool_call.*RuntimeError: broken"
    ) as caught:
        await hooks.fire(TOOL_CALL)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert hooks.reports.failed_plugins == ["guard"]


async def test_a_gate_with_an_invalid_answer_refuses(hooks: Any) -> None:
    hooks.answers("before_tool_call", {"blocked": True})
    with pytest.raises(HookError, match="unknown field"):
        await hooks.fire(TOOL_CALL)


async def test_a_failing_run_gate_refuses_the_run(hooks: Any) -> None:
    hooks.add("before_agent_run", fail, plugin="guard")
    with pytest.raises(HookError, match="plugin guard"):
        await hooks.fire(RUN)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"outcome": "maybe"},
        {"outcome": "block"},
        {"outcome": "block", "reason": " "},
        {"outcome": "pass", "extra": 1},
    ],
)
async def test_a_run_gate_that_does_not_answer_properly_blocks(hooks: Any, answer: Any) -> None:
    hooks.answers("before_agent_run", {"outcome": "pass"}, answer)
    decision = await hooks.fire(RUN)
    assert decision.outcome == "block"
    assert decision.decided_by == "p1"
    assert hooks.reports.failed_plugins == ["p1"]


async def test_the_first_block_of_a_run_is_final(hooks: Any) -> None:
    asked = []
    hooks.answers(
        "before_agent_run",
        RunDecision(message="ignored"),
        RunDecision(outcome="block", reason="policy", message="Not now."),
    )
    hooks.add("before_agent_run", lambda: asked.append(1), plugin="late")
    decision = await hooks.fire(RUN)
    assert (decision.outcome, decision.message, decision.decided_by) == ("block", "Not now.", "p1")
    assert asked == []


async def test_a_run_that_everybody_lets_pass_passes(hooks: Any) -> None:
    assert await hooks.fire(RUN) is None
    hooks.answers("before_agent_run", {"outcome": "pass"}, RunDecision())
    assert (await hooks.fire(RUN)).outcome == "pass"


def test_write_hooks_hand_the_message_on_and_keep_the_original(hooks: Any) -> None:
    original: Any = {"role": "user", "content": [{"type": "text", "text": "a"}]}

    def append_in_place(event: Any) -> Any:
        event.message["content"][0]["text"] += "b"
        return {"message": event.message}

    hooks.add("before_message_write", append_in_place, plugin="a")
    hooks.add("before_message_write", append_in_place, plugin="b")
    decision = hooks.fire_sync(BeforeMessageWrite(message=original))
    assert decision.message["content"][0]["text"] == "abb"
    assert original["content"][0]["text"] == "a"


def test_a_write_hook_that_changes_its_copy_but_answers_nothing_changes_nothing(hooks: Any) -> None:
    def change_in_place(event: Any) -> None:
        event.message["content"] = "gone"

    hooks.add("tool_result_persist", change_in_place)
    message: Any = {"role": "toolResult", "content": "kept"}
    assert hooks.fire_sync(ToolResultPersist(message=message)) is None
    assert message["content"] == "kept"


def test_a_write_hook_that_returns_the_same_message_decides_nothing(hooks: Any) -> None:
    hooks.add("before_message_write", lambda event: {"message": event.message})
    assert hooks.fire_sync(BeforeMessageWrite(message={"role": "user", "content": "a"})) is None


def test_a_blocked_write_ends_the_chain(hooks: Any) -> None:
    asked = []
    hooks.answers("before_message_write", MessageWriteDecision(block=True))
    hooks.add("before_message_write", lambda: asked.append(1), plugin="late")
    decision = hooks.fire_sync(BeforeMessageWrite(message={"role": "user", "content": "a"}))
    assert (decision.block, decision.decided_by) == (True, "p0")
    assert asked == []


def test_an_asynchronous_write_hook_is_reported_and_left_out(hooks: Any) -> None:
    async def late(event: Any) -> Any:
        return {"block": True}

    hooks.add("before_message_write", late, plugin="late")
    hooks.answers("before_message_write", {"message": {"role": "user", "content": "b"}})
    decision = hooks.fire_sync(BeforeMessageWrite(message={"role": "user", "content": "a"}))
    assert decision.message == {"role": "user", "content": "b"}
    assert "asynchronous" in str(hooks.reports.failures[0][2])


def test_a_failing_write_hook_leaves_the_message_as_it_was(hooks: Any) -> None:
    hooks.add("before_message_write", fail, plugin="broken")
    hooks.add("before_message_write", lambda: {"message": "text"}, plugin="wrong")
    assert hooks.fire_sync(BeforeMessageWrite(message={"role": "user", "content": "a"})) is None
    assert hooks.reports.failed_plugins == ["broken", "wrong"]


async def test_each_hook_is_fired_in_its_own_way(hooks: Any) -> None:
    write = BeforeMessageWrite(message={"role": "user", "content": "a"})
    with pytest.raises(HookError, match="fire_sync"):
        await hooks.fire(write)
    with pytest.raises(HookError, match="must be fired with fire"):
        hooks.fire_sync(PROMPT)
    with pytest.raises(HookError, match="has answers"):
        hooks.fire_background(PROMPT)


def test_config_can_keep_a_plugin_out_of_prompts_and_conversations() -> None:
    assert refusal("before_prompt_build", HookPolicy()) is None
    no_prompts = HookPolicy(allow_prompt_injection=False)
    assert refusal("before_prompt_build", no_prompts) == "hooks.allowPromptInjection is false"
    assert refusal("agent_turn_prepare", no_prompts)
    assert refusal("before_agent_start", no_prompts) is None
    assert refusal("llm_input", HookPolicy(allow_conversation_access=None)) is None
    assert refusal("llm_input", HookPolicy(allow_conversation_access=False))
    assert refusal("gateway_start", HookPolicy(allow_conversation_access=False)) is None


async def test_prompt_fields_of_the_older_hook_are_stripped_where_they_are_not_allowed(
    hooks: Any,
) -> None:
    policy = HookPolicy(allow_prompt_injection=False)
    hooks.add("before_agent_start", lambda: {"prependContext": "x"}, plugin="a", policy=policy)
    assert await hooks.fire(BeforeAgentStart(prompt="hi")) is None
    hooks.add(
        "before_agent_start",
        lambda: {"systemPrompt": "x", "modelOverride": "m"},
        plugin="b",
        policy=policy,
    )
    assert await hooks.fire(BeforeAgentStart(prompt="hi")) == AgentStart(model_override="m")


def test_a_timeout_is_the_operators_then_the_plugins_then_the_tables() -> None:
    specification = HOOKS["before_prompt_build"]
    policy = HookPolicy(timeout_ms=2, timeouts={"before_prompt_build": 1})
    assert timeout_ms(specification, policy, 3) == 1
    assert timeout_ms(specification, HookPolicy(timeout_ms=2), 3) == 2
    assert timeout_ms(specification, HookPolicy(), 3) == 3
    assert timeout_ms(specification, HookPolicy(timeouts={"agent_end": 1}), None) == 15_000
    assert timeout_ms(HOOKS["llm_input"], HookPolicy(), None) is None


def test_the_marker_keeps_its_options_and_refuses_a_timeout_that_is_none() -> None:
    @hookimpl(priority=10, blocking=True, timeout_ms=1500.9)
    def before_reset(event: Any) -> None: ...

    options = before_reset.hermitcrab_impl  # type: ignore[attr-defined]
    assert (options["priority"], options["blocking"], options["timeout_ms"]) == (10, True, 1500)

    @hookimpl
    async def agent_end(*, ctx: Any) -> None: ...

    assert agent_end.hermitcrab_impl["priority"] == 0  # type: ignore[attr-defined]
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="timeout_ms"):
            hookimpl(timeout_ms=wrong)


def test_parameters_are_read_from_the_signature() -> None:
    def keyword_only(*, event: Any) -> None: ...
    def with_default(ctx: Any = None, cache: Any = ()) -> None: ...
    def unknown(event: Any, context: Any) -> None: ...
    def by_position(event: Any, /) -> None: ...

    assert accepted_arguments(keyword_only, ("event", "ctx")) == ("event",)
    assert accepted_arguments(with_default, ("event", "ctx")) == ("ctx",)
    with pytest.raises(PluginError, match='"context" is not an argument'):
        accepted_arguments(unknown, ("event", "ctx"))
    with pytest.raises(PluginError, match="positional-only"):
        accepted_arguments(by_position, ("event", "ctx"))


async def test_events_without_handlers_cost_no_task(hooks: Any) -> None:
    before = asyncio.all_tasks()
    hooks.fire_background(AgentEnd(messages=[], success=True))
    await hooks.fire(AgentTurnPrepare(prompt="hi"))
    assert asyncio.all_tasks() == before
    assert logging.getLogger("hermitcrab.hooks").level == logging.NOTSET
