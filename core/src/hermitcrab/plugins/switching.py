"""What has to change in the configuration so that a plugin runs, or does not (sessions 7.3)."""

from __future__ import annotations

from collections.abc import Collection

from attrs import frozen

from hermitcrab.plugins.discovery import CONTEXT_ENGINES, MEMORY, PLUGINS
from hermitcrab.plugins.records import PluginsSettings

_SLOTS = {CONTEXT_ENGINES: "contextEngine", MEMORY: "memory"}
_EMPTIED = {"contextEngine": None, "memory": "none"}


@frozen
class Setting:
    """A key of config.yaml and its new value; ``None`` takes the key away."""

    path: str
    value: object


def to_enable(
    plugin_id: str, groups: Collection[str], config: PluginsSettings
) -> tuple[Setting, ...]:
    """The changes after which ``plugin_id`` runs: it fills its slots, and nothing says no to it.

    :param groups: the entry-point groups in which the plugin is found.
    """
    changes = [
        Setting(f"plugins.slots.{slot}", plugin_id)
        for group, slot in _SLOTS.items()
        if group in groups and _fills(config, slot) != plugin_id
    ]
    if not config.enabled:
        changes.append(Setting("plugins.enabled", True))
    if plugin_id in config.deny:
        changes.append(Setting("plugins.deny", _without(config.deny, plugin_id)))
    if PLUGINS in groups and config.allow and plugin_id not in config.allow:
        changes.append(Setting("plugins.allow", [*config.allow, plugin_id]))
    if _entry_says(config, plugin_id) is False:
        changes.append(Setting(f'plugins.entries."{plugin_id}".enabled', True))
    return tuple(changes)


def to_disable(
    plugin_id: str, groups: Collection[str], config: PluginsSettings
) -> tuple[Setting, ...]:
    """The changes after which ``plugin_id`` does not run; its slot goes to the default engine, or to no memory."""
    changes = [
        Setting(f"plugins.slots.{slot}", _EMPTIED[slot])
        for group, slot in _SLOTS.items()
        if group in groups and _fills(config, slot) == plugin_id
    ]
    if _entry_says(config, plugin_id) is not False:
        changes.append(Setting(f'plugins.entries."{plugin_id}".enabled', False))
    return tuple(changes)


def _fills(config: PluginsSettings, slot: str) -> str | None:
    return config.slots.memory if slot == "memory" else config.slots.context_engine


def _entry_says(config: PluginsSettings, plugin_id: str) -> bool | None:
    entry = config.entries.get(plugin_id)
    return None if entry is None else entry.enabled


def _without(names: Collection[str], name: str) -> list[str]:
    return [each for each in names if each != name]
