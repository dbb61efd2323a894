"""Engines of every kind under the host: the turn is answered, and compaction happens one way or the other."""

from __future__ import annotations

import logging

import pytest

from hermitcrab import hookimpl
from hermitcrab.context import (
    AssembleResult,
    CompactionDetails,
    CompactResult,
    ContextEngine,
    ContextEngineInfo,
    IngestResult,
    delegate_compaction,
)
from hermitcrab.errors import ModelOverflowError
from hermitcrab.messages import assistant, user

MAIN = "agent:main:main"
SELECTED = {"plugins": {"slots": {"contextEngine": "spy"}}}


class Spy(ContextEngine):
    """Passes messages through and remembers how it was called."""

    info = ContextEngineInfo(id="spy", name="Spy")

    def __init__(self) -> None:
        self.calls = []

    async def ingest(self, **params):
        self.calls.append(("ingest", params))
        return IngestResult(ingested=True)

    async def assemble(self, *, messages, **params):
        self.calls.append(("assemble", {"messages": messages, **params}))
        return AssembleResult(messages)

    async def compact(self, **params):
        self.calls.append(("compact", params))
        return CompactResult(ok=True, compacted=False)

    def named(self, method):
        return [params for name, params in self.calls if name == method]


@pytest.fixture
def engine_plugin(crab):
    """A plugin that registers engines made by ``factory`` under ``spy``; ``made`` lists them."""

    def make(factory):
        made = []

        @hookimpl
        def register_context_engines(registry):
            def remembered():
                made.append(factory())
                return made[-1]

            registry.register("spy", remembered)

        return made, [("spy", crab.plugin(register_context_engines))]

    return make


async def _fill(host, key=MAIN):
    session = await host.session(key)
    for number in range(12):
        await session.append(user(f"Step {number}: " + "we look at the harbour plan " * 400))
        await session.append(assistant(f"Step {number} is noted."))
    await session.end_turn()


async def test_an_engine_is_told_what_the_contract_promises(open_host, crab, engine_plugin):
    made, plugins = engine_plugin(Spy)
    model = crab.ScriptedModel(crab.calling("read", path="a.md"), "Done.")
    async with open_host(model, config=SELECTED, plugins=plugins) as host:
        reply = await host.send(MAIN, "Read.")
    assert reply.engine == "spy"
    (engine,) = made
    first, second = engine.named("assemble")
    assert first["session_key"] == MAIN
    assert first["session_id"] == reply.session_id
    assert first["prompt"] == "Read."
    assert first["model"] == "scripted/model"
    assert 0 < first["token_budget"] < 32_000
    assert {"read", "write", "memory_search"} <= set(first["available_tools"])
    assert [message["role"] for message in first["messages"]] == ["user"]
    assert [m["role"] for m in second["messages"]] == ["user", "assistant", "toolResult"]
    ingested = [params["message"]["role"] for params in engine.named("ingest")]
    assert ingested == ["user", "assistant", "toolResult", "assistant"]


async def test_each_session_has_an_engine_of_its_own_which_is_disposed(
    open_host, crab, engine_plugin
):
    class Disposable(Spy):
        async def dispose(self):
            self.calls.append(("dispose", {}))

    made, plugins = engine_plugin(Disposable)
    async with open_host(crab.ScriptedModel(), config=SELECTED, plugins=plugins) as host:
        await host.send("agent:main:one", "hello")
        await host.send("agent:main:two", "hello")
        await host.send("agent:main:one", "hello")
        assert len(made) == 2
    assert [len(engine.named("dispose")) for engine in made] == [1, 1]


async def test_the_host_compacts_for_an_engine_that_does_not_own_it_and_does_nothing(
    open_host, crab, engine_plugin
):
    """C34"""
    made, plugins = engine_plugin(Spy)
    model = crab.ScriptedModel("Here.", window=16_000)
    async with open_host(model, config=SELECTED, plugins=plugins) as host:
        await _fill(host)
        reply = await host.send(MAIN, "Where were we?")
    assert reply.text == "Here."
    assert [outcome.status for outcome in reply.compactions] == ["compacted"]
    assert len(made[0].named("compact")) == 1
    assert reply.engine == "spy"


async def test_an_overflow_is_compacted_by_the_host_even_if_our_count_says_that_it_fits(
    open_host, crab, engine_plugin
):
    """C34, where only the provider knows that the context is too large."""
    _, plugins = engine_plugin(Spy)
    model = crab.ScriptedModel(ModelOverflowError("prompt is too long"), "Here.", window=64_000)
    async with open_host(model, config=SELECTED, plugins=plugins) as host:
        await _fill(host)
        reply = await host.send(MAIN, "Where were we?")
    assert reply.text == "Here."
    assert [outcome.trigger for outcome in reply.compactions] == ["overflow"]
    assert reply.compactions[0].compacted


