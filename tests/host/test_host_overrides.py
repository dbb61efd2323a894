"""The model of a session, the send policy, and where input came from (sessions 5.3 to 5.5)."""

from __future__ import annotations

import pytest

from hermitcrab import hookimpl
from hermitcrab.errors import ConfigError, SessionError
from hermitcrab.hooks.specifications import HOOKS
from hermitcrab.messages import assistant, user
from hermitcrab.sessions import InboundMessage

MAIN = "agent:main:main"


@pytest.fixture
def boxes(crab):
    """A plugin with the models box/large and box/small, and the models by name."""
    models = {}
    for name, window in (("large", 64_000), ("small", 12_000)):
        models[name] = crab.ScriptedModel(window=window)
        models[name].id = f"box/{name}"

    @hookimpl
    def register_model_providers(registry):
        registry.register("box", lambda provider_id, model, config: models[model])

    return ("boxes", crab.plugin(register_model_providers)), models


BOX = {"agents": {"defaults": {"model": "box/large"}}}


async def test_a_smaller_window_is_kept_at_the_next_turn(open_host, boxes):
    """Sessions 5.3: what was measured with the old model is not trusted; the context is compacted before the call."""
    plugin, models = boxes
    async with open_host(config=BOX, plugins=[plugin]) as host:
        await host.send(MAIN, "hello")
        session = await host.session(MAIN)
        for number in range(10):
            await session.append(user(f"Step {number}: " + "we look at the harbour plan " * 200))
            await session.append(assistant("Noted."))
        await session.end_turn()
        assert not (await host.send(MAIN, "and now?")).compactions
        await host.patch_session(MAIN, {"model": "box/small"})
        reply = await host.send(MAIN, "and now?")
    assert reply.compactions[0].compacted
    assert reply.compactions[0].trigger == "preflight"
    assert len(models["small"].requests) == 1


async def test_the_configured_model_is_no_override_however_it_is_chosen(open_host, boxes):
    plugin, _ = boxes
    async with open_host(config=BOX, plugins=[plugin]) as host:
        assert (await host.send(MAIN, "/model")).text == "Model: box/large (as configured)"
        for chosen in ("/model box/large", "/model default"):
            await host.send(MAIN, "/model box/small")
            assert (
                await host.send(MAIN, "/model")
            ).text == "Model: box/small (set for this session)"
            await host.send(MAIN, chosen)
            assert (await host.open_session(MAIN)).log.entry.model_override is None
        assert (await host.send(MAIN, "/model")).text == "Model: box/large (as configured)"


async def test_a_model_that_is_gone_is_named_and_can_be_left(open_host, boxes):
    """A provider was taken out of the configuration, or its plugin was."""
    plugin, _ = boxes
    async with open_host(config=BOX, plugins=[plugin]) as host:
        await host.send(MAIN, "/model box/small")
    async with open_host() as host:
        assert (await host.send(MAIN, "/model")).text == "Model: box/small (set for this session)"
        assert "Thinking: off" in (await host.send(MAIN, "/think")).text
        with pytest.raises(ConfigError, match="box"):
            await host.send(MAIN, "hello")
        assert "offline/extractive" in (await host.send(MAIN, "/model default")).text
        assert not (await host.send(MAIN, "hello")).silent


async def test_a_model_of_the_program_is_not_carried_over_and_one_of_the_user_is(open_host, boxes):
    """Sessions 2.10."""
    plugin, _ = boxes
    async with open_host(config=BOX, plugins=[plugin]) as host:
        await host.send(MAIN, "hello")
        for source, kept in (("auto", None), ("user", "small")):
            await host.patch_session(MAIN, {"model": "box/small", "modelOverrideSource": source})
            await host.send(MAIN, "/new")
            entry = (await host.open_session(MAIN)).log.entry
            assert entry.model_override == kept


async def test_code_cannot_choose_a_model_that_nobody_makes(open_host, boxes):
    plugin, _ = boxes
    async with open_host(config=BOX, plugins=[plugin]) as host:
        await host.send(MAIN, "hello")
        for wrong, error in (("nobody/large", ConfigError), ("large", SessionError)):
            with pytest.raises(error):
                await host.patch_session(MAIN, {"label": "Ports", "model": wrong})
        agent = await host.agent()
        with pytest.raises(ConfigError, match="nobody"):
            await agent.sessions.patch(MAIN, {"model": "nobody/large"})
        entry = (await host.open_session(MAIN)).log.entry
    assert (entry.label, entry.model_override) == (None, None)


async def test_a_change_of_model_stands_in_the_transcript_for_other_readers(open_host, boxes, crab):
    plugin, _ = boxes
    async with open_host(config=BOX, plugins=[plugin]) as host:
        await host.send(MAIN, "/model box/small")
        await host.send(MAIN, "/model default")
        file = (await host.session(MAIN)).file
    changes = [e for e in crab.entries_of(file) if e["type"] == "model_change"]
    assert [(e["provider"], e["modelId"]) for e in changes] == [("box", "small"), ("box", "large")]


