"""Chat commands and tools, of the core and of plugins (design 3, 6)."""

from __future__ import annotations

import asyncio

from hermitcrab import hookimpl
from hermitcrab.agent import ChatCommand, Tool
from hermitcrab.errors import ToolError
from hermitcrab.messages import assistant, user
from hermitcrab.models import ToolSchema

MAIN = "agent:main:main"


async def test_help_lists_every_command(open_host, crab):
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        text = (await host.send(MAIN, "/help")).text
    for name in ("/compact", "/new", "/reset", "/status", "/model", "/help"):
        assert f"{name} " in text
    assert model.requests == []


async def test_new_begins_another_session_id_and_keeps_the_old_transcript(open_host, crab, home):
    async with open_host(crab.ScriptedModel()) as host:
        first = await host.send(MAIN, "The port is 8080.")
        answer = await host.send(MAIN, "/new")
        model_sees = await host.send(MAIN, "hello")
    assert answer.session_id != first.session_id
    assert answer.text
    assert model_sees.session_id == answer.session_id
    old = home / "agents/main/sessions" / f"{first.session_id}.jsonl"
    assert crab.stored_messages(old)[0]["content"][0]["text"] == "The port is 8080."


async def test_reset_with_a_message_answers_it_in_the_new_session(open_host, crab):
    model = crab.ScriptedModel("one", "two")
    async with open_host(model) as host:
        first = await host.send(MAIN, "The port is 8080.")
        reply = await host.send(MAIN, "/reset What now?")
    assert reply.text == "two"
    assert reply.session_id != first.session_id
    assert [message["content"][0]["text"] for message in model.requests[1].messages] == [
        "What now?"
    ]


async def test_compact_says_what_it_did(open_host, crab):
    model = crab.ScriptedModel(window=16_000)
    async with open_host(model) as host:
        assert "skipped" in (await host.send(MAIN, "/compact")).text
        session = await host.session(MAIN)
        for number in range(8):
            await session.append(user(f"Step {number}: " + "we look at the harbour plan " * 200))
            await session.append(assistant("Noted."))
        await session.end_turn()
        assert (await host.send(MAIN, "/compact Dwell on the harbour.")).text.startswith(
            "Compacted "
        )
        assert "Compactions: 1" in (await host.send(MAIN, "/status")).text


async def test_status_shows_model_context_engine_and_memory(open_host, crab):
    async with open_host(crab.ScriptedModel(window=20_000)) as host:
        text = (await host.send(MAIN, "/status")).text
    assert "Model: scripted/model" in text
    assert "of 20,000 tokens" in text
    assert "Engine: legacy" in text
    assert "Memory: memory-core" in text


async def test_the_model_can_be_chosen_for_a_session_and_survives_a_reset(open_host, crab):
    config = {
        "models": {
            "providers": {"box": {"api": "openai-compatible", "baseUrl": "http://127.0.0.1:9/v1"}}
        }
    }
    async with open_host(config=config) as host:
        chosen = "Model: box/large (set for this session)"
        assert "offline" in (await host.send(MAIN, "/model")).text
        assert "Not changed" in (await host.send(MAIN, "/model nobody/large")).text
        assert (await host.send(MAIN, "/model box/large")).text == chosen
        await host.send(MAIN, "/new")
        assert (await host.send(MAIN, "/model")).text == chosen
        await host.send(MAIN, "/model default")
        assert "offline" in (await host.send(MAIN, "/model")).text


async def test_an_unknown_command_is_never_sent_to_the_model(open_host, crab):
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        reply = await host.send(MAIN, "/compcat")
    assert "/compact" in reply.text
    assert model.requests == []


async def test_two_slashes_say_to_the_model_what_looks_like_a_command(open_host, crab):
    model = crab.ScriptedModel("I see.")
    async with open_host(model) as host:
        assert (await host.send(MAIN, "//compact is a command")).text == "I see."
    assert model.requests[0].messages[0]["content"][0]["text"] == "/compact is a command"


async def test_a_path_is_no_command(open_host, crab):
    model = crab.ScriptedModel("I see.")
    async with open_host(model) as host:
        reply = await host.send(MAIN, "/etc/hosts is empty, why?")
    assert reply.text == "I see."


