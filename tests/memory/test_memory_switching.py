"""One conversation with each memory plugin in turn: the slot in config.yaml is all that changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.messages import assistant, text_of, user

MAIN = "agent:main:main"
MODULES = {
    "memory-core": {"hermitcrab_memory_core"},
    "memory-lancedb": {"hermitcrab_memory_lancedb", "lancedb"},
    "memory-chroma": {"hermitcrab_memory_chroma", "chromadb"},
}
SLOTS = sorted(MODULES)
WITH_MEMORIES = ["memory-chroma", "memory-lancedb"]
FILE_TOOLS = {"memory_search", "memory_get"}
MEMORY_TOOLS = {"memory_store", "memory_recall", "memory_forget"}

DRIVER = """
import asyncio, json, sys
from pathlib import Path
from hermitcrab import Host
from hermitcrab.models import OfflineModel

async def main(home):
    async with Host.open(home=home, model=OfflineModel()) as host:
        await host.send("agent:main:main", "On which port does the staging database listen?")
        await host.memory.sync("test")
        found = await host.memory.search("staging database")
    heavy = ("hermitcrab_memory_", "lancedb", "chromadb")
    loaded = sorted({name.partition(".")[0] for name in sys.modules if name.startswith(heavy)})
    print(json.dumps({"loaded": loaded, "hits": [hit.snippet for hit in found.hits]}))

asyncio.run(main(Path(sys.argv[1])))
"""


def settings(slot: str) -> dict[str, Any]:
    return {
        "plugins": {"slots": {"memory": slot}},
        "agents": {"defaults": {"contextTokens": 16_000, "userTimezone": "UTC"}},
    }


def noon() -> datetime:
    return datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


async def talk(host: Any, turns: int = 12) -> None:
    session = await host.session(MAIN)
    for number in range(turns):
        await session.append(user(f"Step {number}: " + "we look at the harbour plan " * 400))
        await session.append(assistant(f"Step {number} is noted."))
    await session.end_turn()


def payload_of(request: Any) -> dict[str, Any]:
    """What the last tool call answered."""
    payload: dict[str, Any] = json.loads(text_of(request.messages[-1]))
    return payload


def write_note(home: Path, text: str, path: str = "MEMORY.md") -> None:
    file = home / "workspace" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("slot", SLOTS)
async def test_tools_prompt_flush_and_search_work_in_each(open_host, crab, home, slot):
    seen: dict[str, Any] = {}

    def answer(request):
        payload = payload_of(request)
        seen["search"] = payload
        place = payload["results"][0]
        return crab.calling("memory_get", path=place["path"])

    def close(request):
        seen["get"] = payload_of(request)
        return "It is 6543."

    model = crab.ScriptedModel("Noted.", "Going on.", window=16_000)
    async with open_host(model, config=settings(slot), clock=noon) as host:
        await host.send(MAIN, "We decided: the staging database listens on port 6543.")
        await talk(host)
        reply = await host.send(MAIN, "Go on.")
        assert len(reply.flushes) == 1
        assert [outcome.status for outcome in reply.compactions] == ["compacted"]
        assert "6543" in (home / "workspace/memory/2026-03-01.md").read_text()
        await host.send(MAIN, "/new")
        model.script = [
            crab.calling("memory_search", query="Which port has the staging database?"),
            answer,
            close,
        ]
        first = len(model.requests)
        final = await host.send(MAIN, "On which port does the staging database listen?")
        request = model.requests[first]
    assert final.text == "It is 6543."
    assert "Memory Recall" in str(request.system)
    tools = {tool.name for tool in request.tools}
    assert tools >= FILE_TOOLS
    assert bool(tools & MEMORY_TOOLS) == (slot in WITH_MEMORIES)
    assert seen["search"]["results"][0]["path"] == "memory/2026-03-01.md"
    assert "6543" in json.dumps(seen["search"])
    assert "6543" in seen["get"]["text"]


async def test_a_conversation_goes_on_while_the_slot_changes(open_host, crab, home):
    """What each plugin is told is there for the next one: the files are the truth."""
    order = ["memory-core", "memory-lancedb", "memory-chroma", "memory-core"]
    for number, slot in enumerate(order):
        write_note(home, f"- the walnut of round {number}\n", f"memory/round-{number}.md")
        model = crab.ScriptedModel(crab.calling("memory_search", query="walnut"), "Found.")
        async with open_host(model, config=settings(slot), clock=noon) as host:
            await host.send(MAIN, f"Round {number}?")
            results = payload_of(model.requests[-1])["results"]
            status = await host.memory.status()
        assert status.backend == slot
        found = {result["path"] for result in results}
        assert found == {f"memory/round-{each}.md" for each in range(number + 1)}
    turns = [message for message in model.requests[-1].messages if message["role"] == "user"]
    assert len(turns) == len(order)


@pytest.mark.parametrize("slot", WITH_MEMORIES)
async def test_what_the_model_stores_it_recalls_in_another_session(open_host, crab, slot):
    seen: list[Any] = []

    def keep(request):
        seen.append(text_of(request.messages[-1]))
        return "Done."

    model = crab.ScriptedModel(
        crab.calling("memory_store", text="Ana's parrot is called Cosimo", category="entity"),
        keep,
    )
    async with open_host(model, config=settings(slot)) as host:
        await host.send(MAIN, "Remember the parrot.")
        model.script = [crab.calling("memory_recall", query="the parrot of Ana"), keep]
        await host.send("agent:main:other", "What is the parrot called?")
        store = host.memory.long_term
        assert store is not None
        (memory,) = await store.listed(limit=9)
    assert (memory.text, memory.category) == ("Ana's parrot is called Cosimo", "entity")
    assert "Cosimo" in seen[-1]


@pytest.mark.parametrize("slot", SLOTS)
def test_a_plugin_that_is_not_selected_is_not_imported(home, slot):
    write_note(home, "- The staging database listens on port 6543.\n")
    (home / "config.yaml").write_text(f"plugins: {{slots: {{memory: {slot}}}}}\n")
    environ = {name: text for name, text in os.environ.items() if not name.startswith("HERMITCRAB")}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(home)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert any("6543" in snippet for snippet in said["hits"])
    others = set().union(*(MODULES[other] for other in SLOTS if other != slot))
    assert MODULES[slot] <= set(said["loaded"])
    assert others & set(said["loaded"]) == set()


def test_no_memory_at_all_imports_none_of_them(home):
    write_note(home, "- tea\n")
    (home / "config.yaml").write_text("plugins: {slots: {memory: none}}\n")
    code = DRIVER.replace('await host.memory.sync("test")', "")
    code = code.replace('found = await host.memory.search("staging database")', "")
    code = code.replace("[hit.snippet for hit in found.hits]", "[]")
    done = subprocess.run(
        [sys.executable, "-c", code, str(home)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["loaded"] == []
