"""The shape of config.yaml: one class per section, every key with its type, default, range and meaning."""

from __future__ import annotations

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.schema.agents import (
    AgentDefaults,
    AgentEntry,
    AgentsConfig,
    CompactionConfig,
    MemoryFlushConfig,
    MidTurnPrecheckConfig,
)
from hermitcrab.config.schema.maintenance import MaintenanceConfig
from hermitcrab.config.schema.memory_query import QueryConfig
from hermitcrab.config.schema.memory_search import (
    ChunkingConfig,
    EmbeddingSyncConfig,
    MemorySearchConfig,
    RemoteEmbeddingsConfig,
)
from hermitcrab.config.schema.models import ModelEntry, ModelsConfig, ProviderConfig
from hermitcrab.config.schema.plugins import (
    PluginEntry,
    PluginHooksConfig,
    PluginsConfig,
    PluginSlots,
)
from hermitcrab.config.schema.session import MemoryConfig, SessionConfig

__all__ = [
    "AgentDefaults",
    "AgentEntry",
    "AgentsConfig",
    "ChunkingConfig",
    "CompactionConfig",
    "Config",
    "EmbeddingSyncConfig",
    "MaintenanceConfig",
    "MemoryConfig",
    "MemoryFlushConfig",
    "MemorySearchConfig",
    "MidTurnPrecheckConfig",
    "ModelEntry",
    "ModelsConfig",
    "PluginEntry",
    "PluginHooksConfig",
    "PluginSlots",
    "PluginsConfig",
    "ProviderConfig",
    "QueryConfig",
    "RemoteEmbeddingsConfig",
    "SessionConfig",
]


@frozen(kw_only=True)
class Config:
    """The whole of config.yaml. ``Config()`` is what a missing or an empty file means."""

    agents: AgentsConfig = field(
        factory=AgentsConfig, metadata=about("The agents and what they share.")
    )
    models: ModelsConfig = field(
        factory=ModelsConfig, metadata=about("Where chat models are reached.")
    )
    plugins: PluginsConfig = field(
        factory=PluginsConfig, metadata=about("Which plugins run, and how.")
    )
    session: SessionConfig = field(
        factory=SessionConfig, metadata=about("How conversations are kept.")
    )
    memory: MemoryConfig = field(factory=MemoryConfig, metadata=about("How memory is presented."))
