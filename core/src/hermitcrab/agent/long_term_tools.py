"""The tools over single memories, for agents whose memory backend keeps such (memory 7.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermitcrab.agent.tools import Tool, ToolContext
from hermitcrab.memory.longterm.contract import LongTermStore
from hermitcrab.memory.longterm.tools import (
    MEMORY_FORGET,
    MEMORY_RECALL,
    MEMORY_STORE,
    LongTermTools,
)

if TYPE_CHECKING:
    from hermitcrab.memory.contract import MemoryBackend


def long_term_tools(memory: MemoryBackend | None) -> list[Tool]:
    """``memory_store``, ``memory_recall`` and ``memory_forget``; none where no single memories are kept."""
    store = getattr(memory, "long_term", None)
    if not isinstance(store, LongTermStore):
        return []
    tools = LongTermTools(store=store)

    async def remember(arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await tools.remember(arguments, session_key=context.session_key)

    async def recall(arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await tools.recall(arguments)

    async def forget(arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await tools.forget(arguments)

    return [
        Tool(MEMORY_STORE, remember),
        Tool(MEMORY_RECALL, recall),
        Tool(MEMORY_FORGET, forget),
    ]
