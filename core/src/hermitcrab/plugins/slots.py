"""Whether the plugins that the slots name are really there (C98: never a silent default)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from hermitcrab.plugins.decide import selected
from hermitcrab.plugins.discovery import (
    CONTEXT_ENGINES,
    MEMORY,
    DiscoveredPlugin,
    core_distribution_of,
)
from hermitcrab.plugins.planning import Plan
from hermitcrab.plugins.records import NO_HOOK, Diagnostic, PluginRecord, PluginsSettings
from hermitcrab.plugins.registration import PluginRegistries

_SLOT_PATHS = {CONTEXT_ENGINES: "plugins.slots.contextEngine", MEMORY: "plugins.slots.memory"}
_REGISTRIES = {CONTEXT_ENGINES: "context_engines", MEMORY: "memory_backends"}
_THINGS = {CONTEXT_ENGINES: "context engine", MEMORY: "memory backend"}
#: What turns a plugin on again, by the reason for which it is off; a limited start has no remedy but another start.
_SWITCHES = {
    "plugins disabled": "Set plugins.enabled to true",
    "blocked by denylist": "Remove {} from plugins.deny",
    "disabled in config": "Set plugins.entries.{}.enabled to true",
}


def slot_diagnostics(
    config: PluginsSettings,
    discovered: Iterable[DiscoveredPlugin],
    records: Mapping[str, PluginRecord],
    registries: PluginRegistries,
) -> list[Diagnostic]:
    """What is wrong with the slots, after loading. A plugin that failed to load has its own diagnostic already."""
    offers = {plugin.id: frozenset(plugin.groups) for plugin in discovered}
    diagnostics = []
    for group, name in selected(config).items():
        if name is None or registries.of(_REGISTRIES[group]).find(name) is not None:
            continue
        record = records.get(name)
        if record is None or record.status != "error":
            diagnostics.append(_diagnostic(group, name, offers, record))
    return diagnostics


def most_telling(found: Sequence[Diagnostic], slots: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Both, without what follows from something else: one fault is said once.

    A slot stays empty because of the error that its plugin has anyway; that a plugin implements no hook is said by the
    slot that it leaves empty.
    """
    failed = {each.plugin_id for each in found if each.level == "error"}
    empty = {each.plugin_id for each in slots}
    return [
        *(each for each in found if each.message != NO_HOOK or each.plugin_id not in empty),
        *(each for each in slots if each.plugin_id not in failed),
    ]


def planned_slot_diagnostics(
    config: PluginsSettings, discovered: Iterable[DiscoveredPlugin], planned: Plan
) -> list[Diagnostic]:
    """What is wrong with the slots as far as that is known before loading."""
    offers = {plugin.id: frozenset(plugin.groups) for plugin in discovered}
    runs = {request.id: request.record(status="loaded") for request in planned.requests}
    records = runs | {record.id: record for record in planned.records}
    diagnostics = []
    for group, name in selected(config).items():
        if name is None or (name in runs and group in offers.get(name, ())):
            continue
        record = records.get(name)
        if record is None or record.status != "error":
            diagnostics.append(_diagnostic(group, name, offers, record))
    return diagnostics


def _diagnostic(
    group: str, name: str, offers: Mapping[str, frozenset[str]], record: PluginRecord | None
) -> Diagnostic:
    path, thing = _SLOT_PATHS[group], _THINGS[group]
    if record is None:
        message = f"{path} names a plugin that is not installed"
        return _error(name, message, _remedy(group, name, offers))
    if group not in offers.get(name, {group}):
        message = f"{path} names a plugin that is no {thing} (it has no entry point in {group})"
        return _error(name, message, _remedy(group, name, offers))
    if record.status == "disabled":
        message = f"{path} names a plugin that is off: {record.reason}"
        return _error(name, message, _SWITCHES.get(record.reason, "").format(name) or None)
    registered = [each.id for each in record.registrations if each.registry == _REGISTRIES[group]]
    listed = f" (it registered: {', '.join(registered)})" if registered else ""
    message = f'{path} names a plugin that is loaded, but registered no {thing} "{name}"{listed}'
    return _error(name, message, "Report this to the author of the plugin")


def _remedy(group: str, name: str, offers: Mapping[str, frozenset[str]]) -> str:
    candidates = sorted(plugin_id for plugin_id, groups in offers.items() if group in groups)
    near = get_close_matches(name, candidates, n=1)
    distribution = core_distribution_of(name)
    if distribution is not None:
        install = f"Install it: pip install {distribution}"
    else:
        install = "pip install the distribution that provides it"
    if near:
        return f'Did you mean "{near[0]}"? Otherwise {install[0].lower()}{install[1:]}'
    return f"{install}; installed are: {', '.join(candidates) or 'none'}"


def _error(plugin_id: str, message: str, hint: str | None) -> Diagnostic:
    return Diagnostic(
        level="error", plugin_id=plugin_id, phase="validation", message=message, hint=hint
    )
