"""When memory is brought up to date by itself: as sessions begin, as files change, and every so often (memory 3.10)."""

from __future__ import annotations

import asyncio
import logging

from hermitcrab.agent.agent import Agent
from hermitcrab.agent.memory_sync import MemorySync
from hermitcrab.memory.watching import changes

logger = logging.getLogger("hermitcrab.agent")

#: A host that is open for less, such as that of a single command, watches nothing, in seconds.
SETTLED_S = 5.0


class MemoryTriggers:
    """Syncs the memories of a host's agents; each agent's begin with its first session, and end with the host."""

    def __init__(self, sync: MemorySync, *, settled_s: float = SETTLED_S) -> None:
        self._sync = sync
        self._settled_s = settled_s
        self._sessions: set[str] = set()
        self._agents: dict[str, list[asyncio.Task[None]]] = {}

    def session_opened(self, agent: Agent, key: str) -> None:
        """Sync in the background, once for each session key, and look after the agent's files from now on."""
        settings = agent.settings.memory_search.sync
        if agent.memory is None or key in self._sessions:
            return
        self._sessions.add(key)
        if settings.on_session_start:
            self._sync.start(agent, "session-start")
        if agent.agent_id not in self._agents:
            self._agents[agent.agent_id] = [
                asyncio.ensure_future(work) for work in (self._watch(agent), self._repeat(agent))
            ]

    async def close(self) -> None:
        """End all that goes on."""
        tasks = [task for tasks in self._agents.values() for task in tasks]
        self._agents.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, agent: Agent) -> None:
        settings = agent.settings.memory_search
        if not settings.sync.watch:
            return
        await asyncio.sleep(self._settled_s)
        try:
            async for _ in changes(
                agent.workspace,
                settings.extra_paths,
                debounce_ms=settings.sync.watch_debounce_ms,
            ):
                self._sync.start(agent, "watch")
        except Exception:
            logger.exception("the memory files of agent %s are not watched", agent.agent_id)

    async def _repeat(self, agent: Agent) -> None:
        minutes = agent.settings.memory_search.sync.interval_minutes
        while minutes > 0:
            await asyncio.sleep(minutes * 60)
            self._sync.start(agent, "interval")
