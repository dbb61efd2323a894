"""The contracts over what one installed plugin registers: what ``hermitcrab plugins verify`` runs.

pytest collects this module; the variable ``HERMITCRAB_VERIFY`` names the plugin.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.config import Config, config_from
from hermitcrab.memory.contract import MemoryContext
from hermitcrab.memory.embeddings.contract import EmbeddingContext
from hermitcrab.plugins.discovery import CONTEXT_ENGINES, MEMORY, discover
from hermitcrab.plugins.host import PluginHost
from hermitcrab.testing.chat_models import ChatModelContract
from hermitcrab.testing.compaction_providers import CompactionProviderContract
from hermitcrab.testing.context_engines import ContextEngineContract
from hermitcrab.testing.embedding_providers import EmbeddingProviderContract
from hermitcrab.testing.memory_backends import MemoryBackendContract
from hermitcrab.testing.runtimes import engine_context

#: The environment variable with the id of the plugin.
VARIABLE = "HERMITCRAB_VERIFY"


class _OverPlugin:
    """A contract over one thing that the plugin registers."""

    host: PluginHost
    plugin_id: str
    factory: Callable[..., Any]
    registered_id: str

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @property
    def plugin_config(self) -> Any:
        return self.host.plugin_config(self.plugin_id)


class EngineOfPlugin(_OverPlugin, ContextEngineContract):
    def make_engine(self) -> Any:
        context = engine_context(self.folder)
        return _call(self.factory, _with(context, plugin_config=self.plugin_config))


class MemoryOfPlugin(_OverPlugin, MemoryBackendContract):
    def make_backend(self, context: MemoryContext) -> Any:
        return _call(self.factory, _with(context, plugin_config=self.plugin_config))


class EmbeddingsOfPlugin(_OverPlugin, EmbeddingProviderContract):
    def make_provider(self) -> Any:
        context = EmbeddingContext(
            provider_id=self.registered_id,
            home=self.folder,
            logger=logging.getLogger("hermitcrab.testing"),
            environ=dict(os.environ),
            plugin_config=self.plugin_config,
        )
        return _call(self.factory, context)


class ModelOfPlugin(_OverPlugin, ChatModelContract):
    def make_model(self) -> Any:
        return self.factory(provider_id=self.registered_id, model="default", config=None)


class CompactionOfPlugin(_OverPlugin, CompactionProviderContract):
    def make_provider(self) -> Any:
        if hasattr(self.factory, "summarise") and not inspect.isclass(self.factory):
            return self.factory
        context = engine_context(self.folder)
        return _call(self.factory, _with(context, plugin_config=self.plugin_config))


#: The contract of each registry.
CONTRACTS: dict[str, type[Any]] = {
    "context_engines": EngineOfPlugin,
    "memory_backends": MemoryOfPlugin,
    "embedding_providers": EmbeddingsOfPlugin,
    "model_providers": ModelOfPlugin,
    "compaction_providers": CompactionOfPlugin,
}


def selecting(plugin_id: str) -> Config:
    """A configuration in which the plugin runs, and nothing of other third parties."""
    groups = next((each.groups for each in discover().plugins if each.id == plugin_id), {})
    slots = {"contextEngine": "legacy", "memory": "none"}
    if CONTEXT_ENGINES in groups:
        slots["contextEngine"] = plugin_id
    if MEMORY in groups:
        slots["memory"] = plugin_id
    return config_from({"plugins": {"slots": slots, "allow": [plugin_id]}})


def contracts_of(plugin_id: str) -> dict[str, type[Any]]:
    """A test class for each thing that the plugin registers and that has a contract, by the name of the class."""
    host = PluginHost.load(selecting(plugin_id).plugins, environ={})
    record = host.records.get(plugin_id)
    classes = {}
    for each in () if record is None else record.registrations:
        contract = CONTRACTS.get(each.registry)
        if contract is None:
            continue
        found = host.registries.of(each.registry).find(each.id)
        factory = getattr(found, "factory", found)
        name = f"Test_{each.registry}_{each.id}".replace("-", "_").replace("/", "_")
        classes[name] = type(
            name,
            (contract,),
            {
                "host": host,
                "plugin_id": plugin_id,
                "factory": staticmethod(factory),
                "registered_id": each.id,
                "__module__": __name__,
            },
        )
    return classes


def _call(factory: Callable[..., Any], context: Any) -> Any:
    """A factory takes a context, or nothing."""
    try:
        takes = bool(inspect.signature(factory).parameters)
    except (TypeError, ValueError):
        takes = True
    return factory(context) if takes else factory()


def _with(context: Any, **changes: Any) -> Any:
    from attrs import evolve

    return evolve(context, **changes)


if VARIABLE in os.environ:
    globals().update(contracts_of(os.environ[VARIABLE]))
