"""What belongs to one agent: its folders, its sessions, its memory and its tools (design 5, 7)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from hermitcrab.agent.clock import Clock
from hermitcrab.agent.commands.override_rules import AgentOverrideRules
from hermitcrab.agent.long_term_tools import long_term_tools
from hermitcrab.agent.memory_parts import MemoryParts, make_memory
from hermitcrab.agent.plugin_tools import plugin_tools
from hermitcrab.agent.subagents.spawning import SPAWN_TOOL
from hermitcrab.agent.tools import MemoryToolSettings, Tool, builtin_tools
from hermitcrab.config import AgentSettings, Config, agent_settings, default_agent_id
from hermitcrab.errors import HermitcrabError
from hermitcrab.memory.transcripts import transcripts_of
from hermitcrab.plugins.host import PluginHost
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.events import SessionEvents
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

logger = logging.getLogger("hermitcrab.agent")


class Agent:
    """One agent of a host."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        workspace: Path,
        folder: Path,
        sessions: Sessions,
        memory: MemoryParts,
        tools: list[Tool],
    ) -> None:
        self.settings = settings
        self.workspace = workspace
        self.folder = folder
        self.sessions = sessions
        self.memory = memory.backend
        self.embeddings = memory.embeddings
        self.tools = tools
        self._memory = memory

    @property
    def memory_failure(self) -> str | None:
        """Why the selected memory backend does not answer right now, if it does not."""
        return self._memory.problem

    @property
    def agent_id(self) -> str:
        return self.settings.agent_id

    async def close(self) -> None:
        """Close the sessions and the memory."""
        await self.sessions.close()
        await self._memory.close()


def workspace_of(config: Config, agent_id: str, home: Path) -> Path:
    """The workspace of an agent; no two agents share one unless config says so for each of them."""
    own = next((entry.workspace for entry in config.agents.list if entry.id == agent_id), None)
    shared = config.agents.defaults.workspace
    is_default = agent_id == default_agent_id(config)
    if own is not None:
        return home / Path(own).expanduser()
    if shared is not None:
        base = home / Path(shared).expanduser()
        return base if is_default else base.with_name(f"{base.name}-{agent_id}")
    return home / ("workspace" if agent_id == "main" else f"workspace-{agent_id}")


async def make_agent(
    agent_id: str,
    *,
    config: Config,
    home: Path,
    clock: Clock,
    plugins: PluginHost,
    check_model: Callable[[str], object] = lambda reference: None,
    thinking_levels: Callable[[str], Sequence[str]] = lambda reference: (),
    events: SessionEvents | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Agent:
    """Make an agent's folders and parts. A memory backend that cannot be made is reported, not fatal.

    :param check_model: raises ConfigError for a model, ``provider/name``, that nobody can make.
    :param thinking_levels: the thinking levels that a model can be told.
    :param events: told of what becomes of its sessions.
    :param environ: where keys of embedding providers may stand.
    :raises HermitcrabError: if its folders cannot be created.
    """
    settings = agent_settings(config, agent_id)
    workspace = workspace_of(config, agent_id, home)
    folder = home / "agents" / agent_id
    make_folders(workspace, folder / "sessions")
    store = JsonlTranscriptStore(
        folder / "sessions", lock_timeout_ms=config.session.lock_timeout_ms
    )
    entries = SessionEntries(folder / "sessions" / "sessions.sqlite")
    sessions = Sessions(
        store=store,
        entries=entries,
        clock=clock,
        cwd=str(workspace),
        durability=config.session.durability,
        main_key=config.session.main_key,
        rules=AgentOverrideRules(settings, check_model, thinking_levels),
        events=events,
    )
    memory = await make_memory(
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
    )
    tool_settings = MemoryToolSettings(
        citations=config.memory.citations,
        max_results=settings.memory_search.query.max_results,
    )
    tools = builtin_tools(memory.backend, tool_settings) + long_term_tools(memory.backend)
    tools += plugin_tools(plugins, {SPAWN_TOOL, *(tool.name for tool in tools)})
    return Agent(
        settings,
        workspace=workspace,
        folder=folder,
        sessions=sessions,
        memory=memory,
        tools=tools,
    )


def make_folders(*folders: Path) -> None:
    """Create folders that only their owner may read.

    :raises HermitcrabError: if one cannot be created.
    """
    for folder in folders:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        try:
            # mkdir(parents=True) would give the parents the default mode.
            for path in reversed(missing):
                path.mkdir(exist_ok=True, mode=0o700)
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise HermitcrabError(
                f"the folder cannot be created: {error.strerror or error}",
                where=folder,
                hint="Choose a writable place with --home or HERMITCRAB_HOME.",
            ) from error
