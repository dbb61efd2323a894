"""The tools that plugins bring; what is none, or takes a name of the core's, is a diagnostic."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from attrs import evolve

from hermitcrab.agent.tools import Tool
from hermitcrab.plugins.host import PluginHost
from hermitcrab.plugins.records import Diagnostic


def plugin_tools(plugins: PluginHost, taken: Collection[str]) -> list[Tool]:
    """The tools of plugins. What cannot be used is reported once, however many agents ask.

    :param taken: the names of the core's own tools, which cannot be replaced.
    """
    registry = plugins.registries.tools
    tools: list[Tool] = []
    for name, value in registry.values().items():
        plugin_id = (registry.owner_of(name) or "").removeprefix("plugin:")
        tool = _named(name, value, taken)
        if isinstance(tool, Tool):
            tools.append(tool)
            continue
        message, hint = tool
        problem = Diagnostic(
            level="error", plugin_id=plugin_id, phase="register", message=message, hint=hint
        )
        if problem not in plugins.diagnostics:
            plugins.report([problem])
    return tools


def _named(name: str, value: Any, taken: Collection[str]) -> Tool | tuple[str, str]:
    """The tool under its registered name; else what is wrong, and what helps."""
    if name in taken:
        return f"its tool '{name}' is not used: it is one of the core's", "Give it another name"
    try:
        made = value() if callable(value) and not isinstance(value, Tool) else value
    except Exception as error:  # noqa: BLE001 - reported with its plugin
        return (
            f"its tool '{name}' could not be made: {type(error).__name__}: {error}",
            "Report this to the author of the plugin",
        )
    if not isinstance(made, Tool):
        return (
            f"its tool '{name}' is a {type(made).__name__}, not a Tool",
            "Register a hermitcrab.agent.Tool, or a function without arguments that makes one",
        )
    return made if made.name == name else evolve(made, schema=evolve(made.schema, name=name))