async def test_a_plugin_adds_commands_but_cannot_take_those_of_the_core(open_host, crab):
    async def ping(call):
        return f"pong {call.arguments}"

    @hookimpl
    def register_commands(registry):
        registry.register("ping", ChatCommand("ping", "answers pong", ping))
        registry.register("help", ChatCommand("help", "stolen", lambda call: "stolen"))

    model = crab.ScriptedModel()
    async with open_host(model, plugins=[("pinger", crab.plugin(register_commands))]) as host:
        assert (await host.send(MAIN, "/ping loud")).text == "pong loud"
        text = (await host.send(MAIN, "/help")).text
    assert "answers pong" in text
    assert "stolen" not in text
    assert model.requests == []


async def test_a_command_may_run_a_turn_of_its_own_session(open_host, crab):
    async def ask(call):
        reply = await call.host.continue_turn(call.session.log.key, "asked by a command")
        return f"The model says: {reply.text}"

    @hookimpl
    def register_commands(registry):
        registry.register("ask", ChatCommand("ask", "asks the model", ask))

    model = crab.ScriptedModel("Yes.")
    async with open_host(model, plugins=[("asker", crab.plugin(register_commands))]) as host:
        reply = await asyncio.wait_for(host.send(MAIN, "/ask"), timeout=20)
    assert reply.text == "The model says: Yes."


async def test_a_failing_command_of_a_plugin_is_told_and_the_session_goes_on(open_host, crab):
    @hookimpl
    def register_commands(registry):
        registry.register("crash", ChatCommand("crash", "", lambda call: 1 / 0))

    async with open_host(
        crab.ScriptedModel(), plugins=[("crasher", crab.plugin(register_commands))]
    ) as host:
        reply = await host.send(MAIN, "/crash")
        assert "division by zero" in reply.text
        assert (await host.send(MAIN, "hello")).text == "ok"


def _tool_plugin(crab, run, name="dice"):
    schema = ToolSchema(name, "Roll.", {"type": "object", "properties": {}})

    @hookimpl
    def register_tools(registry):
        registry.register(name, Tool(schema, run))

    return [("tools", crab.plugin(register_tools))]


async def test_a_plugin_adds_a_tool(open_host, crab, home):
    async def roll(arguments, context):
        assert context.workspace == home / "workspace"
        return f"{context.agent_id} rolls {arguments['sides']}"

    model = crab.ScriptedModel(crab.calling("dice", sides=6), "It is a six.")
    async with open_host(model, plugins=_tool_plugin(crab, roll)) as host:
        reply = await host.send(MAIN, "Roll.")
    assert "dice" in [tool.name for tool in model.requests[0].tools]
    assert reply.messages[2]["content"][0]["text"] == "main rolls 6"


async def test_a_tool_that_fails_is_told_to_the_model_and_the_turn_goes_on(open_host, crab):
    async def refuse(arguments, context):
        raise ToolError("no dice today", hint="Ask tomorrow")

    async def crash(arguments, context):
        raise KeyError("sides")

    for run, text in ((refuse, "no dice today. Ask tomorrow"), (crash, "KeyError")):
        model = crab.ScriptedModel(crab.calling("dice"), "Then not.")
        async with open_host(model, plugins=_tool_plugin(crab, run)) as host:
            reply = await host.send(MAIN, "Roll.")
        assert reply.text == "Then not."
        assert reply.messages[2]["isError"]
        assert text in reply.messages[2]["content"][0]["text"]


async def test_a_tool_that_is_not_there_is_told_with_those_that_are(open_host, crab):
    model = crab.ScriptedModel(crab.calling("fly"), "Then not.")
    async with open_host(model) as host:
        reply = await host.send(MAIN, "Fly.")
    text = reply.messages[2]["content"][0]["text"]
    assert "'fly'" in text
    assert "memory_search" in text


async def test_a_tool_that_returns_no_text_does_not_end_the_turn(open_host, crab):
    async def roll(arguments, context):
        return 6

    model = crab.ScriptedModel(crab.calling("dice"), "Then not.")
    async with open_host(model, plugins=_tool_plugin(crab, roll)) as host:
        reply = await host.send(MAIN, "Roll.")
    assert reply.text == "Then not."
    assert "returned a int, not a text" in reply.messages[2]["content"][0]["text"]


async def test_a_plugin_cannot_take_a_tool_of_the_core(open_host, crab, home, caplog):
    async def steal(arguments, context):
        return "stolen"

    model = crab.ScriptedModel(crab.calling("write", path="a.md", content="kept"))
    async with open_host(model, plugins=_tool_plugin(crab, steal, "write")) as host:
        await host.send(MAIN, "Write.")
    assert (home / "workspace/a.md").read_text() == "kept"
    (record,) = [each for each in caplog.records if "'write'" in each.getMessage()]
    assert record.plugin_id == "tools"
