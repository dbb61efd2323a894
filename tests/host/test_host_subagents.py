"""Subagents at work: their task, their context, and their result in the conversation of their parent."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab import hookimpl
from hermitcrab.errors import (
    ConfigError,
    ModelUnavailableError,
)
from hermitcrab.messages import assistant, tool_result
from hermitcrab.messages.pairing import find_faults
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.blobs.files import blob_folder, restore_entry
from hermitcrab.sessions.reading import read_transcript

MAIN = "agent:main:main"


async def test_a_subagent_does_its_task_and_its_result_is_in_the_parents_conversation(
    open_host, crab
):
    model = crab.ScriptedModel("Hello.", "The harbour is 80 m deep.", "80 m.")
    async with open_host(model) as host:
        await host.send(MAIN, "hello")
        result = await host.spawn(MAIN, "Measure the harbour.", label="surveyor")
        reply = await host.send(MAIN, "How deep is it?")
        parent, child = await host.session(MAIN), await host.open_session(result.session_key)
        messages = parent.messages
    assert (result.outcome, result.text) == ("ok", "The harbour is 80 m deep.")
    assert result.session_key.startswith("agent:main:subagent:")
    entry = child.log.entry
    assert (entry.spawned_by, entry.spawn_depth, entry.label) == (MAIN, 1, "surveyor")
    assert entry.status == "done"
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "user",
        "user",
        "assistant",
    ]
    assert messages[2] == result.announcement
    assert messages[2]["provenance"] == {
        "kind": "inter_session",
        "originSessionId": result.session_id,
        "sourceSessionKey": result.session_key,
        "sourceTool": "subagent_announce",
    }
    assert "surveyor" in text_of(messages[2])
    assert "isUser=false" in str(model.requests[2].messages)
    assert reply.text == "80 m."


async def test_an_isolated_subagent_knows_its_task_alone_and_what_it_is(open_host, crab):
    model = crab.ScriptedModel("Noted.")
    async with open_host(model) as host:
        await host.send(MAIN, "The secret is 4711.")
        await host.spawn(MAIN, "/compact the garden")
    request = model.requests[1]
    assert [text_of(message) for message in request.messages] == ["/compact the garden"]
    assert "You are a subagent" in request.system
    assert "You are a subagent" not in model.requests[0].system


async def test_a_forked_subagent_knows_the_conversation_and_writes_to_its_own_transcript(
    open_host, crab
):
    model = crab.ScriptedModel("Noted.")
    async with open_host(model) as host:
        await host.send(MAIN, "The secret is 4711.")
        result = await host.spawn(MAIN, "What is the secret?", context="fork")
        parent, child = await host.session(MAIN), await host.session(result.session_key)
        header = crab.entries_of(child.file)[0]
        written = crab.stored_messages(child.file)
    assert [text_of(message) for message in model.requests[1].messages] == [
        "The secret is 4711.",
        "Noted.",
        "What is the secret?",
    ]
    assert header["parentSession"] == str(parent.file)
    assert len(written) == 4
    assert "What is the secret?" not in str(parent.messages[:2])


async def test_a_fork_begins_with_the_parents_summary(open_host, crab):
    model = crab.ScriptedModel(window=16_000)
    async with open_host(model) as host:
        session = await host.session(MAIN)
        for number in range(12):
            await session.append({"role": "user", "content": f"Step {number}: " + "plan " * 1_000})
            await session.append(assistant("Noted."))
        await session.end_turn()
        assert (await host.compact(MAIN)).compacted
        summary = text_of((await host.session(MAIN)).messages[0])
        result = await host.spawn(MAIN, "Go on.", context="fork")
        child = await host.open_session(result.session_key)
        compactions = child.log.entry.compaction_count
    assert summary in [text_of(message) for message in model.requests[0].messages]
    assert compactions == 1


async def test_a_model_starts_a_subagent_and_gets_its_result_as_that_of_the_call(open_host, crab):
    """The child has its own lock, so a tool within the parent's turn does not wait for itself."""
    model = crab.ScriptedModel(
        crab.calling("spawn_agent", task="Measure the harbour.", context="fork"),
        "80 m deep.",
        "It is 80 m deep.",
    )
    async with open_host(model) as host:
        async with asyncio.timeout(20):
            reply = await host.send(MAIN, "How deep is the harbour?")
        parent = await host.session(MAIN)
        messages = parent.messages
    assert reply.text == "It is 80 m deep."
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "toolResult",
        "assistant",
    ]
    assert text_of(messages[2]) == "80 m deep."
    child = model.requests[1]
    assert [text_of(message) for message in child.messages] == [
        "How deep is the harbour?",
        "Measure the harbour.",
    ]


