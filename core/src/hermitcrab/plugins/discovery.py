"""Finding plugins among the installed entry points, without importing any of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

from hermitcrab.plugins.records import Diagnostic, Kind

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

logger = logging.getLogger("hermitcrab.plugins")

PLUGINS = "hermitcrab.plugins"
CONTEXT_ENGINES = "hermitcrab.context_engines"
MEMORY = "hermitcrab.memory"
COMMANDS = "hermitcrab.commands"

#: The groups whose names are plugin ids; those of ``COMMANDS`` are names of commands.
PLUGIN_GROUPS = (PLUGINS, CONTEXT_ENGINES, MEMORY)

#: The core distributions and the plugin id that belongs to each, installed or not.
CORE_DISTRIBUTIONS: Mapping[str, str] = MappingProxyType(
    {
        "hermitcrab-context-legacy": "legacy",
        "hermitcrab-compaction-safeguard": "compaction-safeguard",
        "hermitcrab-memory-core": "memory-core",
        "hermitcrab-memory-lancedb": "memory-lancedb",
        "hermitcrab-memory-chroma": "memory-chroma",
        "hermitcrab-embeddings-local": "embeddings-local",
    }
)
_CORE_IDS = {plugin_id: name for name, plugin_id in CORE_DISTRIBUTIONS.items()}

_HOST_DISTRIBUTION = "hermitcrab"


class EntryPoint(Protocol):
    """An entry point of importlib-metadata, as far as it is used here."""

    @property
    def name(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def dist(self) -> Any: ...
    def load(self) -> Any: ...


@frozen(kw_only=True)
class DiscoveredPlugin:
    """One plugin id that one distribution offers, in one group or several.

    ``requires_hermitcrab`` is the distribution's own requirement on the host, where it has one.
    """

    id: str
    groups: Mapping[str, EntryPoint]
    distribution: str
    version: str | None
    core: bool
    requires_hermitcrab: SpecifierSet | None = None

    @property
    def kind(self) -> Kind:
        return kind_of(self.groups)

    @property
    def entry_points(self) -> tuple[str, ...]:
        """The entry points as text, ``group: name = value``."""
        return tuple(f"{group}: {self.id} = {each.value}" for group, each in self.groups.items())


@frozen(kw_only=True)
class Discovery:
    """What is installed. ``refused`` holds ids that several distributions claim, so that none is loaded."""

    plugins: tuple[DiscoveredPlugin, ...] = ()
    commands: tuple[DiscoveredPlugin, ...] = ()
    refused: tuple[DiscoveredPlugin, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@frozen
class _Settled:
    """Which of the distributions that offer one id gets it, if any."""

    chosen: DiscoveredPlugin | None
    refused: tuple[DiscoveredPlugin, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def discover(source: Iterable[EntryPoint] | None = None) -> Discovery:
    """All plugins and commands among ``source``, by default what is installed; sorted, core distributions first."""
    entry_points = list(_installed() if source is None else source)
    plugins = _settle_all(entry_points, PLUGIN_GROUPS)
    commands = _settle_all(entry_points, (COMMANDS,))
    settled = [*plugins, *commands]
    return Discovery(
        plugins=_sorted(plugins),
        commands=_sorted(commands),
        refused=tuple(plugin for each in plugins for plugin in each.refused),
        diagnostics=tuple(diagnostic for each in settled for diagnostic in each.diagnostics),
    )


def kind_of(groups: Iterable[str]) -> Kind:
    """What a plugin in these groups is for."""
    if MEMORY in groups:
        return "memory"
    return "context-engine" if CONTEXT_ENGINES in groups else "plugin"


def core_distribution_of(plugin_id: str) -> str | None:
    """The core distribution to which ``plugin_id`` belongs, installed or not."""
    return _CORE_IDS.get(plugin_id)


def _installed() -> Iterable[EntryPoint]:
    import importlib_metadata

    entry_points: Iterable[EntryPoint] = importlib_metadata.entry_points()
    return entry_points


def _sorted(settled: Iterable[_Settled]) -> tuple[DiscoveredPlugin, ...]:
    chosen = [each.chosen for each in settled if each.chosen is not None]
    return tuple(sorted(chosen, key=lambda plugin: (not plugin.core, plugin.id)))


def _settle_all(entry_points: Iterable[EntryPoint], groups: tuple[str, ...]) -> list[_Settled]:
    offers: dict[str, dict[str, dict[str, EntryPoint]]] = {}
    for each in entry_points:
        if each.group in groups:
            by_distribution = offers.setdefault(each.name.strip(), {})
            by_distribution.setdefault(_distribution_name(each), {})[each.group] = each
    are_commands = groups == (COMMANDS,)
    return [
        _settle(
            plugin_id,
            [
                _discovered(plugin_id, distribution, found)
                for distribution, found in by_distribution.items()
            ],
            reserved=not are_commands,
        )
        for plugin_id, by_distribution in sorted(offers.items())
    ]


def _settle(plugin_id: str, claims: list[DiscoveredPlugin], *, reserved: bool) -> _Settled:
    owner = _owner(plugin_id, claims, reserved=reserved)
    if owner is None and len(claims) == 1:
        return _Settled(claims[0])
    if owner is None:
        return _Settled(None, tuple(claims), (_claimed_twice(plugin_id, claims),))
    chosen = next((claim for claim in claims if claim.distribution == owner), None)
    others = [claim for claim in claims if claim is not chosen]
    refusals = tuple(_claims_core_id(claim, owner) for claim in others)
    return _Settled(chosen, () if chosen else tuple(others), refusals)


def _owner(plugin_id: str, claims: list[DiscoveredPlugin], *, reserved: bool) -> str | None:
    """The core distribution that owns the id: by the list, or because it is a core one that offers it."""
    listed = core_distribution_of(plugin_id) if reserved else None
    core = sorted(claim.distribution for claim in claims if claim.core)
    return listed or (core[0] if core else None)


def _claims_core_id(claim: DiscoveredPlugin, owner: str) -> Diagnostic:
    return Diagnostic(
        level="error",
        plugin_id=claim.id,
        phase="validation",
        message=f"{claim.distribution} is not loaded, because this id belongs to {owner}",
        hint=f"Remove it: pip uninstall {claim.distribution}",
    )


def _claimed_twice(plugin_id: str, claims: list[DiscoveredPlugin]) -> Diagnostic:
    names = " and ".join(sorted(claim.distribution for claim in claims))
    return Diagnostic(
        level="error",
        plugin_id=plugin_id,
        phase="validation",
        message=f"{names} offer the same id, so none of them is loaded",
        hint="Uninstall all but one of them",
    )


def _discovered(
    plugin_id: str, distribution: str, found: dict[str, EntryPoint]
) -> DiscoveredPlugin:
    metadata = next(iter(found.values())).dist
    return DiscoveredPlugin(
        id=plugin_id,
        groups=MappingProxyType({group: found[group] for group in sorted(found)}),
        distribution=distribution,
        version=None if metadata is None else metadata.version,
        core=distribution in CORE_DISTRIBUTIONS,
        requires_hermitcrab=None if metadata is None else _host_requirement(metadata),
    )


def _distribution_name(entry_point: EntryPoint) -> str:
    from packaging.utils import canonicalize_name

    if entry_point.dist is None:
        return f"an unknown distribution ({entry_point.value})"
    return str(canonicalize_name(entry_point.dist.name))


def _host_requirement(metadata: Any) -> SpecifierSet | None:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    for line in metadata.requires or ():
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            logger.warning("%s has a requirement that is none: %s", metadata.name, error)
            continue
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and canonicalize_name(requirement.name) == _HOST_DISTRIBUTION:
            return requirement.specifier
    return None