async def test_the_host_leaves_compaction_to_an_engine_that_owns_it(
    open_host, crab, engine_plugin, recorder_of_compactions
):
    class Owner(Spy):
        info = ContextEngineInfo(id="spy", name="Owner", owns_compaction=True)

        def __init__(self):
            super().__init__()
            self.shown = None

        async def assemble(self, *, messages, **params):
            return AssembleResult(messages if self.shown is None else messages[-self.shown :])

        async def compact(self, **params):
            self.calls.append(("compact", params))
            self.shown = 1
            details = CompactionDetails(tokens_before=30_000, tokens_after=20, summary="short")
            return CompactResult(ok=True, compacted=True, result=details)

    made, plugins = engine_plugin(Owner)
    events, observer = recorder_of_compactions
    model = crab.ScriptedModel("Here.", window=16_000)
    async with open_host(model, config=SELECTED, plugins=[*plugins, observer]) as host:
        await _fill(host)
        reply = await host.send(MAIN, "Where were we?")
        stored = crab.entries_of((await host.session(MAIN)).file)
    assert reply.text == "Here."
    assert len(made[0].named("compact")) == 1
    assert [message["role"] for message in model.requests[-1].messages] == ["user"]
    assert [entry for entry in stored if entry["type"] == "compaction"] == []
    assert [name for name, _ in events] == ["before_compaction", "after_compaction"]
    assert events[0][1].message_count == -1


@pytest.fixture
def recorder_of_compactions(crab):
    events = []

    @hookimpl
    async def before_compaction(event, ctx):
        events.append(("before_compaction", event))

    @hookimpl
    async def after_compaction(event, ctx):
        events.append(("after_compaction", event))

    return events, ("observer", crab.plugin(before_compaction, after_compaction))


async def test_an_engine_delegates_a_compaction_that_the_user_asks_for(
    open_host, crab, engine_plugin
):
    class Delegating(Spy):
        async def compact(self, **params):
            self.calls.append(("compact", params))
            return await delegate_compaction(**params)

    made, plugins = engine_plugin(Delegating)
    async with open_host(
        crab.ScriptedModel(window=16_000), config=SELECTED, plugins=plugins
    ) as host:
        await _fill(host)
        outcome = await host.compact(MAIN, instructions="Dwell on the harbour.")
    assert outcome.compacted
    (params,) = made[0].named("compact")
    assert params["force"] is True
    assert params["compaction_target"] == "threshold"
    assert params["custom_instructions"] == "Dwell on the harbour."


@pytest.mark.parametrize("method", ["assemble", "compact", "ingest"])
async def test_an_engine_that_fails_anywhere_never_costs_the_reply(
    open_host, crab, engine_plugin, method
):
    async def fail(self, **params):
        raise RuntimeError("the index is gone")

    broken = type("Broken", (Spy,), {method: fail})
    _, plugins = engine_plugin(broken)
    model = crab.ScriptedModel(window=16_000)
    async with open_host(model, config=SELECTED, plugins=plugins) as host:
        await _fill(host)
        assert (await host.send(MAIN, "Where were we?")).text == "ok"
        reply = await host.send(MAIN, "And now?")
        status = (await host.send(MAIN, "/status")).text
    assert reply.text == "ok"
    assert reply.engine == "legacy"
    (reason,) = reply.degraded
    assert f"failed in {method}: the index is gone" in reason
    assert "Engine: legacy: context engine 'spy'" in status


async def test_an_engine_whose_own_id_differs_works_under_the_registered_one(
    open_host, crab, engine_plugin, caplog
):
    """C97"""

    class Renamed(Spy):
        info = ContextEngineInfo(id="spy-2", name="Renamed")

    _, plugins = engine_plugin(Renamed)
    async with open_host(crab.ScriptedModel(), config=SELECTED, plugins=plugins) as host:
        reply = await host.send(MAIN, "hello")
    assert (reply.engine, reply.degraded) == ("spy", ())
    assert "'spy' calls itself 'spy-2'" in caplog.text


async def test_safe_mode_starts_without_third_parties_and_says_so(open_host, crab, engine_plugin):
    made, plugins = engine_plugin(Spy)
    for options in ({"safe_mode": True}, {"environ": {"HERMITCRAB_PLUGINS": ""}}):
        async with open_host(
            crab.ScriptedModel(), config=SELECTED, plugins=plugins, **options
        ) as host:
            reply = await host.send(MAIN, "hello")
        assert (reply.text, reply.engine) == ("ok", "legacy")
        assert "spy" in reply.degraded[0]
    assert made == []


async def test_records_of_the_agent_name_the_session_and_the_plugin(
    open_host, crab, engine_plugin, caplog
):
    from hermitcrab.hooks import MessageWriteDecision

    @hookimpl
    def before_message_write(event, ctx):
        return MessageWriteDecision(block=event.message["role"] == "toolResult")

    @hookimpl
    async def before_tool_call(event, ctx):
        raise RuntimeError("a bug in the gate")

    class Failing(Spy):
        async def compact(self, **params):
            raise RuntimeError("the index is gone")

    _, plugins = engine_plugin(Failing)
    guard = ("guard", crab.plugin(before_message_write, before_tool_call))
    model = crab.ScriptedModel(crab.calling("read", path="a.md"), "Done.")
    caplog.set_level(logging.WARNING)
    async with open_host(model, config=SELECTED, plugins=[*plugins, guard]) as host:
        await host.send(MAIN, "Read.")
        await host.compact(MAIN)
    records = [each for each in caplog.records if each.name == "hermitcrab.agent"]
    assert len(records) == 3
    assert {record.session_key for record in records} == {MAIN}
    plugins_named = {getattr(record, "plugin_id", None) for record in records}
    assert plugins_named == {"guard", "spy"}
