"""What was said long ago is found again in the transcripts, by those who may hear it (memory 3.9, 4.10)."""

from __future__ import annotations

import json

from hermitcrab.messages import assistant, user

MAIN = "agent:main:main"
OTHER = "agent:main:telegram:direct:7"
GROUP = "agent:main:telegram:group:9"
SESSIONS = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}


def settings(**more):
    search = {**SESSIONS, "provider": "none", **more}
    return {"agents": {"defaults": {"contextTokens": 32_000, "memorySearch": search}}}


def found_in(model):
    """The payload of the last result of a tool that a model was shown."""
    results = [
        message for message in model.requests[-1].messages if message.get("role") == "toolResult"
    ]
    return json.loads(results[-1]["content"][0]["text"])


async def ask(host, crab, model, key, tool="memory_search", **arguments):
    """Let the model of a session call a memory tool, and return what it was shown."""
    model.script[:] = [crab.calling(tool, f"c{len(model.requests)}", **arguments), "done"]
    await host.send(key, "Look it up.")
    return found_in(model)


async def test_what_was_said_before_a_reset_is_found_by_its_session_alone(open_host, crab):
    model = crab.ScriptedModel()
    async with open_host(model, config=settings()) as host:
        model.script[:] = ["The lighthouse keeper is called Odalys."]
        await host.send(MAIN, "Who keeps the lighthouse?")
        await host.send(MAIN, "/new")
        payload = await ask(host, crab, model, MAIN, query="lighthouse keeper Odalys")
        (hit, *_) = [each for each in payload["results"] if "Odalys" in each["snippet"]]
        assert hit["source"] == "sessions"
        assert hit["path"].startswith("sessions/")
        lines = await ask(
            host, crab, model, MAIN, "memory_get", path=hit["path"], **{"from": hit["startLine"]}
        )
        assert "Odalys" in lines["text"]
        for key in (OTHER, GROUP):
            payload = await ask(host, crab, model, key, query="lighthouse keeper Odalys")
            assert "is called Odalys" not in json.dumps(payload)
            assert payload["hiddenSessions"] >= 1
            refused = await ask(host, crab, model, key, "memory_get", path=hit["path"])
            assert refused["text"] == ""
            assert "may see" in refused["error"]


async def test_private_conversations_see_each_other_where_the_user_allows_it(open_host, crab):
    model = crab.ScriptedModel()
    config = settings(rememberAcrossConversations=True)
    async with open_host(model, config=config) as host:
        await host.send(MAIN, "The lighthouse keeper is called Odalys.")
        private = await ask(host, crab, model, OTHER, query="lighthouse keeper called")
        assert "Odalys" in json.dumps(private)
        group = await ask(host, crab, model, GROUP, query="lighthouse keeper called")
        assert "Odalys" not in json.dumps(group)


async def test_what_a_compaction_takes_away_is_indexed_at_once(open_host, crab):
    model = crab.ScriptedModel(window=16_000)
    config = settings()
    config["agents"]["defaults"]["compaction"] = {"postIndexSync": "await", "memoryFlush": False}
    async with open_host(model, config=config) as host:
        await host.send(MAIN, "Hello.")
        session = await host.session(MAIN)
        await session.append(user("The lighthouse keeper is called Odalys."))
        await session.append(assistant("Noted."))
        for number in range(8):
            await session.append(user(f"Step {number}: " + "look at the plan " * 300))
            await session.append(assistant("Done."))
        await session.end_turn()
        await host.compact(MAIN)
        agent = await host.agent("main")
        status = await agent.memory.status()
        counts = {each["source"]: each for each in status.details["sourceCounts"]}
        assert counts["sessions"]["files"] == 1
        result = await agent.memory.search("lighthouse keeper", session_key=MAIN)
        assert any("Odalys" in hit.snippet for hit in result.hits)


async def test_sessions_are_no_part_of_memory_unless_asked_for(open_host, crab, home):
    model = crab.ScriptedModel()
    async with open_host(model, config=settings(experimental={"sessionMemory": False})) as host:
        await host.send(MAIN, "The lighthouse keeper is called Odalys.")
        payload = await ask(host, crab, model, MAIN, query="lighthouse keeper called")
        assert payload["results"] == []
        assert "hiddenSessions" not in payload
    assert not list(home.glob("agents/main/memory.sessions*"))
