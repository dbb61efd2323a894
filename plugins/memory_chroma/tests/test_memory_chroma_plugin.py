"""The plugin inside a host: chosen in YAML, with recall before a turn and capture after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermitcrab import Host
from hermitcrab.hooks import HookContext
from hermitcrab.messages import assistant
from hermitcrab.models import ChatModel, ChatReply, ChatRequest
from hermitcrab_memory_chroma import agent_end, before_prompt_build, session_end

CONFIG = {
    "plugins": {
        "slots": {"memory": "memory-chroma"},
        "entries": {"memory-chroma": {"config": {"autoCapture": True}}},
    }
}


class Listening(ChatModel):
    """Answers "Understood." and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        return ChatReply(message=assistant("Understood."))

    async def stream(self, request: ChatRequest) -> AsyncIterator[Any]:
        yield await self.complete(request)


async def test_memories_are_recalled_before_a_turn_and_captured_after_it(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    model = Listening()
    async with Host.open(home=tmp_path, model=model, environ={}) as host:
        await host.send("agent:main:main", "Remember that I prefer green tea in the afternoon")
    async with Host.open(home=tmp_path, model=model, environ={}) as host:
        store = host.memory.long_term
        assert store is not None
        memories = await store.listed(limit=10)
        assert [memory.text for memory in memories] == [
            "Remember that I prefer green tea in the afternoon"
        ]
        await host.send("agent:main:work", "What do I prefer, green tea or coffee?")
        shown = str(model.requests[-1].messages)
        assert "<relevant-memories>" in shown
        assert "green tea in the afternoon" in shown
        status = await host.memory.status()
        assert status.backend == "memory-chroma"
        assert status.details["memories"] == 1


@pytest.mark.parametrize("memory", [None, object()])
async def test_its_hooks_are_silent_where_the_memory_is_not_its_own(memory: object) -> None:
    context = HookContext(agent_id="main", memory=memory)
    nothing: Any = None
    assert await before_prompt_build(nothing, context) is None
    await agent_end(nothing, context)
    await session_end(nothing, context)
