"""The turn: the host, sessions under it, prompts, tools and chat commands.

For authors: tools, chat commands, what ``Host.stream`` yields, and the session for a loop of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermitcrab._lazy import lazy_names

if TYPE_CHECKING:
    from hermitcrab.agent.assembled import AssembledContext
    from hermitcrab.agent.commands.calls import ChatCommand, CommandCall
    from hermitcrab.agent.events import (
        Compacted,
        Flushed,
        Notice,
        Reply,
        ToolEnded,
        ToolStarted,
        TurnEvent,
    )
    from hermitcrab.agent.handle import Session
    from hermitcrab.agent.subagents.spawning import SpawnResult
    from hermitcrab.agent.tools import Tool, ToolContext
    from hermitcrab.models.contract import TextDelta, ThinkingDelta

_HOMES = {
    "AssembledContext": "hermitcrab.agent.assembled",
    "ChatCommand": "hermitcrab.agent.commands.calls",
    "CommandCall": "hermitcrab.agent.commands.calls",
    "Compacted": "hermitcrab.agent.events",
    "Flushed": "hermitcrab.agent.events",
    "Notice": "hermitcrab.agent.events",
    "Reply": "hermitcrab.agent.events",
    "Session": "hermitcrab.agent.handle",
    "SpawnResult": "hermitcrab.agent.subagents.spawning",
    "TextDelta": "hermitcrab.models.contract",
    "ThinkingDelta": "hermitcrab.models.contract",
    "Tool": "hermitcrab.agent.tools",
    "ToolContext": "hermitcrab.agent.tools",
    "ToolEnded": "hermitcrab.agent.events",
    "ToolStarted": "hermitcrab.agent.events",
    "TurnEvent": "hermitcrab.agent.events",
}

__all__ = [
    "AssembledContext",
    "ChatCommand",
    "CommandCall",
    "Compacted",
    "Flushed",
    "Notice",
    "Reply",
    "Session",
    "SpawnResult",
    "TextDelta",
    "ThinkingDelta",
    "Tool",
    "ToolContext",
    "ToolEnded",
    "ToolStarted",
    "TurnEvent",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
