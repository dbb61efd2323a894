"""What became of each plugin, in values that ``status`` and ``doctor`` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from attrs import frozen

Level = Literal["warning", "error"]
Phase = Literal["validation", "load", "register"]
Kind = Literal["plugin", "context-engine", "memory"]
Status = Literal["loaded", "disabled", "error"]


#: What is said of a plugin that carries nothing that a host could call.
NO_HOOK = "it implements no hook"


@frozen(kw_only=True)
class Diagnostic:
    """One thing that somebody should know about a plugin; ``plugin_id`` is None where it concerns none."""

    level: Level
    plugin_id: str | None
    phase: Phase
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        text = self.message if self.plugin_id is None else f"{self.plugin_id}: {self.message}"
        return text if self.hint is None else f"{text}. {self.hint}"


@frozen
class Registration:
    """One thing that a plugin registered: the registry, for example ``tools``, and the id in it."""

    registry: str
    id: str


@frozen(kw_only=True)
class PluginRecord:
    """One plugin and its state.

    :param reason: why it runs or does not.
    :param phase: in which phase it failed, with ``error`` and ``traceback_tail``.
    :param entry_points: as ``group: name = value``.
    :param hooks: the names of the hooks that it implements.
    """

    id: str
    kind: Kind
    status: Status
    reason: str
    phase: Phase | None = None
    error: str | None = None
    traceback_tail: str | None = None
    distribution: str | None = None
    version: str | None = None
    core: bool = False
    entry_points: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    registrations: tuple[Registration, ...] = ()

    @property
    def origin(self) -> str | None:
        """Where it comes from: the distribution with its version, and the modules that its entry points name."""
        if self.distribution is None:
            return None
        modules = dict.fromkeys(each.rpartition(" = ")[2] for each in self.entry_points)
        named = f" ({', '.join(modules)})" if modules else ""
        return f"{self.distribution} {self.version or ''}".rstrip() + named


class HooksConfig(Protocol):
    """``plugins.entries.<id>.hooks``; times are in milliseconds."""

    @property
    def allow_prompt_injection(self) -> bool: ...
    @property
    def allow_conversation_access(self) -> bool | None: ...
    @property
    def timeout_ms(self) -> int | None: ...
    @property
    def timeouts(self) -> Mapping[str, int]: ...


class EntryConfig(Protocol):
    """``plugins.entries.<id>``."""

    @property
    def enabled(self) -> bool | None: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def hooks(self) -> HooksConfig: ...


class SlotsConfig(Protocol):
    """``plugins.slots``."""

    @property
    def context_engine(self) -> str: ...
    @property
    def memory(self) -> str: ...


class PluginsSettings(Protocol):
    """The ``plugins`` section of the config, as the plugin host reads it."""

    @property
    def enabled(self) -> bool: ...
    @property
    def allow(self) -> tuple[str, ...]: ...
    @property
    def deny(self) -> tuple[str, ...]: ...
    @property
    def slots(self) -> SlotsConfig: ...
    @property
    def entries(self) -> Mapping[str, EntryConfig]: ...
