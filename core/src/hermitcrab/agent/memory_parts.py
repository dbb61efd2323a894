"""The memory of one agent: its backend, and the embedding provider that the backend is given (memory 2.4, 5)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from hermitcrab.agent.memory_fallback import FallbackMemory
from hermitcrab.config import AgentSettings, Config
from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory.contract import MemoryBackend, MemoryContext
from hermitcrab.memory.embeddings.resolution import (
    NONE,
    EmbeddingChoice,
    EmbeddingSources,
    choose_embeddings,
)
from hermitcrab.memory.transcripts import GuardedMemory, TranscriptSource
from hermitcrab.plugins.host import PluginHost

logger = logging.getLogger("hermitcrab.agent")


@frozen(kw_only=True)
class MemoryParts:
    """The backend, why there is none although one was wanted, and the embedding provider.

    The provider stays the agent's to close, after the backend. ``fallback`` is the part of the backend that knows
    whether the selected one answers.
    """

    backend: MemoryBackend | None = None
    failure: str | None = None
    fallback: FallbackMemory | None = None
    embeddings: EmbeddingChoice = field(factory=lambda: EmbeddingChoice(requested=NONE))

    @property
    def problem(self) -> str | None:
        """Why the selected backend does not answer right now, if it does not."""
        return self.failure if self.fallback is None else self.fallback.problem

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
    transcripts: TranscriptSource | None = None,
    falls_back: bool = True,
) -> MemoryParts:
    """The memory that config asks for. What cannot be made is reported, not fatal.

    :param transcripts: the agent's session transcripts, where its settings make them part of its memory.
    :param falls_back: whether memory-core takes the place of a selected backend that fails.
    """
    slot = config.plugins.slots.memory
    if slot == "none" or not settings.memory_search.enabled:
        return MemoryParts()
    factory = plugins.registries.memory_backends.find(slot)
    falls_back = falls_back and plugins.has_standby_memory
    # A slot that names nothing installed is a mistake in the config, and not a backend that fails.
    if factory is None and not (falls_back and slot in plugins.records):
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
        transcripts=transcripts,
    )
    if falls_back:
        fallback = _fallback(slot, factory, context, plugins)
        await fallback.start()
        guarded = GuardedMemory(fallback, transcripts)
        return MemoryParts(backend=guarded, fallback=fallback, embeddings=embeddings)
    try:
        backend = await _made(factory, context)
    except Exception as error:
        logger.warning(
            "memory backend '%s' failed to start", slot, exc_info=True, extra={"plugin_id": slot}
        )
        failure = f"memory backend '{slot}' failed to start: {error}"
        return MemoryParts(failure=failure, embeddings=embeddings)
    return MemoryParts(backend=GuardedMemory(backend, transcripts), embeddings=embeddings)


async def _made(factory: Any, context: MemoryContext) -> MemoryBackend:
    made = factory(context) if _takes_argument(factory) else factory()
    backend: MemoryBackend = await made if inspect.isawaitable(made) else made
    return backend


def _fallback(
    slot: str, factory: Any, context: MemoryContext, plugins: PluginHost
) -> FallbackMemory:
    """The selected backend with memory-core behind it, which has an index of its own and asks nobody for vectors."""

    async def make() -> MemoryBackend:
        if factory is None:
            record = plugins.records[slot]
            reason = None if record.status == "loaded" else record.error or record.reason
            raise MemoryBackendError(reason or "its plugin does not register it")
        return await _made(factory, context)

    async def make_spare() -> MemoryBackend:
        spare = await asyncio.to_thread(plugins.standby_memory)
        index = context.index_path.with_name(f"{context.index_path.stem}-keywords.sqlite")
        return await _made(
            spare.factory,
            evolve(
                context,
                index_path=index,
                plugin_config=spare.plugin_config,
                embeddings=None,
                embeddings_problem=None,
            ),
        )

    return FallbackMemory(slot, make, make_spare)


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
