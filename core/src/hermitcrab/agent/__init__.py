"""The turn: the host, sessions under it, prompts, tools and chat commands."""

from __future__ import annotations

from hermitcrab.agent.commands import ChatCommand, CommandCall
from hermitcrab.agent.tools import Tool, ToolContext

__all__ = ["ChatCommand", "CommandCall", "Tool", "ToolContext"]
