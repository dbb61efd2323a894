"""Input that is too large, malformed or hostile: the turn answers, and the session is never stuck."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress

import pytest

from hermitcrab import hookimpl
from hermitcrab.agent import Tool
from hermitcrab.errors import CompactionError, SessionKeyError, SessionLockedError
from hermitcrab.hooks import MessageWriteDecision, ModelChoice
from hermitcrab.messages import assistant, user
from hermitcrab.models import TextDelta, ToolSchema
from hermitcrab.sessions.locks import exclusive

MAIN = "agent:main:main"


async def test_a_message_larger_than_the_window_is_cut_in_the_view_alone(open_host, crab):
    """C48"""
    model = crab.ScriptedModel("That was long.", "Yes.", window=16_000)
    text = "BEGIN " + "we look at the harbour plan " * 20_000 + " END"
    async with open_host(model) as host:
        reply = await host.send(MAIN, text)
        assert (await host.send(MAIN, "Still there?")).text == "Yes."
        stored = crab.stored_messages((await host.session(MAIN)).file)
    assert reply.text == "That was long."
    (shown,) = [m for m in model.requests[0].messages if m["role"] == "user"]
    shown_text = shown["content"][0]["text"]
    assert shown_text.startswith("BEGIN ")
    assert shown_text.endswith(" END")
    assert len(shown_text) < 100_000
    assert stored[0]["content"][0]["text"] == text


async def test_a_huge_tool_result_is_cut_in_the_view_alone(open_host, crab):
    """C93"""

    async def dump(arguments, context):
        return "BEGIN " + "we look at the harbour plan " * 70_000 + " END"

    @hookimpl
    def register_tools(registry):
        registry.register("dump", Tool(ToolSchema("dump", "Dump.", {"type": "object"}), dump))

    calls = [crab.calling("dump", f"call_{number}") for number in range(4)]
    model = crab.ScriptedModel(*calls, "That was much.", window=16_000)
    plugins = [("dumper", crab.plugin(register_tools))]
    async with open_host(model, plugins=plugins) as host:
        reply = await host.send(MAIN, "Dump.")
    assert reply.text == "That was much."
    for request in model.requests:
        assert len(json.dumps([dict(message) for message in request.messages])) < 64_000


async def test_a_system_prompt_that_leaves_no_room_is_a_typed_error_with_a_way_out(open_host, crab):
    config = {"agents": {"defaults": {"systemPrompt": "word " * 20_000}}}
    async with open_host(crab.ScriptedModel(window=8_000), config=config) as host:
        with pytest.raises(CompactionError, match="Shorten"):
            await host.send(MAIN, "hello")
        assert "/compact" in (await host.send(MAIN, "/help")).text


async def test_a_lone_surrogate_does_not_brick_the_session(open_host, crab):
    """C57"""
    bad = "half a crab \ud83d here"
    answers = [
        crab.calling("write", path="a.md", content=bad),
        {"role": "assistant", "content": [{"type": "text", "text": bad}], "stopReason": "stop"},
        "fine",
    ]
    async with open_host(crab.ScriptedModel(*answers)) as host:
        await host.send(MAIN, bad)
        file = (await host.session(MAIN)).file
    file.read_text(encoding="utf-8")
    async with open_host(crab.ScriptedModel("fine")) as host:
        assert (await host.send(MAIN, "hello")).text == "fine"


@pytest.mark.parametrize(
    "content",
    [
        None,
        "plain text",
        [],
        [{"type": "mystery", "data": 1}],
        [{"type": "toolCall", "id": "a", "name": "read", "arguments": "not a mapping"}],
        [{"type": "toolCall", "id": "a", "name": "read", "arguments": {}}] * 2,
        [{"type": "toolCall", "id": "", "name": "", "arguments": {}}],
    ],
)
async def test_a_malformed_answer_does_not_end_the_session(open_host, crab, content):
    odd = {"role": "assistant", "content": content, "stopReason": "stop"}
    model = crab.ScriptedModel(odd)
    async with open_host(model, config={"agents": {"defaults": {"maxToolRounds": 4}}}) as host:
        await host.send(MAIN, "hello")
        model.script.clear()
        assert (await host.send(MAIN, "hello?")).text == "ok"


@pytest.mark.parametrize("key", ["agent:../../up:main", "agent:a/b:main", "agent:", "agent:main:"])
async def test_a_key_can_never_lead_out_of_the_home(open_host, crab, home, tmp_path, key):
    async with open_host(crab.ScriptedModel()) as host:
        with suppress(SessionKeyError):
            await host.send(key, "hello")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert sorted(path.name for path in (home / "agents").iterdir()) == ["main"]


async def test_a_blocked_user_message_is_not_answered(open_host, crab):
    @hookimpl
    def before_message_write(event, ctx):
        return MessageWriteDecision(block="4711" in str(event.message["content"]))

    model = crab.ScriptedModel()
    plugins = [("guard", crab.plugin(before_message_write))]
    async with open_host(model, plugins=plugins) as host:
        reply = await host.send(MAIN, "The safe opens with 4711.")
        assert (await host.send(MAIN, "hello")).text == "ok"
    assert reply.silent
    assert len(model.requests) == 1
    assert "4711" not in str(model.requests)


async def test_the_tools_of_a_blocked_answer_do_not_run(open_host, crab, home):
    @hookimpl
    def before_message_write(event, ctx):
        return MessageWriteDecision(block=event.message["role"] == "assistant")

    model = crab.ScriptedModel(crab.calling("write", path="a.md", content="x"))
    plugins = [("guard", crab.plugin(before_message_write))]
    async with open_host(model, plugins=plugins) as host:
        await host.send(MAIN, "Write.")
    assert len(model.requests) == 1
    assert not (home / "workspace/a.md").exists()


async def test_a_plugin_that_asks_for_a_model_that_is_not_there_does_not_end_the_turn(
    open_host, crab, caplog
):
    @hookimpl
    async def before_model_resolve(event, ctx):
        return ModelChoice(provider_override="nobody", model_override="large")

    plugins = [("chooser", crab.plugin(before_model_resolve))]
    async with open_host(config={}, plugins=plugins) as host:
        reply = await host.send(MAIN, "hello")
    assert "offline model" in reply.text
    assert "nobody/large" in caplog.text


async def test_a_silent_reply_says_nothing_in_a_stream_either(open_host, crab):
    async with open_host(crab.ScriptedModel("NO_REPLY", "NOW is the time.")) as host:
        events = [event async for event in host.stream(MAIN, "hello")]
        assert [type(event).__name__ for event in events] == ["Reply"]
        assert events[0].silent
        assert events[0].text == ""
        events = [event async for event in host.stream(MAIN, "hello")]
    said = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert said == "NOW is the time."


async def test_an_own_loop_gets_the_system_prompt_of_each_turn(open_host, crab, home):
    async with open_host(crab.ScriptedModel()) as host:
        session = await host.session(MAIN)
        for text in ("Answer in rhymes.", "Answer in prose."):
            (home / "workspace" / "AGENTS.md").write_text(text)
            await session.append(user("hello"))
            assert text in (await session.assemble()).system
            await session.append(assistant("hi"))
            await session.end_turn()


async def test_two_hosts_on_one_home_share_the_conversation(open_host, crab):
    one, two = crab.ScriptedModel("from one", "again"), crab.ScriptedModel("from two")
    async with open_host(one) as first, open_host(two) as second:
        await first.send(MAIN, "a")
        await second.send(MAIN, "b")
        await first.send(MAIN, "c")
    texts = [message["content"][0]["text"] for message in one.requests[-1].messages]
    assert texts == ["a", "from one", "b", "from two", "c"]


async def test_no_lock_is_held_while_the_model_thinks(open_host, crab):
    """C23: another host on the same home must be able to go on in the meantime."""
    thinking, done = asyncio.Event(), asyncio.Event()

    async def think(request):
        thinking.set()
        await asyncio.wait_for(done.wait(), timeout=20)
        return "slow answer"

    async with (
        open_host(crab.ScriptedModel(think)) as slow,
        open_host(crab.ScriptedModel("quick answer")) as quick,
    ):
        turn = asyncio.create_task(slow.send(MAIN, "a"))
        await asyncio.wait_for(thinking.wait(), timeout=20)
        reply = await asyncio.wait_for(quick.send(MAIN, "b"), timeout=20)
        done.set()
        await turn
        stored = crab.stored_messages((await slow.session(MAIN)).file)
    assert reply.text == "quick answer"
    texts = [message["content"][0]["text"] for message in stored]
    assert texts == ["a", "b", "quick answer", "slow answer"]


async def test_who_waits_too_long_for_a_transcript_is_told_who_holds_it(open_host, crab):
    """C23"""
    config = {"session": {"lockTimeoutMs": 100}}
    async with open_host(crab.ScriptedModel(), config=config) as host:
        await host.send(MAIN, "hello")
        file = (await host.session(MAIN)).file
        lock = file.with_name(f"{file.name}.lock")
        with exclusive(lock, purpose="a backup", timeout_ms=1_000):
            with pytest.raises(SessionLockedError, match=rf"{os.getpid()}.*a backup") as caught:
                await host.send(MAIN, "hello?")
            assert file.name in str(caught.value)
        assert (await host.send(MAIN, "hello!")).text == "ok"
