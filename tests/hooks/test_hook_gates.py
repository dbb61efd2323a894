"""What plugins may stop: runs, tool calls, writes and replies. Block and cancel are sticky (sessions 6.3, 6.7)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from hermitcrab import hookimpl
from hermitcrab.hooks import (
    Claim,
    MessageSendingDecision,
    MessageWriteDecision,
    ReplyPayloadDecision,
    RunDecision,
    ToolCallDecision,
    ToolResultReplacement,
)

MAIN = "agent:main:main"


async def test_a_blocked_run_never_reaches_the_model_and_its_reason_is_never_shown(
    open_host, crab, handlers, caplog
):
    async def before_agent_run(event, ctx):
        if "4711" in event.prompt:
            return RunDecision(outcome="block", reason="secret reason", message="it has a code")
        return RunDecision()

    model = crab.ScriptedModel()
    caplog.set_level(logging.DEBUG)
    async with open_host(model, plugins=[handlers(before_agent_run=before_agent_run)]) as host:
        reply = await host.send(MAIN, "The safe opens with 4711.")
        stored = crab.stored_messages((await host.session(MAIN)).file)
        after = await host.send(MAIN, "hello")
    replacement = "Your message could not be sent: it has a code (blocked by tester)"
    assert reply.text == replacement
    assert [message["content"][0]["text"] for message in stored] == [replacement]
    assert after.text == "ok"
    assert "4711" not in str(model.requests)
    assert "secret reason" not in caplog.text + str(stored) + reply.text


@pytest.mark.parametrize("behaviour", ["raises", "answers nothing", "answers nonsense"])
async def test_a_gate_of_runs_that_fails_blocks_the_run(open_host, crab, handlers, behaviour):
    async def before_agent_run(event, ctx):
        if behaviour == "raises":
            raise RuntimeError("a bug in the gate")
        return None if behaviour == "answers nothing" else {"verdict": "fine"}

    model = crab.ScriptedModel()
    async with open_host(model, plugins=[handlers(before_agent_run=before_agent_run)]) as host:
        reply = await host.send(MAIN, "hello")
    assert reply.text.startswith("Your message could not be sent")
    assert "tester" in reply.text
    assert "a bug in the gate" not in reply.text
    assert model.requests == []


async def test_a_block_of_a_run_cannot_be_undone(open_host, crab, handlers):
    async def block(event, ctx):
        return RunDecision(outcome="block", reason="no")

    async def allow(event, ctx):
        return RunDecision(outcome="pass")

    model = crab.ScriptedModel()
    plugins = [
        handlers("strict", before_agent_run=hookimpl(priority=5)(block)),
        handlers("lenient", before_agent_run=allow),
    ]
    async with open_host(model, plugins=plugins) as host:
        reply = await host.send(MAIN, "hello")
    assert "blocked by strict" in reply.text
    assert model.requests == []


async def test_a_blocked_tool_call_is_an_error_with_the_reason_and_does_not_run(
    open_host, crab, handlers, home
):
    async def before_tool_call(event, ctx):
        return ToolCallDecision(block=True, block_reason="Writing is not allowed today.")

    async def unblock(event, ctx):
        return ToolCallDecision(block=False, params={"content": "smuggled"})

    model = crab.ScriptedModel(crab.calling("write", path="a.md", content="x"), "Then not.")
    plugins = [
        handlers("strict", before_tool_call=hookimpl(priority=5)(before_tool_call)),
        handlers("lenient", before_tool_call=unblock),
    ]
    async with open_host(model, plugins=plugins) as host:
        reply = await host.send(MAIN, "Write.")
    assert reply.text == "Then not."
    assert reply.messages[2]["isError"]
    assert reply.messages[2]["content"][0]["text"] == "Writing is not allowed today."
    assert not (home / "workspace/a.md").exists()


async def test_a_gate_of_tool_calls_that_fails_blocks_the_call(open_host, crab, handlers, home):
    async def before_tool_call(event, ctx):
        raise RuntimeError("a bug in the gate")

    model = crab.ScriptedModel(crab.calling("write", path="a.md", content="x"), "Then not.")
    async with open_host(model, plugins=[handlers(before_tool_call=before_tool_call)]) as host:
        reply = await host.send(MAIN, "Write.")
    assert reply.text == "Then not."
    assert "hook failed" in reply.messages[2]["content"][0]["text"]
    assert not (home / "workspace/a.md").exists()


async def test_arguments_of_a_plugin_are_laid_over_those_of_the_model(
    open_host, crab, handlers, home
):
    async def before_tool_call(event, ctx):
        return ToolCallDecision(params={"content": "changed"})

    model = crab.ScriptedModel(crab.calling("write", path="a.md", content="x"))
    async with open_host(model, plugins=[handlers(before_tool_call=before_tool_call)]) as host:
        await host.send(MAIN, "Write.")
    assert (home / "workspace/a.md").read_text() == "changed"


async def test_a_cancelled_reply_is_silent_and_stays_cancelled(open_host, crab, handlers, recorder):
    async def cancel(event, ctx):
        return MessageSendingDecision(cancel=True, cancel_reason="quiet hours")

    async def rewrite(event, ctx):
        return MessageSendingDecision(cancel=False, content="sent all the same")

    plugins = [
        handlers("quiet", message_sending=hookimpl(priority=5)(cancel)),
        handlers("loud", message_sending=rewrite),
        ("r", recorder),
    ]
    async with open_host(crab.ScriptedModel("Hello."), plugins=plugins) as host:
        reply = await host.send(MAIN, "hello")
    assert reply.silent
    assert "sent all the same" not in reply.text
    assert recorder.of("message_sent") == []


async def test_a_payload_can_be_cancelled_too(open_host, crab, handlers):
    async def reply_payload_sending(event, ctx):
        return ReplyPayloadDecision(cancel=True, reason="quiet hours")

    async with open_host(
        crab.ScriptedModel(), plugins=[handlers(reply_payload_sending=reply_payload_sending)]
    ) as host:
        assert (await host.send(MAIN, "hello")).silent


async def test_a_reply_is_delivered_as_plugins_leave_it(open_host, crab, handlers, recorder):
    async def reply_payload_sending(event, ctx):
        return ReplyPayloadDecision(payload={"text": event.payload["text"] + " Bye."})

    async def message_sending(event, ctx):
        return MessageSendingDecision(content=event.content.upper())

    plugin = handlers(reply_payload_sending=reply_payload_sending, message_sending=message_sending)
    async with open_host(crab.ScriptedModel("Hello."), plugins=[plugin, ("r", recorder)]) as host:
        reply = await host.send(MAIN, "hello")
    assert reply.text == "HELLO. BYE."
    assert recorder.of("message_sent")[0].content == "HELLO. BYE."


async def test_a_failing_hook_of_sending_never_keeps_the_reply_back(open_host, crab, handlers):
    async def message_sending(event, ctx):
        raise RuntimeError("a bug")

    async with open_host(
        crab.ScriptedModel("Hello."), plugins=[handlers(message_sending=message_sending)]
    ) as host:
        reply = await host.send(MAIN, "hello")
    assert (reply.text, reply.silent) == ("Hello.", False)


async def test_a_tool_result_is_kept_and_seen_as_plugins_leave_it(open_host, crab, handlers, home):
    def tool_result_persist(event, ctx):
        event.message["content"] = [{"type": "text", "text": "(removed)"}]
        return ToolResultReplacement(message=event.message)

    (home / "workspace").mkdir(parents=True)
    (home / "workspace/a.md").write_text("The safe opens with 4711.")
    model = crab.ScriptedModel(crab.calling("read", path="a.md"), "Done.")
    async with open_host(
        model, plugins=[handlers(tool_result_persist=tool_result_persist)]
    ) as host:
        await host.send(MAIN, "Read.")
        file = (await host.session(MAIN)).file
    assert "4711" not in file.read_text()
    assert model.requests[1].messages[2]["content"][0]["text"] == "(removed)"


async def test_a_message_can_be_replaced_before_it_is_written(open_host, crab, handlers):
    def before_message_write(event, ctx):
        text = event.message["content"][0]["text"]
        masked = {"type": "text", "text": text.replace("4711", "****")}
        return MessageWriteDecision(message={**event.message, "content": [masked]})

    model = crab.ScriptedModel("I keep 4711 to myself.")
    async with open_host(
        model, plugins=[handlers(before_message_write=before_message_write)]
    ) as host:
        await host.send(MAIN, "The safe opens with 4711.")
        file = (await host.session(MAIN)).file
    assert "4711" not in file.read_text()
    assert "4711" not in str(model.requests[0].messages)


async def test_a_blocked_message_is_not_written_and_a_blocked_result_is_paired_again(
    open_host, crab, handlers
):
    def before_message_write(event, ctx):
        return MessageWriteDecision(block=event.message["role"] == "toolResult")

    model = crab.ScriptedModel(crab.calling("read", path="a.md"), "Done.")
    async with open_host(
        model, plugins=[handlers(before_message_write=before_message_write)]
    ) as host:
        reply = await host.send(MAIN, "Read.")
        stored = crab.stored_messages((await host.session(MAIN)).file)
    assert reply.text == "Done."
    assert [message["role"] for message in stored] == ["user", "assistant", "assistant"]
    assert [m["role"] for m in model.requests[1].messages] == ["user", "assistant", "toolResult"]


async def test_a_claimed_message_is_answered_by_the_plugin_and_no_turn_runs(
    open_host, crab, handlers, recorder
):
    async def claim(event, ctx):
        return Claim(handled=True, reply=f"I take {event.content}")

    async def too_late(event, ctx):
        return Claim(handled=True, reply="never heard")

    model = crab.ScriptedModel()
    plugins = [
        ("r", recorder),
        handlers("first", inbound_claim=hookimpl(priority=5)(claim)),
        handlers("second", inbound_claim=too_late),
    ]
    async with open_host(model, plugins=plugins) as host:
        reply = await host.send(MAIN, "a parcel")
        stored = crab.stored_messages((await host.session(MAIN)).file)
    assert reply.text == "I take a parcel"
    assert model.requests == []
    assert stored == []
    assert "message_received" in recorder.names
    assert "message_sent" in recorder.names
    assert "agent_end" not in recorder.names


async def test_a_plugin_answers_in_place_of_the_model_and_both_are_kept(open_host, crab, handlers):
    async def before_agent_reply(event, ctx):
        return Claim(handled=True, reply="8080.") if "port" in event.cleaned_body else None

    model = crab.ScriptedModel("From the model.")
    async with open_host(model, plugins=[handlers(before_agent_reply=before_agent_reply)]) as host:
        assert (await host.send(MAIN, "Which port?")).text == "8080."
        assert (await host.send(MAIN, "Which host?")).text == "From the model."
    texts = [message["content"][0]["text"] for message in model.requests[0].messages]
    assert texts == ["Which port?", "8080.", "Which host?"]


async def test_a_hanging_handler_is_cut_at_its_timeout_and_named(open_host, crab, handlers, caplog):
    cancelled = []

    @hookimpl(timeout_ms=50)
    async def before_prompt_build(event, ctx):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(ctx.plugin_id)
            raise

    plugin = handlers("sleeper", before_prompt_build=before_prompt_build)
    async with open_host(crab.ScriptedModel("Hello."), plugins=[plugin]) as host:
        reply = await asyncio.wait_for(host.send(MAIN, "hello"), timeout=20)
    assert reply.text == "Hello."
    assert cancelled == ["sleeper"]
    (record,) = [each for each in caplog.records if "sleeper" in each.getMessage()]
    assert "before_prompt_build" in record.getMessage()
    assert record.plugin_id == "sleeper"
    assert record.session_key == MAIN


async def test_a_slow_synchronous_handler_is_named(open_host, crab, handlers, caplog):
    import time

    @hookimpl(timeout_ms=20)
    def before_prompt_build(event, ctx):
        time.sleep(0.1)

    plugin = handlers("slowcoach", before_prompt_build=before_prompt_build)
    async with open_host(crab.ScriptedModel("Hello."), plugins=[plugin]) as host:
        assert (await host.send(MAIN, "hello")).text == "Hello."
    named = [each for each in caplog.records if "slowcoach" in each.getMessage()]
    assert any("blocked the host" in each.getMessage() for each in named)


async def test_a_handler_that_never_ends_does_not_keep_the_host_from_closing(
    open_host, crab, handlers, caplog, monkeypatch
):
    from hermitcrab.hooks.dispatcher import HookDispatcher

    monkeypatch.setattr(HookDispatcher.close, "__defaults__", (0.05,))

    async def agent_end(event, ctx):
        await asyncio.Event().wait()

    async with open_host(
        crab.ScriptedModel(), plugins=[handlers("endless", agent_end=agent_end)]
    ) as host:
        await host.send(MAIN, "hello")
    assert "agent_end handler of plugin endless was still running" in caplog.text


async def test_failures_of_handlers_are_kept_for_other_processes(open_host, crab, handlers, home):
    from hermitcrab.plugins.health import read_health

    async def before_prompt_build(event, ctx):
        raise RuntimeError("a bug")

    plugin = handlers("crasher", before_prompt_build=before_prompt_build)
    async with open_host(crab.ScriptedModel("Hello."), plugins=[plugin]) as host:
        assert (await host.send(MAIN, "hello")).text == "Hello."
    (row,) = [each for each in read_health(home / "health.sqlite").hooks if each.failures]
    assert (row.plugin_id, row.hook, row.failures) == ("crasher", "before_prompt_build", 1)
    assert "a bug" in row.last_error
