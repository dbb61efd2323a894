"""The two ways to use the library, as the design shows them (design 4)."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab import Host
from hermitcrab.agent.events import Reply, ToolEnded, ToolStarted
from hermitcrab.errors import MemoryBackendError
from hermitcrab.messages import assistant, user
from hermitcrab.models import TextDelta

MAIN = "agent:main:main"


async def test_our_turn_answers_and_tells_all_about_it(home, crab):
    model = crab.ScriptedModel("8080.")
    async with Host.open(home=home, model=model) as host:
        reply = await host.send(MAIN, "What did we decide about the port?")
    assert reply.text == "8080."
    assert reply.degraded == ()
    assert reply.engine == "legacy"
    assert reply.session_key == MAIN
    assert [message["role"] for message in reply.messages] == ["user", "assistant"]
    assert (home / "agents/main/sessions" / f"{reply.session_id}.jsonl").is_file()


async def test_a_stream_yields_what_happens_and_the_reply_last(open_host, crab):
    model = crab.ScriptedModel(crab.calling("read", path="AGENTS.md"), "Nothing there.")
    async with open_host(model) as host:
        events = [event async for event in host.stream(MAIN, "And why?")]
    kinds = [type(event) for event in events]
    assert kinds == [ToolStarted, ToolEnded, TextDelta, Reply]
    assert (events[0].name, dict(events[0].arguments)) == ("read", {"path": "AGENTS.md"})
    assert events[1].is_error
    assert events[2].text == "Nothing there."
    assert events[3].text == "Nothing there."


async def test_your_own_loop_appends_assembles_and_ends_the_turn(home, crab):
    async with Host.open(home=home, model=crab.ScriptedModel()) as host:
        session = await host.session(MAIN)
        await session.append(user("hello"))
        context = await session.assemble()
        assert [message["role"] for message in context.messages] == ["user"]
        assert context.system
        assert context.system_prompt_addition is None
        assert 0 < context.tokens < context.request_tokens < context.window
        await session.append(assistant("hi"))
        await session.end_turn()
        hits = await host.memory.search("port")
        assert hits.hits == ()
        stored = crab.stored_messages(session.file)
    assert [message["role"] for message in stored] == ["user", "assistant"]


async def test_memory_is_there_for_an_own_loop_in_another_agents_session(open_host, crab):
    async with open_host(crab.ScriptedModel()) as host:
        await host.session("agent:work:main")
        assert (await host.memory.search("port")).hits == ()


async def test_a_host_without_memory_says_so_and_what_to_do(open_host, crab):
    config = {"plugins": {"slots": {"memory": "none"}}}
    async with open_host(crab.ScriptedModel(), config=config) as host:
        await host.session(MAIN)
        with pytest.raises(MemoryBackendError, match=r"plugins\.slots\.memory"):
            host.memory  # noqa: B018


async def test_a_conversation_goes_on_after_the_host_was_closed(open_host, crab):
    async with open_host(crab.ScriptedModel("Noted.")) as host:
        first = await host.send(MAIN, "The port is 8080.")
    model = crab.ScriptedModel("8080.")
    async with open_host(model) as host:
        second = await host.send(MAIN, "Which port?")
    assert second.session_id == first.session_id
    texts = [
        block["text"] for message in model.requests[0].messages for block in message["content"]
    ]
    assert texts == ["The port is 8080.", "Noted.", "Which port?"]


async def test_a_host_closes_the_model_it_was_given(open_host, crab):
    model = crab.ScriptedModel()
    async with open_host(model):
        pass
    assert model.closed


async def test_short_keys_belong_to_the_default_agent(open_host, crab):
    async with open_host(crab.ScriptedModel()) as host:
        assert (await host.send("main", "hello")).session_key == MAIN


async def test_two_sends_on_one_session_run_one_after_the_other(open_host, crab):
    running = []

    async def answer(request):
        running.append(1)
        assert len(running) == 1
        await asyncio.sleep(0.02)
        running.pop()
        return f"answer to {request.messages[-1]['content'][0]['text']}"

    async with open_host(crab.ScriptedModel(*[answer] * 3)) as host:
        await asyncio.gather(*(host.send(MAIN, text) for text in "abc"))
        session = await host.session(MAIN)
        texts = [message["content"][0]["text"] for message in session.messages]
    assert texts == ["a", "answer to a", "b", "answer to b", "c", "answer to c"]


async def test_sends_on_two_sessions_run_beside_each_other(open_host, crab):
    both = asyncio.Barrier(2)

    async def answer(request):
        await asyncio.wait_for(both.wait(), timeout=20)
        return "met"

    async with open_host(crab.ScriptedModel(answer, answer)) as host:
        replies = await asyncio.gather(
            host.send("agent:main:one", "hello"), host.send("agent:main:two", "hello")
        )
    assert [reply.text for reply in replies] == ["met", "met"]


async def test_a_compaction_waits_for_the_turn_that_runs(open_host, crab):
    order = []
    begun = asyncio.Event()

    async def answer(request):
        order.append("turn begins")
        begun.set()
        await asyncio.sleep(0.05)
        order.append("turn ends")
        return "done"

    async with open_host(crab.ScriptedModel(answer)) as host:
        turn = asyncio.create_task(host.send(MAIN, "hello"))
        await asyncio.wait_for(begun.wait(), timeout=20)
        await host.compact(MAIN)
        order.append("compacted")
        await turn
    assert order == ["turn begins", "turn ends", "compacted"]


async def test_user_messages_say_where_they_came_from(open_host, crab):
    async with open_host(crab.ScriptedModel()) as host:
        reply = await host.send(MAIN, "from a person")
        given = {"kind": "inter_session", "sourceSessionKey": "agent:main:two", "sourceTool": " "}
        await host.send(MAIN, "from a session", provenance=given)
        await host.send(MAIN, "from nowhere", provenance={"kind": "unheard_of"})
        file = (await host.session(reply.session_key)).file
    users = [message for message in crab.stored_messages(file) if message["role"] == "user"]
    assert [message["provenance"] for message in users] == [
        {"kind": "external_user"},
        {"kind": "inter_session", "sourceSessionKey": "agent:main:two"},
        {"kind": "external_user"},
    ]
