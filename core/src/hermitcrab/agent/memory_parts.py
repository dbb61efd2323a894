"""The memory of one agent: its backend, and the embedding provider that the backend is given (memory 2.4, 5)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from hermitcrab.config import AgentSettings, Config
from hermitcrab.memory.contract import MemoryBackend, MemoryContext
from hermitcrab.memory.embeddings.resolution import (
    NONE,
    EmbeddingChoice,
    EmbeddingSources,
    choose_embeddings,
)
from hermitcrab.plugins.host import PluginHost

logger = logging.getLogger("hermitcrab.agent")


@frozen(kw_only=True)
class MemoryParts:
    """The backend, why there is none although one was wanted, and the embedding provider.

    The provider stays the agent's to close, after the backend.
    """

    backend: MemoryBackend | None = None
    failure: str | None = None
    embeddings: EmbeddingChoice = field(factory=lambda: EmbeddingChoice(requested=NONE))

    async def close(self) -> None:
        """Close the backend, then what it asks for vectors."""
        try:
            if self.backend is not None:
                await self.backend.close()
        finally:
            if self.embeddings.provider is not None:
                await self.embeddings.provider.close()


async def make_memory(
    config: Config,
    settings: AgentSettings,
    *,
    workspace: Path,
    folder: Path,
    home: Path,
    plugins: PluginHost,
    environ: Mapping[str, str],
) -> MemoryParts:
    """The memory that config asks for. What cannot be made is reported, not fatal."""
    slot = config.plugins.slots.memory
    if slot == "none" or not settings.memory_search.enabled:
        return MemoryParts()
    factory = plugins.registries.memory_backends.find(slot)
    if factory is None:
        return MemoryParts(failure=_why_missing(slot, plugins))
    embeddings = choose_embeddings(
        settings.memory_search, _sources(config, settings.agent_id, home, plugins, environ)
    )
    context = MemoryContext(
        agent_id=settings.agent_id,
        workspace=workspace,
        home=home,
        index_path=folder / "memory.sqlite",
        logger=logging.getLogger("hermitcrab.memory"),
        config=settings.memory_search,
        plugin_config=plugins.plugin_config(slot),
        embeddings=embeddings.provider,
        embeddings_problem=embeddings.problem,
    )
    try:
        made = factory(context) if _takes_argument(factory) else factory()
        backend: MemoryBackend = await made if inspect.isawaitable(made) else made
    except Exception as error:
        logger.warning(
            "memory backend '%s' failed to start", slot, exc_info=True, extra={"plugin_id": slot}
        )
        failure = f"memory backend '{slot}' failed to start: {error}"
        return MemoryParts(failure=failure, embeddings=embeddings)
    return MemoryParts(backend=backend, embeddings=embeddings)


def _why_missing(slot: str, plugins: PluginHost) -> str:
    record = plugins.records.get(slot)
    if record is not None and record.status != "loaded":
        return f"memory backend '{slot}' is not used: {record.error or record.reason}"
    return (
        f"memory backend '{slot}' is not registered. Install the distribution that provides it"
        " (for memory-core: pip install 'hermitcrab[standard]'), or see `hermitcrab plugins doctor`"
    )


def _sources(
    config: Config, agent_id: str, home: Path, plugins: PluginHost, environ: Mapping[str, str]
) -> EmbeddingSources:
    registry = plugins.registries.embedding_providers

    def plugin_config(provider_id: str) -> Any:
        owner = registry.owner_of(provider_id)
        return None if owner is None else plugins.plugin_config(owner.removeprefix("plugin:"))

    return EmbeddingSources(
        agent_id=agent_id,
        home=home,
        environ=environ,
        factories=registry.values(),
        plugin_config=plugin_config,
        entries=config.models.providers,
    )


def _takes_argument(factory: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters)
