"""All plugins of one host: loaded, known by their records, and unloaded again."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs

from hermitcrab._version import __version__
from hermitcrab.errors import PluginError
from hermitcrab.hooks.implementations import HookImplementations
from hermitcrab.plugins.decide import start_mode
from hermitcrab.plugins.discovery import EntryPoint, discover
from hermitcrab.plugins.loader import PluginLoader
from hermitcrab.plugins.planning import LoadRequest, plan
from hermitcrab.plugins.records import Diagnostic, PluginRecord, PluginsSettings
from hermitcrab.plugins.registration import PluginRegistries
from hermitcrab.plugins.slots import most_telling, slot_diagnostics
from hermitcrab.plugins.standby import StandbyMemory, load_standby

logger = logging.getLogger("hermitcrab.plugins")


class PluginHost:
    """The plugins of one host; :meth:`load` makes one.

    ``implementations`` is what a :class:`~hermitcrab.hooks.dispatcher.HookDispatcher` reads.
    """

    def __init__(self, registries: PluginRegistries, *, host_version: str = __version__) -> None:
        self.registries = registries
        self.implementations = HookImplementations()
        self._loader = PluginLoader(registries, self.implementations, host_version)
        self._records: dict[str, PluginRecord] = {}
        self._configs: dict[str, Any] = {}
        self._diagnostics: list[Diagnostic] = []
        self._standby: LoadRequest | None = None
        self._host_version = host_version

    @classmethod
    def load(
        cls,
        config: PluginsSettings,
        *,
        registries: PluginRegistries | None = None,
        extra_plugins: Sequence[tuple[str, Any]] = (),
        safe_mode: bool = False,
        environ: Mapping[str, str] | None = None,
        entry_points: Iterable[EntryPoint] | None = None,
        host_version: str = __version__,
    ) -> PluginHost:
        """Load every plugin that runs. One that fails is reported in its record and in the diagnostics.

        :param config: the ``plugins`` section of the config.
        :param extra_plugins: plugins given in code, as (id, module or instance).
        :param environ: where ``HERMITCRAB_PLUGINS`` is read, by default the process environment.
        :param entry_points: by default those that are installed.
        """
        host = cls(registries or PluginRegistries(), host_version=host_version)
        discovery = discover(entry_points)
        start = start_mode(os.environ if environ is None else environ, safe_mode=safe_mode)
        planned = plan(config, discovery, start, extra_plugins)
        host._records = {record.id: record for record in planned.records}
        host._diagnostics = [*planned.diagnostics]
        host._standby = planned.standby
        for request in planned.requests:
            outcome = host._loader.load(request)
            host._records[request.id] = outcome.record
            host._configs[request.id] = outcome.plugin_config
            host._diagnostics += outcome.diagnostics
        slots = slot_diagnostics(config, discovery.plugins, host._records, host.registries)
        found, host._diagnostics = host._diagnostics, []
        host.report(most_telling(found, slots))
        return host

    def report(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Log diagnostics and keep them with those of loading."""
        for diagnostic in diagnostics:
            level = logging.ERROR if diagnostic.level == "error" else logging.WARNING
            logger.log(level, "%s", diagnostic, extra={"plugin_id": diagnostic.plugin_id})
            self._diagnostics.append(diagnostic)

    @property
    def records(self) -> Mapping[str, PluginRecord]:
        """Every plugin that was found, by id."""
        return MappingProxyType(self._records)

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """What somebody should know, in the order in which it was found."""
        return tuple(self._diagnostics)

    def plugin_config(self, plugin_id: str) -> Any:
        """A loaded plugin's config: an instance of its config class, else the plain mapping; None if not loaded."""
        return self._configs.get(plugin_id)

    @property
    def has_standby_memory(self) -> bool:
        """Whether a memory plugin that is not selected may take the place of the selected one."""
        return self._standby is not None

    def standby_memory(self) -> StandbyMemory:
        """Import that plugin, aside from all others.

        :raises PluginError: if there is none, or it cannot be loaded.
        """
        if self._standby is None:
            raise PluginError("no memory plugin stands by", where="plugins.slots.memory")
        return load_standby(self._standby, self._host_version)

    def unload(self, plugin_id: str) -> None:
        """Forget what a plugin implements and registered; its handlers are not called any more.

        :raises PluginError: if no such plugin is loaded.
        """
        record = self._records.get(plugin_id)
        if record is None or record.status != "loaded":
            raise PluginError("no such plugin is loaded", where=f"plugin {plugin_id}")
        self._loader.unload(record)
        self._configs.pop(plugin_id, None)
        self._records[plugin_id] = attrs.evolve(
            record, status="disabled", reason="unloaded", hooks=(), registrations=()
        )

    def close(self) -> None:
        """Unload every plugin, the last loaded first."""
        loaded = [each.id for each in self._records.values() if each.status == "loaded"]
        for plugin_id in reversed(loaded):
            self.unload(plugin_id)
