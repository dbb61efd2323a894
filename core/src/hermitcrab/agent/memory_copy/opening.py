"""Opening two memory backends over one home, whatever the memory slot of its configuration names."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from attrs import evolve

from hermitcrab.agent.agent import make_folders, workspace_of
from hermitcrab.agent.memory_copy.copying import CopyReport, Move
from hermitcrab.agent.memory_parts import make_memory
from hermitcrab.config import Config, agent_settings, default_agent_id
from hermitcrab.context.registry import HostEngineRegistry
from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory.contract import MemoryBackend, Progress
from hermitcrab.memory.transcripts import transcripts_of
from hermitcrab.plugins.host import PluginHost
from hermitcrab.plugins.registration import PluginRegistries
from hermitcrab.sessions.entries import SessionEntries


async def copy_memory(
    config: Config,
    *,
    home: Path,
    source: str,
    target: str,
    agent_id: str | None = None,
    safe_mode: bool = False,
    environ: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> CopyReport:
    """Take what an agent's memory ``source`` knows to ``target``; both are ids of memory plugins.

    :param agent_id: by default the default agent.
    :param safe_mode: load no third-party plugins.
    :raises MemoryBackendError: one of them is not there, does not start, or fails.
    """
    if source == target:
        raise MemoryBackendError(
            f"{source} is where the memories are already",
            where="--to",
            hint="Name another memory plugin",
        )
    environ = os.environ if environ is None else environ
    agent_id = agent_id or default_agent_id(config)
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(
                _opened(_with_slot(config, slot), agent_id, home, environ, safe_mode)
            )
            for slot in (source, target)
        ]
        move = Move(
            agent_id=agent_id,
            workspace=workspace_of(config, agent_id, home),
            source_id=source,
            source=opened[0],
            target_id=target,
            target=opened[1],
        )
        return await move.run(progress)


def _with_slot(config: Config, memory: str) -> Config:
    slots = evolve(config.plugins.slots, memory=memory)
    return evolve(config, plugins=evolve(config.plugins, slots=slots))


@asynccontextmanager
async def _opened(
    config: Config, agent_id: str, home: Path, environ: Mapping[str, str], safe_mode: bool
) -> AsyncIterator[MemoryBackend]:
    """The backend that an agent has with this configuration, open as long as the context lasts."""
    workspace, folder = workspace_of(config, agent_id, home), home / "agents" / agent_id
    make_folders(workspace, folder / "sessions")
    settings = agent_settings(config, agent_id)
    entries = SessionEntries(folder / "sessions" / "sessions.sqlite")
    plugins = PluginHost.load(
        config.plugins,
        registries=PluginRegistries(context_engines=HostEngineRegistry()),
        safe_mode=safe_mode,
        environ=environ,
    )
    try:
        parts = await make_memory(
            config,
            settings,
            workspace=workspace,
            folder=folder,
            home=home,
            plugins=plugins,
            environ=environ,
            transcripts=transcripts_of(
                settings.memory_search,
                folder=folder / "sessions",
                entries=entries.list,
                agent_id=agent_id,
            ),
            falls_back=False,
        )
        try:
            yield _checked(parts.backend, parts.failure, config, agent_id)
        finally:
            await parts.close()
    finally:
        plugins.close()
        entries.close()


def _checked(
    backend: MemoryBackend | None, failure: str | None, config: Config, agent_id: str
) -> MemoryBackend:
    """The backend itself; another one that would stand in for it is no place to copy to."""
    if backend is None or failure is not None:
        raise MemoryBackendError(
            failure or f"memory search is off for the agent {agent_id}",
            where=f"memory backend {config.plugins.slots.memory}",
            hint=None if failure else "Set memorySearch.enabled to true",
        )
    return backend
