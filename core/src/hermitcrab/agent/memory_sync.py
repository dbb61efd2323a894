"""Bringing the memory index up to date in the background, after turns and compactions."""

from __future__ import annotations

import asyncio
import logging

from hermitcrab.agent.agent import Agent
from hermitcrab.errors import HermitcrabError

logger = logging.getLogger("hermitcrab.agent")

#: How long closing waits for syncs that are under way, in seconds.
CLOSE_S = 30.0
#: How long a turn waits for a sync after a compaction (``postIndexSync: await``), in seconds.
LONGEST_WAIT_S = 60.0


class MemorySync:
    """Syncs memories in the background; ``error`` says why the last sync failed, if it did."""

    def __init__(self) -> None:
        self._syncs: set[asyncio.Task[None]] = set()
        self.error: str | None = None

    def start(self, agent: Agent, reason: str) -> None:
        """Bring the memory index up to date in the background; a failure is logged and shown in the next reply."""
        self._started(agent, reason)

    def _started(self, agent: Agent, reason: str) -> asyncio.Task[None] | None:
        if agent.memory is None:
            return None
        task = asyncio.ensure_future(self._sync(agent, reason))
        self._syncs.add(task)
        task.add_done_callback(self._syncs.discard)
        return task

    async def after_compaction(self, agent: Agent) -> None:
        """Sync as ``compaction.postIndexSync`` says; a sync that takes too long goes on in the background."""
        mode = agent.settings.compaction.post_index_sync
        task = None if mode == "off" else self._started(agent, "compaction")
        if task is not None and mode == "await":
            _, late = await asyncio.wait({task}, timeout=LONGEST_WAIT_S)
            if late:
                logger.warning("the memory of agent %s takes long to sync", agent.agent_id)

    async def _sync(self, agent: Agent, reason: str) -> None:
        if agent.memory is None:
            return
        try:
            await agent.memory.sync(reason)
        except (HermitcrabError, OSError) as error:
            self.error = f"the memory index is behind: {error}"
            logger.warning("the memory of agent %s did not sync: %s", agent.agent_id, error)
        except Exception as error:
            self.error = f"the memory index is behind: {type(error).__name__}: {error}"
            logger.exception("the memory of agent %s did not sync", agent.agent_id)
        else:
            self.error = None

    async def close(self) -> None:
        """Wait for syncs that are under way."""
        if self._syncs:
            await asyncio.wait(self._syncs, timeout=CLOSE_S)