async def test_what_another_process_sets_holds_from_the_next_turn_on(open_host, boxes):
    plugin, models = boxes
    async with (
        open_host(config=BOX, plugins=[plugin]) as first,
        open_host(config=BOX, plugins=[plugin]) as second,
    ):
        await first.send(MAIN, "hello")
        await second.patch_session(MAIN, {"model": "box/small", "sendPolicy": "off"})
        reply = await first.send(MAIN, "hello")
        assert (await first.levels(MAIN)).fast.value == "off"
        await second.patch_session(MAIN, {"fastMode": True})
        assert (await first.levels(MAIN)).fast.value == "on"
    assert reply.silent
    assert len(models["small"].requests) == 1


async def test_a_user_holds_replies_back_and_lets_them_go(open_host, crab):
    async with open_host(crab.ScriptedModel("one", "two", "three")) as host:
        assert (await host.send(MAIN, "/send")).text == "Replies are sent: on (as configured)"
        assert "off (set for this session)" in (await host.send(MAIN, "/send off")).text
        held = await host.send(MAIN, "hello")
        assert "Sending: off (set for this session)" in (await host.send(MAIN, "/status")).text
        await host.send(MAIN, "/send on")
        assert not (await host.send(MAIN, "hello")).silent
        assert "as configured" in (await host.send(MAIN, "/send inherit")).text
    assert held.silent
    assert "send policy" in held.notes[0]


async def test_on_wins_over_a_rule_that_denies(open_host, crab):
    """Sessions 5.4: a session's own policy decides alone."""
    rule = {"action": "deny", "match": {"channel": "telegram"}}
    message = InboundMessage(text="hello", channel="telegram", peer="ann")
    config = {"session": {"sendPolicy": {"rules": [rule]}}}
    async with open_host(crab.ScriptedModel(), config=config) as host:
        assert (await host.receive(message)).silent
        await host.patch_session(MAIN, {"sendPolicy": "on"})
        assert not (await host.receive(message)).silent


async def test_every_hook_of_a_turn_knows_where_its_input_came_from(open_host, crab):
    """Sessions 5.5: from the first one, the beginning of the session, through a flush and a compaction to the last."""
    seen = []

    def recorder(name, is_synchronous):
        def record(event, ctx):
            seen.append((name, ctx.provenance))

        async def record_later(event, ctx):
            record(event, ctx)

        return hookimpl(specname=name)(record if is_synchronous else record_later)

    handlers = {name: recorder(name, each.mode == "sync") for name, each in HOOKS.items()}
    plugin = type("Recorder", (), {})()
    for name, handler in handlers.items():
        if name != "before_agent_run":  # a gate needs an answer
            setattr(plugin, name, handler)
    source = {"kind": "inter_session", "sourceSessionKey": "agent:main:other"}
    model = crab.ScriptedModel(crab.calling("read", path="AGENTS.md"), "Read.", window=16_000)
    async with open_host(model, plugins=[("recorder", plugin)]) as host:
        await host.send(MAIN, "Read the rules.", provenance=source)
        session = await host.session(MAIN)
        for number in range(10):
            await session.append(user(f"Step {number}: " + "we look at the harbour plan " * 200))
            await session.append(assistant("Noted."))
        assert (await host.send(MAIN, "Go on.", provenance=source)).compactions
        await host.send(MAIN, "/reset", provenance=source)
    outside = {"gateway_start", "gateway_stop"}
    for name, provenance in seen:
        if name not in outside:
            assert provenance == source, name
    fired = {name for name, _ in seen}
    assert {"session_start", "session_end", "before_reset", "before_compaction"} <= fired
    assert {"before_tool_call", "before_message_write", "tool_result_persist"} <= fired


async def test_an_idle_reset_is_told_with_the_source_of_the_message_that_caused_it(open_host, crab):
    from datetime import UTC, datetime, timedelta

    seen = []

    @hookimpl
    async def before_reset(event, ctx):
        seen.append((event.reason, ctx.provenance, ctx.channel))

    moment = [datetime(2026, 6, 10, 12, tzinfo=UTC)]
    config = {"session": {"reset": {"mode": "idle", "idleMinutes": 10}}}
    plugins = [("watcher", crab.plugin(before_reset))]
    async with open_host(
        crab.ScriptedModel(), config=config, clock=lambda: moment[0], plugins=plugins
    ) as host:
        await host.send(MAIN, "hello", provenance={"kind": "inter_session"})
        await host.send(MAIN, "hello")
        moment[0] += timedelta(hours=1)
        await host.receive(InboundMessage(text="hello", channel="telegram"))
    assert seen == [("idle", {"kind": "external_user"}, "telegram")]
