"""Preparing a subagent: whatever can refuse or fail does so before anything runs (context 1.4)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
import uuid
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from hermitcrab.agent.agent import Agent
from hermitcrab.agent.events import Reply
from hermitcrab.agent.opening import SessionOpener
from hermitcrab.agent.services import Services
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.subagents.spawning import SpawnOutcome, SpawnRequest, SpawnResult
from hermitcrab.context.contract import has_method
from hermitcrab.context.results import SubagentPreparation
from hermitcrab.errors import SpawnRefusedError
from hermitcrab.hooks import SubagentSpawning
from hermitcrab.models.resolve import parse_model
from hermitcrab.sessions.blobs.files import blob_folder, restore_entry
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.events import change_of
from hermitcrab.sessions.forking import forked_entries
from hermitcrab.sessions.format import Entry
from hermitcrab.sessions.keys import agent_id_of

logger = logging.getLogger("hermitcrab.agent")


@define(kw_only=True, eq=False)
class SubagentRun:
    """One subagent from its admission to its end. ``stopped`` is why it is ended before its time."""

    request: SpawnRequest
    parent: SessionContext
    child: SessionContext | None = None
    key: str
    depth: int
    run_id: str = field(factory=lambda: uuid.uuid4().hex)
    session_id: str = field(factory=lambda: str(uuid.uuid4()))
    model_id: str = ""
    started: float = field(factory=time.monotonic)
    stopped: SpawnOutcome | None = None
    turn: asyncio.Task[Reply] | None = None
    driver: asyncio.Task[SpawnResult] | None = None

    @property
    def agent_id(self) -> str:
        return agent_id_of(self.key)

    @property
    def requester(self) -> dict[str, Any]:
        entry = self.parent.log.entry
        return {"sessionKey": entry.key, "channel": entry.channel, **(entry.origin or {})}

    @property
    def timeout_s(self) -> float | None:
        """How long it may take, in seconds."""
        asked = self.request.timeout_s
        configured = self.parent.parts.settings.subagents.run_timeout_seconds
        return (configured if asked is None else asked) or None

    def stop(self, outcome: SpawnOutcome) -> None:
        """End it; the first reason stands."""
        self.stopped = self.stopped or outcome
        if self.turn is not None:
            self.turn.cancel()


class SubagentStarter:
    """Makes the sessions of subagents."""

    def __init__(self, services: Services, opener: SessionOpener) -> None:
        self._services = services
        self._opener = opener

    async def start(self, run: SubagentRun) -> None:
        """Do everything that can refuse or fail; afterwards there is a session, and nothing runs in it yet."""
        request = run.request
        agent = await self._services.agent(run.agent_id)
        run.model_id = self._services.model_for(request.model or agent.settings.model).id
        decision = await run.parent.fire(
            SubagentSpawning(
                child_session_key=run.key,
                agent_id=run.agent_id,
                label=request.label,
                requester=run.requester,
            )
        )
        if decision is not None and decision.status == "error":
            reason = decision.error or "no reason given"
            raise SpawnRefusedError(f"a plugin refuses the subagent: {reason}", where=run.key)
        prepared = await self._prepare_engine(run, agent)
        try:
            await self._begin_session(run, agent)
            if run.stopped is not None:
                raise SpawnRefusedError(
                    f"the subagent was ended before it began: {run.stopped}", where=run.key
                )
        except BaseException:
            if prepared is not None:
                await _roll_back(prepared, run)
            raise

    async def _prepare_engine(self, run: SubagentRun, agent: Agent) -> SubagentPreparation | None:
        engine, parent = run.parent.engine.engine, run.parent.log
        if not has_method(engine, "prepare_subagent_spawn"):
            return None
        timeout_s = run.timeout_s
        try:
            return await engine.prepare_subagent_spawn(
                parent_session_key=parent.key,
                child_session_key=run.key,
                context_mode=run.request.context,
                parent_session_id=parent.session_id,
                parent_session_file=str(parent.file),
                child_session_id=run.session_id,
                child_session_file=str(agent.sessions.path(run.session_id)),
                ttl_ms=None if timeout_s is None else round(timeout_s * 1000),
            )
        except Exception as error:
            raise SpawnRefusedError(
                f"Context engine subagent preparation failed: {error}", where=run.key
            ) from error

    async def _begin_session(self, run: SubagentRun, agent: Agent) -> None:
        request, parent = run.request, run.parent.log
        now_ms = self._services.now_ms()
        entry = SessionEntry(
            key=run.key,
            session_id=run.session_id,
            updated_at=now_ms,
            session_started_at=now_ms,
            label=request.label,
            display_name=request.label,
            spawned_by=parent.key,
            spawn_depth=run.depth,
        )
        if request.model is not None:
            model = parse_model(request.model)
            entry = evolve(entry, provider_override=model.provider_id, model_override=model.name)
        if request.context == "fork":
            await parent.refresh()
            copied = await asyncio.to_thread(_forked, parent.path, parent.file)
            compactions = sum(each["type"] == "compaction" for each in copied)
            entry = evolve(entry, compaction_count=compactions)
            await agent.sessions.begin_child(entry, parent=str(parent.file), copied=copied)
        else:
            await agent.sessions.begin_child(entry)
        run.child = await self._opener.open(run.key, is_new=True)
        self._services.session_events.emit(change_of("spawned", entry))


def _forked(path: Sequence[Entry], file: Path) -> list[Entry]:
    """What a fork takes over, with what is kept beside the parent's transcript: the child keeps its own."""
    folder = blob_folder(file)
    return [restore_entry(entry, folder) for entry in forked_entries(path)]


async def _roll_back(prepared: SubagentPreparation, run: SubagentRun) -> None:
    """Undo what the engine prepared for a subagent that does not start; its failure is not the cause (context 1.4)."""
    try:
        undone: Awaitable[None] | None = prepared.rollback()
        if inspect.isawaitable(undone):
            await undone
    except Exception as error:
        logger.warning(
            "engine %s failed to roll back a subagent: %s",
            run.parent.engine.engine_id,
            error,
            exc_info=True,
            extra={"session_key": run.key, "plugin_id": run.parent.engine.engine_id},
        )
