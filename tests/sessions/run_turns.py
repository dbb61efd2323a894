"""Runs turns in a session, as a program of its own, and prints what came of them as JSON.

Usage: python run_turns.py HOME PART

``PART`` names a function below. Programs that run at once meet through files in ``HOME/meeting``: each says how far it
is, and waits for what the others have to say.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from hermitcrab import Host, hookimpl
from hermitcrab.agent.tools import Tool
from hermitcrab.messages import assistant
from hermitcrab.messages.pairing import find_faults
from hermitcrab.messages.text import text_of
from hermitcrab.models import ChatModel, ChatReply, OfflineModel, ToolSchema

MAIN = "agent:main:main"


class Meeting:
    """Where programs wait for each other."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "meeting"
        self._folder.mkdir(exist_ok=True)

    def say(self, word: str) -> None:
        (self._folder / word).touch()

    async def hear(self, word: str) -> None:
        async with asyncio.timeout(60):
            while not (self._folder / word).exists():  # noqa: ASYNC110 - another process says it
                await asyncio.sleep(0.01)


class Model(ChatModel):
    """Answers from a script and then ``ok``; checks that what it is sent is legal."""

    id = "scripted/model"

    def __init__(self, *script: Any, window: int = 32_000, before_summary: Any = None) -> None:
        self._script = list(script)
        self._window = window
        self._before_summary = before_summary
        self._offline = OfflineModel()
        self.requests: list[list[str]] = []  # the texts of the messages of each
        self.faults: list[int] = []

    async def complete(self, request):
        faults = find_faults(request.messages)
        self.faults.append(faults.orphan_results + faults.missing_results)
        if request.purpose == "summarise" and self._before_summary is not None:
            await self._before_summary()
        if request.purpose != "turn":
            return await self._offline.complete(request)
        self.requests.append([text_of(message) for message in request.messages])
        item = self._script.pop(0) if self._script else "ok"
        return ChatReply(message=assistant(item, model="model") if isinstance(item, str) else item)

    async def context_window(self):
        return self._window


class Waiting:
    """A plugin with a tool that does not return before the other program has had its say."""

    def __init__(self, meeting: Meeting) -> None:
        self._meeting = meeting

    @hookimpl
    def register_tools(self, registry):
        schema = ToolSchema("wait", "Wait.", {"type": "object"})
        registry.register("wait", Tool(schema, self._wait))

    async def _wait(self, arguments, context):
        self._meeting.say("in-the-tool")
        await self._meeting.hear("turn-done")
        return "waited"


async def tool(home: Path, meeting: Meeting) -> Model:
    """Two calls of a tool in one round; the other program takes a whole turn meanwhile."""
    calls = [{"id": f"call_{n}", "name": "wait", "arguments": {}} for n in range(2)]
    model = Model(assistant("", tool_calls=calls), "The tools are done.")
    plugins = [("waiting", Waiting(meeting))]
    async with Host.open(home=home, model=model, plugins=plugins, environ={}) as host:
        await host.send(MAIN, "Use the tool.")
        await host.send(MAIN, "And once more.")
    return model


async def message(home: Path, meeting: Meeting) -> Model:
    """A user message in the middle of the other program's tool round."""
    model = Model("I am the other one.")
    async with Host.open(home=home, model=model, environ={}) as host:
        await meeting.hear("in-the-tool")
        await host.send(MAIN, "A message in between.")
        meeting.say("turn-done")
    return model


async def chatter(home: Path, meeting: Meeting, name: str) -> Model:
    """Ten turns, as fast as they go."""
    model = Model(*(f"{name} answers {n}" for n in range(10)))
    async with Host.open(home=home, model=model, environ={}) as host:
        meeting.say(name)
        await meeting.hear("second" if name == "first" else "first")
        for number in range(10):
            reply = await host.send(MAIN, f"{name} asks {number}")
            assert reply.text == f"{name} answers {number}"
    return model


async def compacting(home: Path, meeting: Meeting, name: str, way: str) -> tuple[Model, Any]:
    """A compaction at the same time as the other program's: both have planned before either writes."""
    other = "second" if name == "first" else "first"

    async def before_summary():
        meeting.say(f"{name}-summarises")
        await meeting.hear(f"{other}-summarises")

    model = Model(f"{name} goes on.", before_summary=before_summary, window=8_000)
    async with Host.open(home=home, model=model, environ={}) as host:
        await host.session(MAIN)
        meeting.say(name)
        await meeting.hear(other)
        if way == "manual":
            outcomes = [await host.compact(MAIN)]
            reply = await host.send(MAIN, f"{name} asks.")
        else:
            reply = await host.send(MAIN, f"{name} asks.")
            outcomes = list(reply.compactions)
        assert reply.text == f"{name} goes on."
    return model, [
        {"status": each.status, "benign": each.benign, "reason": each.reason} for each in outcomes
    ]


async def main(home: Path, part: str) -> None:
    meeting = Meeting(home)
    outcomes: Any = None
    match part.split(":"):
        case ["tool"]:
            model = await tool(home, meeting)
        case ["message"]:
            model = await message(home, meeting)
        case ["chatter", name]:
            model = await chatter(home, meeting, name)
        case ["compacting", name, way]:
            model, outcomes = await compacting(home, meeting, name, way)
        case _:
            raise SystemExit(f"no such part: {part}")
    print(json.dumps({"faults": model.faults, "requests": model.requests, "outcomes": outcomes}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
