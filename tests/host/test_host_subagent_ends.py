"""Subagents that may not start, or end before their time; and what engines and plugins hear of them."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab import hookimpl
from hermitcrab.context import (
    AssembleResult,
    ContextEngine,
    ContextEngineInfo,
    IngestResult,
    SubagentPreparation,
    delegate_compaction,
)
from hermitcrab.errors import (
    SessionStateError,
    SpawnRefusedError,
    TranscriptError,
)
from hermitcrab.hooks import SubagentDelivery, SubagentSpawnDecision
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.keys import subagent_depth

MAIN = "agent:main:main"


def settings(**subagents):
    return {"agents": {"defaults": {"subagents": subagents}}}


# -- limits


async def test_a_subagent_starts_none_of_its_own_unless_config_says_so(open_host, crab):
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        child = await host.spawn(MAIN, "one")
        with pytest.raises(SpawnRefusedError, match="maxSpawnDepth"):
            await host.spawn(child.session_key, "two")
        await host.send(MAIN, "hello")
    tools = [[tool.name for tool in request.tools] for request in model.requests]
    assert "spawn_agent" not in tools[0]
    assert "spawn_agent" in tools[1]


async def test_subagents_of_subagents_have_the_whole_chain_in_their_key(open_host, crab):
    async with open_host(crab.ScriptedModel(), config=settings(maxSpawnDepth=2)) as host:
        child = await host.spawn(MAIN, "one")
        grandchild = await host.spawn(child.session_key, "two")
        entry = (await host.open_session(grandchild.session_key)).log.entry
    assert grandchild.session_key.startswith(f"{child.session_key}:subagent:")
    assert subagent_depth(grandchild.session_key) == entry.spawn_depth == 2


async def test_depth_0_is_no_subagents_at_all(open_host, crab):
    model = crab.ScriptedModel()
    async with open_host(model, config=settings(maxSpawnDepth=0)) as host:
        await host.send(MAIN, "hello")
        with pytest.raises(SpawnRefusedError):
            await host.spawn(MAIN, "one")
    assert "spawn_agent" not in [tool.name for tool in model.requests[0].tools]


async def test_more_children_than_allowed_are_refused_at_the_same_moment(open_host, crab, hanging):
    hanging = [hanging, type(hanging)()]
    model = crab.ScriptedModel(*hanging)
    async with open_host(model, config=settings(maxChildrenPerAgent=2)) as host:
        spawns = [asyncio.create_task(host.spawn(MAIN, f"task {n}")) for n in range(3)]
        for each in hanging:
            await each.asked()
        done, _ = await asyncio.wait(spawns, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        (refused,) = done
        assert isinstance(refused.exception(), SpawnRefusedError)
        for spawn in spawns:
            spawn.cancel()
        await asyncio.gather(*spawns, return_exceptions=True)
        assert (await host.spawn(MAIN, "there is room again")).outcome == "ok"


async def test_another_agent_works_only_where_config_allows_it(open_host, crab):
    config = settings(allowAgents=["surveyor"])
    config["agents"]["list"] = [{"id": "main", "default": True}, {"id": "surveyor"}]
    async with open_host(crab.ScriptedModel(), config=config) as host:
        result = await host.spawn(MAIN, "Measure.", agent_id="surveyor")
        with pytest.raises(SpawnRefusedError, match="may not work for"):
            await host.spawn(MAIN, "Measure.", agent_id="stranger")
        assert [entry.key for entry in await (await host.agent("surveyor")).sessions.list()] == [
            result.session_key
        ]
    assert result.session_key.startswith("agent:surveyor:subagent:")


async def test_a_task_without_words_is_refused(open_host, crab):
    async with open_host(crab.ScriptedModel()) as host:
        with pytest.raises(SpawnRefusedError, match="needs a task"):
            await host.spawn(MAIN, "  ")


# -- the end before its time


async def test_a_subagent_that_takes_too_long_is_ended_and_its_parent_hears_of_it(
    open_host, crab, ended, hanging
):
    outcomes, plugins = ended
    async with open_host(crab.ScriptedModel(hanging), plugins=plugins) as host:
        result = await host.spawn(MAIN, "Measure.", timeout_s=0.05)
        child = await host.open_session(result.session_key)
        assert child.log.entry.status == "timeout"
        assert child.activity.state == "idle"
        assert "timeout" in text_of((await host.session(MAIN)).messages[-1])
    assert result.outcome == "timeout"
    assert [outcome for outcome, *_ in outcomes] == ["timeout"]


async def test_config_limits_the_time_of_subagents(open_host, crab, hanging):
    config = settings(runTimeoutSeconds=0.05)
    async with open_host(crab.ScriptedModel(hanging), config=config) as host:
        assert (await host.spawn(MAIN, "Measure.")).outcome == "timeout"


async def test_cancelling_the_parents_turn_ends_its_subagent(open_host, crab, ended, hanging):
    outcomes, plugins = ended
    model = crab.ScriptedModel(crab.calling("spawn_agent", task="Measure."), hanging)
    async with open_host(model, plugins=plugins) as host:
        turn = asyncio.create_task(host.send(MAIN, "How deep?"))
        await hanging.asked()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        ((outcome, reason, key, requester),) = outcomes
        child = await host.open_session(key)
        assert child.log.entry.status == "killed"
        assert child.log.entry.aborted_last_run is True
        # The parent can go on, and no result of the one that was ended turns up in it.
        assert (await host.send(MAIN, "Never mind.")).text == "ok"
        assert "Result of" not in str((await host.session(MAIN)).messages)
    assert (outcome, reason, requester) == ("killed", "released", MAIN)


async def test_cancelling_reaches_subagents_of_subagents(open_host, crab, ended, hanging):
    outcomes, plugins = ended
    model = crab.ScriptedModel(
        crab.calling("spawn_agent", task="one"), crab.calling("spawn_agent", task="two"), hanging
    )
    async with open_host(model, config=settings(maxSpawnDepth=2), plugins=plugins) as host:
        turn = asyncio.create_task(host.send(MAIN, "Go."))
        await hanging.asked()
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
    assert [(outcome, subagent_depth(key)) for outcome, _, key, _ in outcomes] == [
        ("killed", 2),
        ("killed", 1),
    ]


async def test_a_reset_of_the_parent_ends_its_subagents_and_their_results_stay_out(
    open_host, crab, ended, hanging
):
    outcomes, plugins = ended
    async with open_host(crab.ScriptedModel(hanging), plugins=plugins) as host:
        spawn = asyncio.create_task(host.spawn(MAIN, "Measure."))
        await hanging.asked()
        await host.send(MAIN, "/new")
        result = await asyncio.wait_for(spawn, timeout=20)
        messages = (await host.session(MAIN)).messages
    assert result.outcome == "reset"
    assert outcomes == [("reset", "released", result.session_key, MAIN)]
    assert messages == []


async def test_the_end_of_the_host_ends_subagents(open_host, crab, ended, hanging):
    outcomes, plugins = ended
    async with open_host(crab.ScriptedModel(hanging), plugins=plugins) as host:
        spawn = asyncio.create_task(host.spawn(MAIN, "Measure."))
        await hanging.asked()
    assert (await asyncio.wait_for(spawn, timeout=20)).outcome == "killed"
    assert [outcome for outcome, *_ in outcomes] == ["killed"]


async def test_no_subagent_starts_once_the_host_closes(open_host, crab):
    async with open_host(crab.ScriptedModel()) as host:
        await host.close()
        with pytest.raises(SpawnRefusedError, match="closing"):
            await host.spawn(MAIN, "Measure.")


async def test_a_tool_cannot_reset_the_conversation_that_it_runs_in(open_host, crab):
    hosts, errors = [], []

    async def forget(arguments, context):
        session = await hosts[0].open_session(context.session_key)
        try:
            await hosts[0].reset_now(session, "new")
        except SessionStateError as error:
            errors.append(error)
            raise
        return "forgotten"

    @hookimpl
    def register_tools(registry):
        from hermitcrab.agent import Tool
        from hermitcrab.models import ToolSchema

        registry.register("forget", Tool(ToolSchema("forget", "", {}), forget))

    model = crab.ScriptedModel(crab.calling("forget"), "I cannot.")
    async with open_host(model, plugins=[("f", crab.plugin(register_tools))]) as host:
        hosts.append(host)
        reply = await host.send(MAIN, "Forget it all.")
    assert reply.text == "I cannot."
    assert errors


# -- engines and plugins


class Nursery(ContextEngine):
    """Writes down what it is asked about subagents."""

    info = ContextEngineInfo(id="nursery", name="Nursery")
    calls: list
    fails = False

    async def ingest(self, **_):
        return IngestResult(ingested=False)

    async def assemble(self, *, messages, **_):
        return AssembleResult(messages)

    async def compact(self, **params):
        return await delegate_compaction(**params)

    async def prepare_subagent_spawn(self, **params):
        self.calls.append(("prepare", params))
        if self.fails:
            raise RuntimeError("no room")
        return SubagentPreparation(self.roll_back)

    async def roll_back(self):
        self.calls.append(("rollback", None))

    async def on_subagent_ended(self, *, child_session_key, reason):
        self.calls.append(("ended", reason))
        raise RuntimeError("best effort")


@pytest.fixture
def nursery(crab):
    engine_class = type("Own", (Nursery,), {"calls": []})

    @hookimpl
    def register_context_engines(registry):
        registry.register("nursery", engine_class)

    return engine_class, [("nursery", crab.plugin(register_context_engines))]


SELECTED = {"plugins": {"slots": {"contextEngine": "nursery"}}}


async def test_the_parents_engine_prepares_a_subagent_and_hears_of_its_end(
    open_host, crab, nursery
):
    engine, plugins = nursery
    async with open_host(crab.ScriptedModel(), config=SELECTED, plugins=plugins) as host:
        result = await host.spawn(MAIN, "Measure.", context="fork", timeout_s=9)
        parent, child = await host.session(MAIN), await host.session(result.session_key)
        files = str(parent.file), str(child.file)
        ids = parent.session_id, child.session_id
    assert result.outcome == "ok"
    (_, asked), ended = engine.calls
    assert ended == ("ended", "completed")
    assert asked == {
        "parent_session_key": MAIN,
        "child_session_key": result.session_key,
        "context_mode": "fork",
        "parent_session_id": ids[0],
        "parent_session_file": files[0],
        "child_session_id": ids[1],
        "child_session_file": files[1],
        "ttl_ms": 9_000,
    }


async def test_an_engine_that_cannot_prepare_stops_the_subagent(open_host, crab, nursery):
    engine, plugins = nursery
    engine.fails = True
    async with open_host(crab.ScriptedModel(), config=SELECTED, plugins=plugins) as host:
        with pytest.raises(
            SpawnRefusedError, match="Context engine subagent preparation failed: no room"
        ):
            await host.spawn(MAIN, "Measure.")
        assert [entry.key for entry in await (await host.agent()).sessions.list()] == [MAIN]
    assert [name for name, _ in engine.calls] == ["prepare"]


async def test_what_an_engine_prepared_is_rolled_back_once_where_the_start_fails(
    open_host, crab, nursery, monkeypatch
):
    engine, plugins = nursery
    async with open_host(crab.ScriptedModel(), config=SELECTED, plugins=plugins) as host:
        await host.send(MAIN, "hello")

        async def full(*_, **__):
            raise TranscriptError("the disk is full")

        monkeypatch.setattr((await host.agent()).sessions, "begin_child", full)
        with pytest.raises(TranscriptError, match="full"):
            await host.spawn(MAIN, "Measure.")
        monkeypatch.undo()
        assert (await host.spawn(MAIN, "Measure.")).outcome == "ok"
    assert [name for name, _ in engine.calls] == ["prepare", "rollback", "prepare", "ended"]


async def test_a_plugin_may_refuse_a_subagent_before_anything_is_written(open_host, crab, ended):
    outcomes, plugins = ended

    @hookimpl
    def subagent_spawning(event, ctx):
        return SubagentSpawnDecision(status="error", error=f"not for {event.label}")

    plugins.append(("strict", crab.plugin(subagent_spawning)))
    async with open_host(crab.ScriptedModel(), plugins=plugins) as host:
        with pytest.raises(SpawnRefusedError, match="not for surveyor"):
            await host.spawn(MAIN, "Measure.", label="surveyor")
        assert [entry.key for entry in await (await host.agent()).sessions.list()] == [MAIN]
    assert outcomes == []


async def test_plugins_hear_of_a_subagent_in_order_and_choose_where_its_result_goes(
    open_host, crab
):
    heard = []

    def hears(name, answer=None):
        def handler(event, ctx):
            heard.append((name, event, ctx.session_key))
            return answer

        handler.__name__ = name
        return hookimpl(handler)

    target = SubagentDelivery(origin={"channel": "irc", "to": "#crabs"})
    plugin = crab.plugin(
        hears("subagent_spawning"),
        hears("subagent_spawned"),
        hears("subagent_delivery_target", target),
        hears("subagent_ended"),
    )
    async with open_host(crab.ScriptedModel(), plugins=[("p", plugin)]) as host:
        result = await host.spawn(MAIN, "Measure.", label="surveyor")
    assert [name for name, _, _ in heard] == [
        "subagent_spawning",
        "subagent_spawned",
        "subagent_delivery_target",
        "subagent_ended",
    ]
    assert {key for _, _, key in heard} == {MAIN}
    spawned, delivery, over = (event for _, event, _ in heard[1:])
    assert spawned.run_id == delivery.child_run_id == over.run_id == result.run_id
    assert (spawned.resolved_provider, spawned.resolved_model) == ("scripted", "model")
    assert spawned.requester["sessionKey"] == MAIN
    assert delivery.expects_completion_message
    assert result.delivery == {"channel": "irc", "to": "#crabs"}
