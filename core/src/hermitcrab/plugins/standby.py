"""The memory plugin that stands by for the selected one: imported only when it is needed (memory 2.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from hermitcrab.errors import PluginError
from hermitcrab.plugins.decide import DEFAULT_MEMORY, Candidate, StartMode, decide, selected
from hermitcrab.plugins.discovery import MEMORY, Discovery

if TYPE_CHECKING:
    from hermitcrab.plugins.discovery import DiscoveredPlugin
    from hermitcrab.plugins.planning import LoadRequest


@frozen
class StandbyMemory:
    """A backend that was loaded aside: what makes it, and its plugin's config."""

    factory: Callable[..., Any]
    plugin_config: Any


def standby_plugin(config: Any, discovery: Discovery, start: StartMode) -> DiscoveredPlugin | None:
    """memory-core, where another plugin has the memory slot and memory-core could have had it."""
    if selected(config)[MEMORY] in {None, DEFAULT_MEMORY}:
        return None
    instead = evolve(config, slots=evolve(config.slots, memory=DEFAULT_MEMORY))
    for plugin in discovery.plugins:
        if plugin.id == DEFAULT_MEMORY and plugin.core and MEMORY in plugin.groups:
            candidate = Candidate(id=plugin.id, groups=frozenset(plugin.groups), core=True)
            return plugin if decide(candidate, instead, start).enabled else None
    return None


def load_standby(request: LoadRequest, host_version: str) -> StandbyMemory:
    """Import the plugin of ``request`` into registries of its own, so that it takes part in nothing else.

    :raises PluginError: if it cannot be loaded, or offers no backend.
    """
    from hermitcrab.hooks.implementations import HookImplementations
    from hermitcrab.plugins.loader import PluginLoader
    from hermitcrab.plugins.registration import PluginRegistries

    registries = PluginRegistries()
    outcome = PluginLoader(registries, HookImplementations(), host_version).load(request)
    factory = registries.memory_backends.find(request.id)
    if factory is None:
        raise PluginError(
            outcome.record.error or "it offers no memory backend", where=f"plugin {request.id}"
        )
    return StandbyMemory(factory, outcome.plugin_config)