async def test_a_result_never_lands_between_a_call_and_its_result(open_host, crab):
    """A tool of a plugin may start a subagent too: its result waits until the turn is over."""
    hosts = []

    async def delegate(arguments, context):
        result = await hosts[0].spawn(context.session_key, "Measure the harbour.")
        return f"done: {result.outcome}"

    @hookimpl
    def register_tools(registry):
        from hermitcrab.agent import Tool
        from hermitcrab.models import ToolSchema

        registry.register("delegate", Tool(ToolSchema("delegate", "", {}), delegate))

    model = crab.ScriptedModel(crab.calling("delegate"), "80 m deep.", "Delegated.")
    async with open_host(model, plugins=[("d", crab.plugin(register_tools))]) as host:
        hosts.append(host)
        async with asyncio.timeout(20):
            await host.send(MAIN, "How deep is the harbour?")
            await host.send(MAIN, "Thanks.")
        messages = (await host.session(MAIN)).messages
    assert find_faults(messages).missing_results == 0
    said = [text_of(message) for message in messages]
    assert said[2:4] == ["done: ok", "Delegated."]
    assert "80 m deep." in said[4]
    assert said[5] == "Thanks."


async def test_a_failing_subagent_is_told_to_its_parent_and_raises_nothing(open_host, crab, ended):
    outcomes, plugins = ended
    model = crab.ScriptedModel(ModelUnavailableError("the server is down"))
    async with open_host(model, plugins=plugins) as host:
        result = await host.spawn(MAIN, "Measure.")
        messages = (await host.session(MAIN)).messages
        child = await host.open_session(result.session_key)
        status = child.log.entry.status
    assert result.outcome == "error"
    assert "the server is down" in result.error
    assert "the server is down" in text_of(messages[-1])
    assert outcomes == [("error", "completed", result.session_key, MAIN)]
    assert status == "failed"


async def test_a_failing_subagent_is_a_failed_call_for_the_model(open_host, crab):
    model = crab.ScriptedModel(
        crab.calling("spawn_agent", task="Measure."), ModelUnavailableError("down"), "It failed."
    )
    async with open_host(model) as host:
        reply = await host.send(MAIN, "How deep?")
    assert reply.text == "It failed."
    assert reply.messages[2]["isError"]
    assert "down" in text_of(reply.messages[2])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "'task' is required"),
        ({"task": 7}, "'task' must be a text"),
        ({"task": "x", "context": "shared"}, "isolated or fork"),
        ({"task": "x", "timeoutSeconds": 0}, "whole number from 1"),
        ({"task": "x", "agentId": "other"}, "may not work for"),
    ],
)
async def test_wrong_arguments_are_told_to_the_model(open_host, crab, arguments, words):
    model = crab.ScriptedModel(crab.calling("spawn_agent", **arguments), "Sorry.")
    async with open_host(model) as host:
        reply = await host.send(MAIN, "Delegate.")
    assert words in text_of(reply.messages[2])


async def test_a_model_of_its_own_answers_where_one_is_asked_for(open_host, crab):
    async with open_host() as host:
        result = await host.spawn(MAIN, "Summarise.", model="offline/extractive")
        entry = (await host.open_session(result.session_key)).log.entry
        with pytest.raises(ConfigError):
            await host.spawn(MAIN, "Summarise.", model="nobody/nothing")
        assert len(await (await host.agent()).sessions.list()) == 2
    assert (entry.provider_override, entry.model_override) == ("offline", "extractive")


async def test_a_label_that_is_taken_is_a_display_name_only(open_host, crab):
    async with open_host(crab.ScriptedModel()) as host:
        first = await host.spawn(MAIN, "one", label="research")
        second = await host.spawn(MAIN, "two", label="research")
        entries = [
            (await host.open_session(each.session_key)).log.entry for each in (first, second)
        ]
    assert [entry.label for entry in entries] == ["research", None]
    assert [entry.display_name for entry in entries] == ["research", "research"]


async def test_a_subagent_that_is_not_to_be_kept_leaves_its_result_and_an_archive(
    open_host, crab, ended, home
):
    outcomes, plugins = ended
    events = []
    async with open_host(crab.ScriptedModel("80 m."), plugins=plugins) as host:
        host.on_session_event(lambda event: events.append(getattr(event, "kind", None)))
        result = await host.spawn(MAIN, "Measure.", cleanup="delete")
        keys = [entry.key for entry in await (await host.agent()).sessions.list()]
        assert "80 m." in text_of((await host.session(MAIN)).messages[-1])
    assert (result.outcome, keys) == ("ok", [MAIN])
    assert outcomes == [("ok", "deleted", result.session_key, MAIN)]
    assert events.count("deleted") == 1
    archives = (home / "agents" / "main" / "sessions").glob(f"{result.session_id}.jsonl.deleted.*")
    assert len(list(archives)) == 1


async def test_a_host_keeps_no_session_of_a_subagent_open_that_is_over(open_host, crab):
    """A host that lives long would fill its memory, and upkeep would take the sessions for used."""
    ends = []

    @hookimpl
    def session_end(event, ctx):
        ends.append((event.session_key, event.reason))

    async with open_host(crab.ScriptedModel(), plugins=[("w", crab.plugin(session_end))]) as host:
        children = [(await host.spawn(MAIN, "Measure.")).session_key for _ in range(3)]
        await host.hooks.close()
        assert ends == [(key, "unknown") for key in children]
        assert host._opener.keys() == {MAIN}
        assert (await host.send(children[0], "And?")).text == "ok"
        assert len((await host.session(children[0])).messages) == 4
    assert ends[3:] == [(MAIN, "shutdown")]


