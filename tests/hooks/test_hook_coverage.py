"""Every hook is fired by the host, in the documented order, with what its handlers need to know (sessions 6)."""

from __future__ import annotations

from hermitcrab.hooks.specifications import HOOKS
from hermitcrab.messages import assistant, user

MAIN = "agent:main:main"


async def test_one_scenario_fires_every_hook(open_host, crab, recorder):
    """Hooks that register and are never called were a frequent fault (sessions 9.4)."""
    model = crab.ScriptedModel(
        crab.calling("read", path="AGENTS.md"),
        "Read.",
        crab.calling("spawn_agent", task="Measure the harbour."),
        "It is 80 m deep.",
        "Measured.",
        window=16_000,
    )
    async with open_host(model, plugins=[("recorder", recorder)]) as host:
        await host.send(MAIN, "Read the rules.")
        await host.send(MAIN, "Have the harbour measured.")
        session = await host.session(MAIN)
        for number in range(10):
            await session.append(user(f"Step {number}: " + "we look at the harbour plan " * 200))
            await session.append(assistant("Noted."))
        await session.end_turn()
        assert (await host.compact(MAIN)).compacted
        await host.send(MAIN, "/reset")
    assert set(HOOKS) == set(recorder.names)


async def test_the_hooks_of_a_turn_come_in_order(open_host, crab, recorder):
    """The order of sessions 6.8; what nobody waits for is left out here."""
    model = crab.ScriptedModel(crab.calling("read", path="AGENTS.md"), "Read.")
    async with open_host(model, plugins=[("recorder", recorder)]) as host:
        await host.send(MAIN, "Read the rules.")
        await host.hooks.close()
    awaited = [name for name in recorder.names if HOOKS[name].mode != "void"]
    assert awaited == [
        "inbound_claim",
        "before_agent_reply",
        "before_model_resolve",
        "before_agent_start",
        "agent_turn_prepare",
        "before_prompt_build",
        "before_agent_run",
        "before_message_write",  # the user's message
        "before_message_write",  # the tool call
        "before_tool_call",
        "tool_result_persist",
        "before_message_write",  # the tool's result
        "before_message_write",  # the answer
        "before_agent_finalize",
        "reply_payload_sending",
        "message_sending",
    ]


async def test_observing_hooks_come_in_order_too(open_host, crab, recorder):
    model = crab.ScriptedModel(crab.calling("read", path="AGENTS.md"), "Read.")
    async with open_host(model, plugins=[("recorder", recorder)]) as host:
        await host.send(MAIN, "Read the rules.")
    observed = [name for name in recorder.names if HOOKS[name].mode == "void"]
    assert observed == [
        "gateway_start",
        "session_start",
        "message_received",
        "llm_input",
        "model_call_started",
        "model_call_ended",
        "after_tool_call",
        "model_call_started",
        "model_call_ended",
        "agent_end",
        "llm_output",
        "message_sent",
        "session_end",
        "gateway_stop",
    ]


async def test_every_handler_of_a_turn_knows_where_it_runs(open_host, crab, recorder, home):
    model = crab.ScriptedModel(crab.calling("read", path="AGENTS.md"), "Read.")
    async with open_host(model, plugins=[("recorder", recorder)]) as host:
        reply = await host.send(MAIN, "Read the rules.", provenance={"kind": "inter_session"})
    outside = {"gateway_start", "gateway_stop", "session_start"}
    contexts = [(name, ctx) for name, _, ctx in recorder.events if name not in outside]
    for name, ctx in contexts:
        assert ctx.session_key == MAIN, name
        assert ctx.session_id == reply.session_id, name
        assert ctx.agent_id == "main", name
        assert ctx.workspace == home / "workspace", name
        assert ctx.provenance == {"kind": "inter_session"}, name
        assert ctx.plugin_id == "recorder", name
        assert ctx.memory is not None, name
    assert len({ctx.run_id for _, ctx in contexts}) == 1
    assert contexts[0][1].run_id
    runs = [event.run_id for _, event, _ in recorder.events if getattr(event, "run_id", None)]
    assert set(runs) == {contexts[0][1].run_id}


async def test_model_calls_are_told_without_their_content(open_host, crab, recorder):
    async with open_host(crab.ScriptedModel("A secret."), plugins=[("r", recorder)]) as host:
        await host.send(MAIN, "Tell me.")
    started, ended = recorder.of("model_call_started"), recorder.of("model_call_ended")
    assert [(event.provider, event.model) for event in started] == [("scripted", "model")]
    assert [event.outcome for event in ended] == ["completed"]
    assert started[0].call_id == ended[0].call_id
    assert "secret" not in repr(started) + repr(ended)


async def test_a_failing_model_call_and_its_turn_are_told(open_host, crab, recorder):
    import pytest

    from hermitcrab.errors import ModelUnavailableError

    model = crab.ScriptedModel(ModelUnavailableError("the server is down"))
    async with open_host(model, plugins=[("r", recorder)]) as host:
        with pytest.raises(ModelUnavailableError):
            await host.send(MAIN, "hello")
    (ended,) = recorder.of("model_call_ended")
    assert (ended.outcome, ended.error_category) == ("error", "ModelUnavailableError")
    (end,) = recorder.of("agent_end")
    assert not end.success
    assert "the server is down" in end.error


async def test_a_reset_shows_its_hook_the_messages_of_the_old_session(open_host, crab, recorder):
    """The old transcript had been moved away before the hook could read it (sessions 9.6)."""
    async with open_host(crab.ScriptedModel("Noted."), plugins=[("r", recorder)]) as host:
        old = await host.send(MAIN, "The port is 8080.")
        new = await host.send(MAIN, "/reset")
    (reset,) = recorder.of("before_reset")
    assert [message["content"][0]["text"] for message in reset.messages] == [
        "The port is 8080.",
        "Noted.",
    ]
    (end,) = [event for event in recorder.of("session_end") if event.reason == "reset"]
    assert (end.session_id, end.next_session_id) == (old.session_id, new.session_id)
    assert end.message_count == 2
    assert recorder.of("session_start")[-1].resumed_from == old.session_id


async def test_an_own_loop_fires_the_hooks_of_writing_and_of_the_end(open_host, crab, recorder):
    """Hooks that fire on one path and not on another were a frequent fault (sessions 9.4)."""
    async with open_host(crab.ScriptedModel(), plugins=[("r", recorder)]) as host:
        session = await host.session(MAIN)
        await session.append(user("hello"))
        await session.assemble()
        await session.append(assistant("hi"))
        await session.end_turn()
    assert recorder.names.count("before_message_write") == 2
    (end,) = recorder.of("agent_end")
    assert end.success
    assert [message["role"] for message in end.messages] == ["user", "assistant"]
