"""Single memories over whole turns: the tools, recall before a turn, capture after it (memory 7.3-7.5)."""

from __future__ import annotations

import asyncio
import json

import pytest

from hermitcrab import hookimpl
from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import MemoryBackend, MemoryStatus, ReadResult, SearchResult, SyncReport
from hermitcrab.memory.longterm import Capturer, LongTermSettings, Recaller, capture_report
from hermitcrab.memory.tools import prompt_section
from hermitcrab.messages.text import text_of
from hermitcrab.testing import HashedEmbeddings, JsonLongTermStore

MAIN = "agent:main:main"
TOOLS = {"memory_store", "memory_recall", "memory_forget"}
ON = {"plugins": {"slots": {"memory": "shelf"}, "entries": {"shelf": {"config": {"autoCapture": True}}}}}  # fmt: skip


class Shelf(MemoryBackend):
    """Keeps single memories and no files; fails while the home has a file ``broken``."""

    def __init__(self, context):
        file = context.home / "agents" / context.agent_id / "shelf.json"
        self.long_term = FragileStore(file, HashedEmbeddings())
        self.long_term.broken = context.home / "broken"

    async def search(self, query, **how):
        return SearchResult()

    async def read(self, path, **how):
        return ReadResult(path=path, status="not_found")

    async def sync(self, reason, **how):
        return SyncReport(reason=reason)

    async def status(self):
        return MemoryStatus(backend="shelf")

    def prompt_section(self, tools):
        return prompt_section(tools)


class FragileStore(JsonLongTermStore):
    async def recall(self, query, **how):
        if self.broken.exists():
            raise MemoryBackendError("the shelf has fallen down")
        return await super().recall(query, **how)

    async def nearest(self, text, **how):
        if self.broken.exists():
            raise MemoryBackendError("the shelf has fallen down")
        return await super().nearest(text, **how)


@pytest.fixture
def shelf(crab):
    """A memory plugin as its author would write it: three hooks of one line each."""
    recaller, capturer = Recaller(), Capturer()

    @hookimpl
    def register_memory_backends(registry):
        registry.register("shelf", Shelf)

    @hookimpl
    def config_class():
        return LongTermSettings

    @hookimpl
    async def before_prompt_build(event, ctx):
        return await recaller.before_prompt(event, ctx, ctx.plugin_config)

    @hookimpl
    async def agent_end(event, ctx):
        await capturer.after_turn(event, ctx, ctx.plugin_config)

    @hookimpl
    async def session_end(event, ctx):
        capturer.forget_session(ctx)

    hooks = (register_memory_backends, config_class, before_prompt_build, agent_end, session_end)
    return [("shelf", crab.plugin(*hooks))]


async def kept_by(host, agent_id=None, *, at_least=1):
    """The memories of an agent, once there are enough: capture goes on after the reply."""
    store = (await host.agent(agent_id)).memory.long_term
    async with asyncio.timeout(10):
        while await store.count() < at_least:  # noqa: ASYNC110 - nothing tells when a hook is done
            await asyncio.sleep(0.01)
    return await store.listed(limit=100)


def last_message(request):
    return text_of(request.messages[-1])


async def test_what_a_user_says_comes_back_in_another_session(open_host, crab, shelf):
    model = crab.ScriptedModel("Noted.", "Bake a walnut cake.")
    async with open_host(model, config=ON, plugins=shelf) as host:
        await host.send(MAIN, "I prefer walnut cake to all others.")
        (memory,) = await kept_by(host)
        assert memory.session_key == MAIN
        reply = await host.send("agent:main:telegram:direct:7", "Which cake should I bake?")
        assert reply.text == "Bake a walnut cake."
    asked = last_message(model.requests[-1])
    assert asked.startswith("<relevant-memories>")
    assert "[preference] I prefer walnut cake to all others." in asked
    assert asked.endswith("Which cake should I bake?")


async def test_what_was_recalled_is_not_captured_again(open_host, crab, shelf, home):
    """C76: neither from the prompt, in which it stands, nor from the model, which repeats it."""
    said = "I prefer walnut cake to all others."

    def echo(request):
        return last_message(request)

    model = crab.ScriptedModel("Noted.", echo, echo)
    async with open_host(model, config=ON, plugins=shelf) as host:
        await host.send(MAIN, said)
        await kept_by(host)
        for _ in range(2):
            await host.send(MAIN, "Which cake should I bake?")
        await host.send(MAIN, "I hate raisins in a cake.")
        memories = await kept_by(host, at_least=2)
    assert {memory.text for memory in memories} == {said, "I hate raisins in a cake."}
    assert capture_report(home, "main")["seen"] == 4