async def test_a_result_that_comes_after_another_process_began_anew_is_dropped(open_host, crab):
    finish = asyncio.Event()
    started = asyncio.Event()

    async def slow(request):
        started.set()
        await finish.wait()
        return "80 m."

    async with open_host(crab.ScriptedModel("hi", slow)) as host:
        await host.send(MAIN, "hello")
        spawn = asyncio.create_task(host.spawn(MAIN, "Measure."))
        await asyncio.wait_for(started.wait(), timeout=20)
        async with open_host(crab.ScriptedModel()) as other:
            await other.send(MAIN, "/new")
        finish.set()
        result = await asyncio.wait_for(spawn, timeout=20)
        messages = (await host.session(MAIN)).messages
    assert result.outcome == "ok"
    assert messages == []


async def test_a_result_that_waits_for_the_parents_turn_is_not_lost_when_the_host_closes(
    open_host, crab, hanging
):
    async with open_host(crab.ScriptedModel(hanging, "80 m.")) as host:
        file = (await host.session(MAIN)).file
        turn = asyncio.create_task(host.send(MAIN, "Tell me a story."))
        await hanging.asked()
        async with asyncio.timeout(20):
            result = await host.spawn(MAIN, "Measure.")
        assert result.text == "80 m."
        assert "80 m." not in file.read_text()
    await asyncio.gather(turn, return_exceptions=True)
    last = crab.stored_messages(file)[-1]
    assert last == result.announcement


async def test_a_plugin_cannot_take_the_name_of_the_tool(open_host, crab):
    @hookimpl
    def register_tools(registry):
        from hermitcrab.agent import Tool
        from hermitcrab.models import ToolSchema

        async def fake(arguments, context):
            return "fake"

        registry.register("spawn_agent", Tool(ToolSchema("spawn_agent", "", {}), fake))

    model = crab.ScriptedModel(crab.calling("spawn_agent", task="Measure."), "80 m.", "80 m.")
    async with open_host(model, plugins=[("f", crab.plugin(register_tools))]) as host:
        reply = await host.send(MAIN, "How deep?")
    assert text_of(reply.messages[2]) == "80 m."


async def test_deleting_the_parent_ends_its_subagents(open_host, crab, ended, hanging):
    outcomes, plugins = ended
    async with open_host(crab.ScriptedModel("hi", hanging), plugins=plugins) as host:
        await host.send(MAIN, "hello")
        spawn = asyncio.create_task(host.spawn(MAIN, "Measure."))
        await hanging.asked()
        await host.delete_session(MAIN)
        result = await asyncio.wait_for(spawn, timeout=20)
    assert result.outcome == "deleted"
    assert [(outcome, reason) for outcome, reason, *_ in outcomes] == [("deleted", "deleted")]


async def test_a_lost_table_is_made_again_with_parents_and_children_as_they_were(
    open_host, crab, home
):
    """A fork copies its parent's entries, and must not copy what they say of the parent's key."""
    async with open_host(crab.ScriptedModel()) as host:
        await host.send(MAIN, "hello")
        await host.patch_session(MAIN, {"label": "harbour"})
        child = await host.spawn(MAIN, "Measure.", context="fork", label="clerk")
        before = {entry.key: entry for entry in await (await host.agent()).sessions.list()}
    for file in (home / "agents" / "main" / "sessions").glob("sessions.sqlite*"):
        file.unlink()
    async with open_host(crab.ScriptedModel()) as host:
        after = {entry.key: entry for entry in await (await host.agent()).sessions.list()}
    assert after.keys() == before.keys() == {MAIN, child.session_key}
    for key, entry in after.items():
        for name in ("session_id", "label", "spawned_by", "spawn_depth", "previous_session_ids"):
            assert getattr(entry, name) == getattr(before[key], name), (key, name)


async def test_two_forks_of_a_large_history_hold_what_is_kept_beside_it(open_host, crab):
    """Large results stand beside the transcript: a fork has its own, and outlives its parent."""
    large = "x" * 1_500_000
    async with open_host(crab.ScriptedModel(window=64_000)) as host:
        session = await host.session(MAIN)
        await session.append({"role": "user", "content": "Read it."})
        await session.append(crab.calling("read", "c1", path="a.md"))
        await session.append(tool_result("c1", "read", large))
        await session.append(assistant("Read."))
        await session.end_turn()
        children = [await host.spawn(MAIN, "Go on.", context="fork") for _ in range(2)]
        files = [(await host.session(each.session_key)).file for each in children]
        await host.delete_session(MAIN)
    for file in files:
        contents = read_transcript(file)
        whole = [restore_entry(entry, blob_folder(file)) for entry in contents.branch()]
        texts = [text_of(each["message"]) for each in whole if each["type"] == "message"]
        assert large in texts
