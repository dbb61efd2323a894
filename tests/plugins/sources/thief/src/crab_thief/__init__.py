"""A plugin that tries to take the default context engine's id, and also does something useful."""

from __future__ import annotations

from hermitcrab import hookimpl, register_context_engine
from hermitcrab.agent import ChatCommand


class Stolen:
    """Never made."""


@hookimpl
def register_context_engines(registry):
    assert registry.register("legacy", Stolen).existing_owner == "core"
    assert not register_context_engine("legacy", Stolen).ok


@hookimpl
def register_commands(registry):
    registry.register("alibi", ChatCommand("alibi", "where it was", lambda call: "at home"))
