"""From what is installed and configured to what will be loaded; nothing is imported here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from attrs import frozen

from hermitcrab.plugins.decide import Candidate, Decision, StartMode, decide
from hermitcrab.plugins.discovery import MEMORY, PLUGINS, DiscoveredPlugin, Discovery
from hermitcrab.plugins.records import Diagnostic, EntryConfig, Kind, PluginRecord, PluginsSettings
from hermitcrab.plugins.standby import standby_plugin

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


@frozen(kw_only=True)
class LoadRequest:
    """One plugin that is to be loaded; each of ``sources`` yields an object that carries hook implementations."""

    id: str
    kind: Kind
    reason: str
    sources: tuple[Callable[[], Any], ...]
    core: bool = False
    distribution: str | None = None
    version: str | None = None
    entry_points: tuple[str, ...] = ()
    requires_hermitcrab: SpecifierSet | None = None
    entry: EntryConfig | None = None

    def record(self, **fields: Any) -> PluginRecord:
        """A record of this plugin, with ``fields`` on top."""
        known = {
            "id": self.id,
            "kind": self.kind,
            "reason": self.reason,
            "distribution": self.distribution,
            "version": self.version,
            "core": self.core,
            "entry_points": self.entry_points,
        }
        return PluginRecord(**(known | fields))


@frozen(kw_only=True)
class Plan:
    """What will be loaded, in this order, and the records of what will not.

    ``standby`` is the memory plugin that may be loaded aside when the selected one fails.
    """

    requests: tuple[LoadRequest, ...]
    records: tuple[PluginRecord, ...]
    diagnostics: tuple[Diagnostic, ...]
    standby: LoadRequest | None = None


def plan(
    config: PluginsSettings,
    discovery: Discovery,
    start: StartMode,
    extra_plugins: Sequence[tuple[str, Any]] = (),
) -> Plan:
    """Decide about every plugin: core distributions first, then third parties by id, then those given in code."""
    diagnostics = [*discovery.diagnostics]
    requests: list[LoadRequest] = []
    records = [_refused(plugin, discovery.diagnostics) for plugin in discovery.refused]
    taken = {plugin.id for plugin in (*discovery.plugins, *discovery.refused)}
    for plugin in discovery.plugins:
        candidate = Candidate(id=plugin.id, groups=frozenset(plugin.groups), core=plugin.core)
        decision = decide(candidate, config, start)
        request = _from_entry_points(plugin, decision, config)
        _place(request, decision, requests, records)
    for plugin_id, source in extra_plugins:
        if plugin_id in taken:
            diagnostics.append(_given_twice(plugin_id))
            continue
        taken.add(plugin_id)
        candidate = Candidate(id=plugin_id, groups=frozenset({PLUGINS}), given=True)
        decision = decide(candidate, config, start)
        _place(_from_code(plugin_id, source, decision, config), decision, requests, records)
    diagnostics += _unknown_ids(config, taken)
    return Plan(
        requests=tuple(requests),
        records=tuple(records),
        diagnostics=tuple(diagnostics),
        standby=_standby(config, discovery, start),
    )


def _standby(config: PluginsSettings, discovery: Discovery, start: StartMode) -> LoadRequest | None:
    plugin = standby_plugin(config, discovery, start)
    if plugin is None:
        return None
    decision = Decision(True, "standby for the memory slot", frozenset({MEMORY}))
    return _from_entry_points(plugin, decision, config)


def _place(
    request: LoadRequest,
    decision: Decision,
    requests: list[LoadRequest],
    records: list[PluginRecord],
) -> None:
    if decision.enabled:
        requests.append(request)
    else:
        records.append(request.record(status="disabled"))


def _from_entry_points(
    plugin: DiscoveredPlugin, decision: Decision, config: PluginsSettings
) -> LoadRequest:
    # One value in several groups is one object: it is loaded once.
    wanted = {
        each.value: each.load for group, each in plugin.groups.items() if group in decision.groups
    }
    return LoadRequest(
        id=plugin.id,
        kind=plugin.kind,
        reason=decision.reason,
        sources=tuple(wanted.values()),
        core=plugin.core,
        distribution=plugin.distribution,
        version=plugin.version,
        entry_points=plugin.entry_points,
        requires_hermitcrab=plugin.requires_hermitcrab,
        entry=config.entries.get(plugin.id),
    )


def _from_code(
    plugin_id: str, source: Any, decision: Decision, config: PluginsSettings
) -> LoadRequest:
    return LoadRequest(
        id=plugin_id,
        kind="plugin",
        reason=decision.reason,
        sources=(lambda: source,),
        entry=config.entries.get(plugin_id),
    )


def _refused(plugin: DiscoveredPlugin, diagnostics: Iterable[Diagnostic]) -> PluginRecord:
    message = next(each.message for each in diagnostics if each.plugin_id == plugin.id)
    return PluginRecord(
        id=plugin.id,
        kind=plugin.kind,
        status="error",
        reason="id claimed by several distributions",
        phase="validation",
        error=message,
        distribution=plugin.distribution,
        version=plugin.version,
        entry_points=plugin.entry_points,
    )


def _given_twice(plugin_id: str) -> Diagnostic:
    return Diagnostic(
        level="error",
        plugin_id=plugin_id,
        phase="validation",
        message="a plugin given in code has the id of another one, and is not loaded",
        hint="Choose another id",
    )


def _unknown_ids(config: PluginsSettings, known: set[str]) -> list[Diagnostic]:
    places = [("plugins.entries", config.entries), ("plugins.allow", config.allow)]
    places.append(("plugins.deny", config.deny))
    return [
        _unknown_id(place, plugin_id, known)
        for place, names in places
        for plugin_id in names
        if plugin_id not in known
    ]


def _unknown_id(place: str, plugin_id: str, known: set[str]) -> Diagnostic:
    near = get_close_matches(plugin_id, known, n=1)
    return Diagnostic(
        level="warning",
        plugin_id=plugin_id,
        phase="validation",
        message=f"{place} names a plugin that is not installed",
        hint=f'Did you mean "{near[0]}"?' if near else None,
    )
