"""A model that fails, a context that does not fit, a flush that fails: the session goes on (design 4, 6)."""

from __future__ import annotations

import pytest

from hermitcrab.errors import ModelOverflowError, ModelRequestError, ModelUnavailableError
from hermitcrab.messages import assistant, user

MAIN = "agent:main:main"


async def _fill(host, turns=12, size=400):
    """A conversation that is worth compacting; nothing of it is sent to a model."""
    session = await host.session(MAIN)
    for number in range(turns):
        await session.append(user(f"Step {number}: " + "we look at the harbour plan " * size))
        await session.append(assistant(f"Step {number} is noted."))
    await session.end_turn()
    return session


def _asked(messages, text):
    return sum(
        block.get("text") == text
        for message in messages
        if message["role"] == "user"
        for block in message["content"]
    )


async def test_a_failing_model_is_a_typed_error_and_the_next_turn_works(open_host, crab):
    model = crab.ScriptedModel(ModelUnavailableError("the server is down"), "Back again.")
    async with open_host(model) as host:
        with pytest.raises(ModelUnavailableError, match="the server is down"):
            await host.send(MAIN, "hello")
        reply = await host.send(MAIN, "hello?")
        stored = crab.stored_messages((await host.session(MAIN)).file)
    assert reply.text == "Back again."
    assert [message["role"] for message in stored] == ["user", "assistant", "user", "assistant"]
    assert stored[1]["stopReason"] == "error"
    assert stored[1]["errorMessage"] == "the server is down"
    assert "server is down" not in str(model.requests[-1].messages)


async def test_a_stream_raises_the_error_of_its_turn(open_host, crab):
    model = crab.ScriptedModel(
        crab.calling("read", path="a.md"), ModelUnavailableError("the server is down")
    )
    async with open_host(model) as host:
        with pytest.raises(ModelUnavailableError, match="the server is down"):
            _ = [event async for event in host.stream(MAIN, "hello")]
        assert (await host.send(MAIN, "hello?")).text == "ok"


async def test_a_model_that_raises_something_of_its_own_leaves_an_error_turn_too(open_host, crab):
    model = crab.ScriptedModel(RuntimeError("a bug in the model"), "Back again.")
    async with open_host(model) as host:
        with pytest.raises(RuntimeError, match="a bug in the model"):
            await host.send(MAIN, "hello")
        assert (await host.send(MAIN, "hello?")).text == "Back again."
        stored = crab.stored_messages((await host.session(MAIN)).file)
    assert stored[1]["errorMessage"] == "a bug in the model"


async def test_an_overflow_is_compacted_and_retried_with_the_users_message_once(open_host, crab):
    """C14: recovering from an overflow must not add the user's message again."""
    overflow = ModelOverflowError("prompt is too long")
    model = crab.ScriptedModel(overflow, "It fits now.", window=32_000)
    async with open_host(model) as host:
        session = await _fill(host, turns=6, size=200)
        reply = await host.send(MAIN, "Where were we?")
        stored = crab.stored_messages(session.file)
    assert reply.text == "It fits now."
    assert [outcome.status for outcome in reply.compactions] == ["compacted"]
    assert reply.compactions[0].trigger == "overflow"
    assert _asked(stored, "Where were we?") == 1
    assert _asked(model.requests[-1].messages, "Where were we?") == 1
    assert len(model.requests[-1].messages) < len(model.requests[0].messages)


async def test_a_provider_that_always_overflows_ends_in_a_typed_error_with_a_way_out(
    open_host, crab
):
    model = crab.ScriptedModel(*[ModelOverflowError("prompt is too long")] * 20)
    async with open_host(model) as host:
        await _fill(host, turns=6, size=200)
        with pytest.raises(ModelOverflowError):
            await host.send(MAIN, "Where were we?")
        assert len(model.requests) <= 4
        await host.reset(MAIN)
        model.script.clear()
        assert (await host.send(MAIN, "hello")).text == "ok"


async def test_a_context_that_does_not_fit_is_flushed_and_compacted_before_the_call(
    open_host, crab
):
    model = crab.ScriptedModel("Here.", window=16_000)
    async with open_host(model) as host:
        await _fill(host)
        reply = await host.send(MAIN, "Where were we?")
    assert reply.text == "Here."
    assert [outcome.status for outcome in reply.compactions] == ["compacted"]
    assert len(reply.flushes) == 1
    assert _asked(model.requests[0].messages, "Where were we?") == 1


async def test_a_failing_flush_never_costs_the_reply(open_host, crab):
    """C73"""
    model = crab.ScriptedModel("Here.", window=16_000)
    model.failing["flush"] = ModelUnavailableError("the server is down")
    async with open_host(model) as host:
        await _fill(host)
        reply = await host.send(MAIN, "Where were we?")
        status = await host.send(MAIN, "/status")
    assert reply.text == "Here."
    assert "the server is down" in reply.flushes[0].error
    assert reply.compactions[0].compacted
    assert "the server is down" in status.text


async def test_a_failing_summary_never_costs_the_reply(open_host, crab):
    model = crab.ScriptedModel("Here.", window=16_000)
    model.failing |= dict.fromkeys(("summarise", "merge"), ModelRequestError("refused"))
    async with open_host(model) as host:
        await _fill(host)
        reply = await host.send(MAIN, "Where were we?")
    assert reply.text == "Here."
    assert reply.compactions[0].mode == "deterministic"


async def test_the_history_limit_never_cuts_a_call_from_its_result(open_host, crab):
    """C44: a result without its call makes the provider refuse every later request."""
    answers = []
    for number in range(4):
        answers += [crab.calling("read", f"call_{number}", path="AGENTS.md"), f"answer {number}"]
    model = crab.ScriptedModel(*answers)
    async with open_host(model, config={"session": {"historyLimit": 2}}) as host:
        for number in range(4):
            await host.send(MAIN, f"question {number}")
        session = await host.session(MAIN)
        assert len(session.messages) == 16
    for request in model.requests:
        roles = [message["role"] for message in request.messages]
        assert roles[0] == "user"
        assert roles.count("user") <= 2
        assert roles.count("toolResult") == sum(
            block["type"] == "toolCall"
            for message in request.messages
            if message["role"] == "assistant"
            for block in message["content"]
        )
    assert _asked(model.requests[-1].messages, "question 2") == 1
    assert _asked(model.requests[-1].messages, "question 1") == 0


async def test_a_model_that_calls_tools_without_end_is_stopped(open_host, crab):
    model = crab.ScriptedModel(
        *(crab.calling("read", f"call_{n}", path="AGENTS.md") for n in range(9))
    )
    config = {"agents": {"defaults": {"maxToolRounds": 3}}}
    async with open_host(model, config=config) as host:
        reply = await host.send(MAIN, "Go on and on.")
    assert len(model.requests) == 3
    assert "3 rounds" in reply.text
