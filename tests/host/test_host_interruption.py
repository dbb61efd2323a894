"""What is left of a turn that is cancelled, abandoned or cut off by the end of the host."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab.models import TextDelta

MAIN = "agent:main:main"


async def _file(host):
    return (await host.session(MAIN)).file


async def test_leaving_a_stream_early_keeps_the_turn_as_aborted_and_cancels_the_model(
    open_host, crab
):
    model = crab.HangingModel()
    async with open_host(model) as host:
        async for event in host.stream(MAIN, "Tell me a story."):
            assert event == TextDelta("Well,")
            break
        model.hangs = False
        reply = await host.send(MAIN, "Never mind.")
        stored = crab.stored_messages(await _file(host))
    assert model.cancelled
    assert reply.text == "ok"
    assert [message["role"] for message in stored] == ["user", "assistant", "user", "assistant"]
    assert stored[1]["stopReason"] == "aborted"
    assert stored[1]["content"] == [{"type": "text", "text": "Well,"}]


async def test_leaving_a_stream_and_closing_the_host_at_once_keeps_the_turn_too(open_host, crab):
    model = crab.HangingModel()
    async with open_host(model) as host:
        file = await _file(host)
        async for _ in host.stream(MAIN, "Tell me a story."):
            break
    assert model.cancelled
    assert [message.get("stopReason") for message in crab.stored_messages(file)] == [
        None,
        "aborted",
    ]


async def test_a_cancelled_send_keeps_the_turn_as_aborted(open_host, crab):
    model = crab.HangingModel()
    async with open_host(model) as host:
        turn = asyncio.create_task(host.send(MAIN, "Tell me a story."))
        await asyncio.wait_for(model.started.wait(), timeout=20)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        stored = crab.stored_messages(await _file(host))
    assert model.cancelled
    assert stored[-1]["stopReason"] == "aborted"


async def test_a_send_that_waits_for_its_turn_can_be_cancelled_without_a_trace(open_host, crab):
    model = crab.HangingModel()
    async with open_host(model) as host:
        first = asyncio.create_task(host.send(MAIN, "first"))
        await asyncio.wait_for(model.started.wait(), timeout=20)
        second = asyncio.create_task(host.send(MAIN, "second"))
        await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        stored = crab.stored_messages(await _file(host))
    assert [message["content"][0]["text"] for message in stored] == ["first", "Well,"]


async def test_a_turn_that_still_runs_when_the_host_closes_is_ended_and_kept(open_host, crab):
    model = crab.HangingModel()
    async with open_host(model) as host:
        file = await _file(host)
        turn = asyncio.create_task(host.send(MAIN, "Tell me a story."))
        await asyncio.wait_for(model.started.wait(), timeout=20)
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert model.cancelled
    assert crab.stored_messages(file)[-1]["stopReason"] == "aborted"


async def test_a_cancelled_tool_leaves_a_call_that_the_next_turn_can_live_with(open_host, crab):
    from hermitcrab import hookimpl
    from hermitcrab.agent import Tool
    from hermitcrab.models import ToolSchema

    begun = asyncio.Event()

    async def wait(arguments, context):
        begun.set()
        await asyncio.Event().wait()

    @hookimpl
    def register_tools(registry):
        registry.register("wait", Tool(ToolSchema("wait", "Wait.", {"type": "object"}), wait))

    model = crab.ScriptedModel(crab.calling("wait"), "Here I am.")
    async with open_host(model, plugins=[("waiter", crab.plugin(register_tools))]) as host:
        turn = asyncio.create_task(host.send(MAIN, "Wait."))
        await asyncio.wait_for(begun.wait(), timeout=20)
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        reply = await host.send(MAIN, "Still there?")
    assert reply.text == "Here I am."
    roles = [message["role"] for message in model.requests[-1].messages]
    assert roles == ["user", "assistant", "toolResult", "user"]


async def test_cancelling_who_reads_a_stream_cancels_the_turn(open_host, crab):
    model = crab.HangingModel()
    async with open_host(model) as host:

        async def read():
            async for _ in host.stream(MAIN, "Tell me a story."):
                pass

        reader = asyncio.create_task(read())
        await asyncio.wait_for(model.started.wait(), timeout=20)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert model.cancelled
        stored = crab.stored_messages(await _file(host))
    assert stored[-1]["stopReason"] == "aborted"
