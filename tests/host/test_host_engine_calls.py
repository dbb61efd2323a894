"""When an engine is asked to begin, to take in a turn and to tidy up (context 1.4)."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab import hookimpl
from hermitcrab.context import (
    AssembleResult,
    BootstrapResult,
    ContextEngine,
    ContextEngineInfo,
    IngestBatchResult,
    IngestResult,
    MaintainResult,
    delegate_compaction,
)
from hermitcrab.errors import ModelUnavailableError
from hermitcrab.hooks import Claim, RunDecision
from hermitcrab.messages import assistant, user

MAIN = "agent:main:main"
SELECTED = {"plugins": {"slots": {"contextEngine": "diary"}}}


class Diary(ContextEngine):
    """Writes down what it is asked; ``calls`` is shared by all instances of a class."""

    info = ContextEngineInfo(id="diary", name="Diary")
    calls: list

    async def ingest(self, *, message, **_):
        self.calls.append(("ingest", message["role"]))
        return IngestResult(ingested=True)

    async def assemble(self, *, messages, **_):
        return AssembleResult(messages)

    async def compact(self, **params):
        return await delegate_compaction(**params)


class Tidy(Diary):
    async def bootstrap(self, **_):
        self.calls.append(("bootstrap", None))
        return BootstrapResult(bootstrapped=True)

    async def maintain(self, *, runtime_context, **_):
        self.calls.append(("maintain", runtime_context["reason"]))
        return MaintainResult()

    async def after_turn(self, *, messages, pre_prompt_message_count, **_):
        new = messages[pre_prompt_message_count:]
        self.calls.append(("after_turn", [message["role"] for message in new]))


@pytest.fixture
def select(crab):
    """The plugin of an engine class, and the list of what its engines are asked."""

    def make(engine_class, *more):
        engine_class = type(engine_class.__name__, (engine_class,), {"calls": []})

        @hookimpl
        def register_context_engines(registry):
            registry.register("diary", engine_class)

        return engine_class.calls, [("diary", crab.plugin(register_context_engines, *more))]

    return make


async def test_an_engine_begins_with_a_session_that_exists_and_takes_in_each_turn(
    open_host, crab, select
):
    calls, plugins = select(Tidy)
    for _ in range(2):
        async with open_host(crab.ScriptedModel(), config=SELECTED, plugins=plugins) as host:
            await host.send(MAIN, "hello")
    turn = [("after_turn", ["user", "assistant"]), ("maintain", "turn")]
    assert calls == [*turn, ("bootstrap", None), ("maintain", "bootstrap"), *turn]


async def test_a_turn_in_which_the_context_was_compacted_is_taken_in_whole(open_host, crab, select):
    calls, plugins = select(Tidy)
    model = crab.ScriptedModel(window=16_000)
    async with open_host(model, config=SELECTED, plugins=plugins) as host:
        session = await host.session(MAIN)
        for number in range(12):
            await session.append(user(f"Step {number}: " + "we look at the plan " * 500))
            await session.append(assistant("Noted."))
        await session.end_turn()
        calls.clear()
        reply = await host.send(MAIN, "Go on.")
    assert reply.compactions[0].compacted
    assert calls == [
        ("maintain", "compaction"),
        ("after_turn", ["user", "assistant"]),
        ("maintain", "turn"),
    ]


async def test_a_failed_turn_is_taken_in_and_not_tidied_up(open_host, crab, select):
    calls, plugins = select(Tidy)
    model = crab.ScriptedModel(ModelUnavailableError("down"))
    async with open_host(model, config=SELECTED, plugins=plugins) as host:
        with pytest.raises(ModelUnavailableError):
            await host.send(MAIN, "hello")
    assert calls == [("after_turn", ["user", "assistant"])]


async def test_an_engine_that_takes_batches_gets_the_turn_at_once(open_host, crab, select):
    class Batches(Diary):
        async def ingest_batch(self, *, messages, **_):
            self.calls.append(("ingest_batch", [message["role"] for message in messages]))
            return IngestBatchResult(ingested_count=len(messages))

    calls, plugins = select(Batches)
    async with open_host(crab.ScriptedModel(), config=SELECTED, plugins=plugins) as host:
        await host.send(MAIN, "hello")
    assert calls == [("ingest_batch", ["user", "assistant"])]


async def test_what_a_plugin_answered_or_refused_is_taken_in_too(open_host, crab, select):
    @hookimpl
    async def before_agent_reply(event, ctx):
        return Claim(handled=True, reply="8080.") if "port" in event.cleaned_body else None

    @hookimpl
    async def before_agent_run(event, ctx):
        if "4711" in event.prompt:
            return RunDecision(outcome="block", reason="no")
        return RunDecision()

    calls, plugins = select(Diary, before_agent_reply, before_agent_run)
    async with open_host(crab.ScriptedModel(), config=SELECTED, plugins=plugins) as host:
        await host.send(MAIN, "Which port?")
        await host.send(MAIN, "The safe opens with 4711.")
    assert calls == [("ingest", "user"), ("ingest", "assistant"), ("ingest", "user")]


async def test_maintenance_in_the_background_does_not_hold_up_the_reply(open_host, crab, select):
    class Slow(Diary):
        info = ContextEngineInfo(id="diary", name="Slow", turn_maintenance_mode="background")
        gate = asyncio.Event()

        async def maintain(self, *, runtime_context, **_):
            await self.gate.wait()
            self.calls.append(("maintain", runtime_context["reason"]))
            return MaintainResult()

    calls, plugins = select(Slow)
    async with open_host(crab.ScriptedModel(), config=SELECTED, plugins=plugins) as host:
        await asyncio.wait_for(host.send(MAIN, "hello"), timeout=20)
        assert ("maintain", "turn") not in calls
        Slow.gate.set()
    assert calls[-1] == ("maintain", "turn")
