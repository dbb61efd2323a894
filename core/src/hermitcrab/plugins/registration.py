"""The registration hooks: in which order they are called, and with what."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import attrs
from attrs import field, frozen

from hermitcrab.errors import PluginError
from hermitcrab.plugins.records import Registration
from hermitcrab.plugins.registry import RegistrationResult, Registry, StagedRegistry

#: The hook with which a plugin names the class of its config; called first, without arguments.
CONFIG_CLASS_HOOK = "config_class"

#: The other registration hooks in the order in which they are called, each with the registry that it fills.
REGISTRATION_HOOKS: Mapping[str, str] = MappingProxyType(
    {
        "register_context_engines": "context_engines",
        "register_memory_backends": "memory_backends",
        "register_embedding_providers": "embedding_providers",
        "register_model_providers": "model_providers",
        "register_compaction_providers": "compaction_providers",
        "register_tools": "tools",
        "register_commands": "commands",
        "register_session_listeners": "session_listeners",
    }
)

#: What each hook of registration is called with.
REGISTRATION_ARGUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {CONFIG_CLASS_HOOK: (), **dict.fromkeys(REGISTRATION_HOOKS, ("registry",))}
)

CORE_OWNER = "core"


@frozen(kw_only=True)
class PluginRegistries:
    """Everything that plugins can fill; the host hands it in."""

    context_engines: StagedRegistry = field(factory=partial(Registry, "context engine"))
    memory_backends: Registry[Any] = field(factory=partial(Registry, "memory backend"))
    embedding_providers: Registry[Any] = field(factory=partial(Registry, "embedding provider"))
    model_providers: Registry[Any] = field(factory=partial(Registry, "model provider"))
    compaction_providers: Registry[Any] = field(factory=partial(Registry, "compaction provider"))
    tools: Registry[Any] = field(factory=partial(Registry, "tool"))
    commands: Registry[Any] = field(factory=partial(Registry, "command"))
    session_listeners: Registry[Any] = field(factory=partial(Registry, "session listener"))

    @contextmanager
    def stage(self, plugin_id: str, *, core: bool) -> Iterator[None]:
        """One transaction over all of them."""
        with ExitStack() as stack:
            for name in REGISTRATION_HOOKS.values():
                stack.enter_context(self.of(name).stage(owner_in(name, plugin_id, core=core)))
            yield

    def of(self, name: str) -> StagedRegistry:
        """The registry of this name."""
        registry: StagedRegistry = getattr(self, name)
        return registry

    def remove(self, plugin_id: str, *, core: bool) -> None:
        """Forget what a plugin registered.

        Engines of the core stay: they are shared by all hosts of the process.
        """
        for name in attrs.fields_dict(PluginRegistries):
            owner = owner_in(name, plugin_id, core=core)
            if owner != CORE_OWNER:
                self.of(name).remove_owner(owner)


def owner_in(registry: str, plugin_id: str, *, core: bool) -> str:
    """How a registry calls a plugin: the engines of core distributions all belong to ``core``."""
    return CORE_OWNER if core and registry == "context_engines" else f"plugin:{plugin_id}"


class BoundRegistry:
    """What a registration hook gets: one registry, bound to the plugin that registers.

    ``plugin_config`` is an instance of the plugin's config class, or the plain mapping where it has none.
    """

    def __init__(
        self,
        *,
        plugin_id: str,
        plugin_config: Any,
        register: Callable[[str, Any], RegistrationResult],
    ) -> None:
        self.plugin_id = plugin_id
        self.plugin_config = plugin_config
        self.logger = logging.getLogger(f"hermitcrab.plugins.{plugin_id}")
        self._register: Callable[[str, Any], RegistrationResult] | None = register

    def register(self, id: str, factory: Any) -> RegistrationResult:
        """Register ``factory`` under ``id``; if another owner has the id, the result says so and nothing changes.

        :raises PluginError: if registration is over, or the id is empty.
        """
        if self._register is None:
            raise PluginError(
                f'"{id}" was registered too late',
                where=f"plugin {self.plugin_id}",
                hint="Register while the registration hook runs",
            )
        return self._register(id, factory)

    def close(self) -> None:
        """End registration."""
        self._register = None


@frozen(kw_only=True)
class Refusal:
    """A registration that did not take, because ``existing_owner`` has the id."""

    registration: Registration
    existing_owner: str | None


class RegistrationLog:
    """What one plugin registered, and what was refused."""

    def __init__(self, registries: PluginRegistries, plugin_id: str, *, core: bool) -> None:
        self._registries = registries
        self._plugin_id = plugin_id
        self._core = core
        self.registrations: list[Registration] = []
        self.refusals: list[Refusal] = []

    def bound(self, registry: str, plugin_config: Any) -> BoundRegistry:
        """The registry of this name, as the plugin sees it."""

        def register(id: str, factory: Any) -> RegistrationResult:
            owner = owner_in(registry, self._plugin_id, core=self._core)
            result = self._registries.of(registry).register(id, factory, owner=owner)
            self._note(Registration(registry, id), result)
            return result

        return BoundRegistry(
            plugin_id=self._plugin_id, plugin_config=plugin_config, register=register
        )

    def _note(self, registration: Registration, result: RegistrationResult) -> None:
        if not result.ok:
            self.refusals.append(
                Refusal(registration=registration, existing_owner=result.existing_owner)
            )
        elif registration not in self.registrations:
            self.registrations.append(registration)
