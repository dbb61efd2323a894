"""Seeing to old sessions while a host is open: in the background, once a day for each agent (sessions 2.8)."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hermitcrab.errors import SessionError
from hermitcrab.hooks import SessionEnd
from hermitcrab.sessions.database import is_writable
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.maintenance.plan import (
    FileRemoval,
    Limits,
    Plan,
    SessionRemoval,
    describe_plan,
)
from hermitcrab.sessions.maintenance.removing import Removed, Skipped
from hermitcrab.sessions.maintenance.upkeep import EVERY_MS, Outcome, Upkeep

if TYPE_CHECKING:
    from hermitcrab.agent.opening import SessionOpener
    from hermitcrab.agent.services import Services

logger = logging.getLogger("hermitcrab.agent")

#: How long closing waits for what is under way, in seconds; it ends between two removals.
CLOSE_S = 30.0


class Housekeeping:
    """Says what of the sessions of a home is due to go, or removes it, as ``session.maintenance`` has it."""

    def __init__(self, services: Services, opener: SessionOpener) -> None:
        self._services = services
        self._opener = opener
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; from now on each agent is seen to once a day."""
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """End what is under way."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_S)

    async def _run(self) -> None:
        while not self._stop.is_set():
            for agent_id, folder in await asyncio.to_thread(list, self._folders()):
                try:
                    await self._see_to(agent_id, folder)
                except (SessionError, OSError) as error:
                    logger.warning("the sessions of agent %s were not seen to: %s", agent_id, error)
                except Exception:
                    logger.exception("the sessions of agent %s were not seen to", agent_id)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), EVERY_MS / 1000)

    def _folders(self) -> Iterator[tuple[str, Path]]:
        """The agents that have sessions, and where; what cannot be written to is left alone."""
        for table in sorted(self._services.home.glob("agents/*/sessions/sessions.sqlite")):
            if is_writable(table.parent):
                yield table.parent.parent.name, table.parent

    async def _see_to(self, agent_id: str, folder: Path) -> None:
        session = self._services.config.session
        entries = SessionEntries(folder / "sessions.sqlite")
        try:
            upkeep = Upkeep(
                entries,
                Limits.of(session.maintenance),
                clock=self._services.clock,
                main_key=session.main_key,
            )
            if self._stop.is_set() or not await asyncio.to_thread(upkeep.claim):
                return
            plan = await asyncio.to_thread(
                functools.partial(upkeep.plan, preserve=self._opener.keys(), is_automatic=True)
            )
            if session.maintenance.mode == "warn":
                _warn(agent_id, plan)
                return
            outcome = await self._carry_out(upkeep, plan)
            if len(outcome.removed) + len(outcome.skipped) < len(plan.removals):
                await asyncio.to_thread(upkeep.release)
            else:
                await asyncio.to_thread(upkeep.keep_outcome, outcome)
            if outcome.removed:
                logger.info("agent %s: removed %d of what was due", agent_id, len(outcome.removed))
        finally:
            await asyncio.to_thread(entries.close)

    async def _carry_out(self, upkeep: Upkeep, plan: Plan) -> Outcome:
        removed: list[Removed] = []
        skipped: list[Skipped] = []
        for removal in plan.removals:
            if self._stop.is_set():
                break
            result = await self._remove(upkeep, removal)
            if isinstance(result, Removed):
                removed.append(result)
                tell_deleted(self._services, result)
                self._services.session_events.emit(result.event)
            else:
                skipped.append(result)
        return Outcome(removed=tuple(removed), skipped=tuple(skipped))

    async def _remove(
        self, upkeep: Upkeep, removal: SessionRemoval | FileRemoval
    ) -> Removed | Skipped:
        if isinstance(removal, FileRemoval):
            return await asyncio.to_thread(upkeep.remove, removal)
        async with self._opener.held(removal.entry.key) as is_open:
            if is_open:
                return Skipped(removal=removal, why="it is in use")
            return await asyncio.to_thread(upkeep.remove, removal)


def tell_deleted(services: Services, removed: Removed) -> None:
    """Tell plugins that a session is over because it was deleted."""
    removal = removed.removal
    if not isinstance(removal, SessionRemoval):
        return
    entry = removal.entry
    services.hooks.fire_background(
        SessionEnd(
            session_id=entry.session_id,
            session_key=entry.key,
            message_count=entry.message_count,
            reason="deleted",
            session_file=str(removed.archives[-1]) if removed.archives else None,
            transcript_archived=bool(removed.archives),
        ),
        services.hook_context(session_key=entry.key, session_id=entry.session_id),
    )


def _warn(agent_id: str, plan: Plan) -> None:
    """Say once a day what would go (sessions 2.8)."""
    if not plan.removals:
        return
    counts = plan.counts
    logger.warning(
        "agent %s: %s; nothing is removed while session.maintenance.mode is warn, see `hermitcrab sessions prune"
        " --dry-run`",
        agent_id,
        describe_plan(plan),
        extra={
            "would_prune": counts["age"],
            "would_cap": counts["cap"],
            "total": plan.sessions,
            "max_entries": plan.limits.max_entries,
        },
    )
