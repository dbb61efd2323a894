"""``plugins`` (sessions 7.3, 7.4, 8.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import NoneMeans, Range
from hermitcrab.config.schema.forms import NAME

__all__ = ["PluginEntry", "PluginHooksConfig", "PluginSlots", "PluginsConfig"]

TimeoutMs = Annotated[int, Range(minimum=1, maximum=600_000)]
PluginId = Annotated[str, NAME]


@frozen(kw_only=True)
class PluginHooksConfig:
    """What the hooks of one plugin may do, and for how long."""

    allow_prompt_injection: bool = field(
        default=True, metadata=about("Whether the plugin's hooks may add to the prompt.")
    )
    allow_conversation_access: bool | None = field(
        default=None,
        metadata=about(
            "Whether the plugin's hooks may read conversations; null lets the host decide."
        ),
    )
    timeout_ms: TimeoutMs | None = field(
        default=None,
        metadata=about(
            "How long each of the plugin's handlers may take, in milliseconds; null is the hook's own "
            "limit."
        ),
    )
    timeouts: Mapping[str, TimeoutMs] = field(
        factory=dict,
        metadata=about(
            "The same for single hooks, in milliseconds; wins over `timeoutMs`.", placeholder="hook"
        ),
    )


@frozen(kw_only=True)
class PluginEntry:
    """What is set for one plugin."""

    enabled: bool | None = field(
        default=None,
        metadata=about("Whether the plugin runs; null runs it unless another rule says no."),
    )
    config: Mapping[str, Any] = field(
        factory=dict,
        repr=False,
        metadata=about("The plugin's own settings; the plugin checks them."),
    )
    hooks: PluginHooksConfig = field(
        factory=PluginHooksConfig, metadata=about("Limits of the plugin's hooks.")
    )


@frozen(kw_only=True)
class PluginSlots:
    """Which plugin fills a place that only one can fill."""

    context_engine: Annotated[str, NoneMeans("legacy"), NAME] = field(
        default="legacy", metadata=about("The context engine.")
    )
    memory: Annotated[str, NoneMeans("none"), NAME] = field(
        default="memory-core", metadata=about("The memory backend; `none` runs without memory.")
    )


@frozen(kw_only=True)
class PluginsConfig:
    """Which plugins run, and how."""

    enabled: bool = field(default=True, metadata=about("Whether plugins run at all."))
    allow: tuple[PluginId, ...] = field(
        default=(),
        metadata=about("If not empty, only these plugins run, and those that fill a slot."),
    )
    deny: tuple[PluginId, ...] = field(default=(), metadata=about("These plugins never run."))
    slots: PluginSlots = field(
        factory=PluginSlots, metadata=about("Who fills the exclusive places.")
    )
    entries: Mapping[PluginId, PluginEntry] = field(
        factory=dict, metadata=about("Settings of single plugins.", placeholder="id")
    )