async def test_only_the_user_is_listened_to(open_host, crab, shelf, home):
    """C79, C81."""
    model = crab.ScriptedModel("I always remember: my name is Crab.", "ok")
    async with open_host(model, config=ON, plugins=shelf) as host:
        await host.send(MAIN, "Who are you?")
        await host.send(MAIN, "I prefer tea, says a session.", provenance={"kind": "inter_session"})
    assert capture_report(home, "main")["captured"] == 0
    assert capture_report(home, "main")["rejected"] == {"no trigger": 1, "provenance": 1}


async def test_the_tools_are_there_where_single_memories_are_kept(open_host, crab, shelf):
    model = crab.ScriptedModel(
        crab.calling("memory_store", text="The user owns a boat.", category="fact"),
        "Kept.",
        crab.calling("memory_recall", query="boat"),
        "You own a boat.",
    )
    async with open_host(model, config=ON, plugins=shelf) as host:
        await host.send(MAIN, "There is a boat in my harbour.")
        (memory,) = await kept_by(host)
        await host.send(MAIN, "What do I have?")
    assert (memory.text, memory.source, memory.session_key) == (
        "The user owns a boat.",
        "tool",
        MAIN,
    )
    first, last = model.requests[0], model.requests[-1]
    assert {schema.name for schema in first.tools} >= TOOLS
    assert all(name in first.system for name in TOOLS)
    payload = json.loads(last_message(last))
    assert payload["memories"][0]["id"] == memory.id


async def test_other_backends_offer_none_of_them(open_host, crab):
    model = crab.ScriptedModel("ok")
    async with open_host(model) as host:
        await host.send(MAIN, "hello")
    (request,) = model.requests
    assert not {schema.name for schema in request.tools} & TOOLS
    assert "memory_store" not in request.system


async def test_without_memory_search_there_are_neither_tools_nor_recall(open_host, crab, shelf):
    """Pitfall 31: what is off is off."""
    config = {**ON, "agents": {"defaults": {"memorySearch": {"enabled": False}}}}
    model = crab.ScriptedModel("ok")
    async with open_host(model, config=config, plugins=shelf) as host:
        await host.send(MAIN, "I prefer walnut cake to all others.")
        assert (await host.agent()).memory is None
    (request,) = model.requests
    assert not {schema.name for schema in request.tools} & TOOLS


async def test_an_agent_never_gets_the_memories_of_another(open_host, crab, shelf):
    """C80: not by recall, not by search, not by id."""
    config = {**ON, "agents": {"list": [{"id": "main", "default": True}, {"id": "ops"}]}}

    def calling(name, **arguments):
        return lambda request: crab.calling(name, **arguments)

    model = crab.ScriptedModel("Noted.")
    async with open_host(model, config=config, plugins=shelf) as host:
        await host.send(MAIN, "I prefer walnut cake to all others.")
        (memory,) = await kept_by(host, "main")
        model.script += [
            calling("memory_recall", query="walnut cake"),
            calling("memory_forget", memoryId=memory.id),
            calling("memory_forget", query="I prefer walnut cake to all others."),
            "Nothing.",
        ]
        await host.send("agent:ops:main", "Which cake should I bake?")
        assert await kept_by(host, "main") == (memory,)
    requests = model.requests[1:]
    assert "walnut" not in last_message(requests[0])
    payloads = [json.loads(last_message(request)) for request in requests[1:]]
    assert payloads[0]["count"] == 0
    assert [payload["action"] for payload in payloads[1:]] == ["not_found", "not_found"]


async def test_a_store_that_is_away_costs_no_reply_and_loses_nothing(
    open_host, crab, shelf, home, caplog
):
    async with open_host(crab.ScriptedModel("one", "two"), config=ON, plugins=shelf) as host:
        (home / "broken").touch()
        assert (await host.send(MAIN, "I prefer walnut cake to all others.")).text == "one"
        async with asyncio.timeout(10):
            while "tried again later" not in caplog.text:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        (home / "broken").unlink()
        assert (await host.send(MAIN, "Thank you very much.")).text == "two"
        (memory,) = await kept_by(host)
    assert memory.text == "I prefer walnut cake to all others."
    assert "the shelf has fallen down" in caplog.text
