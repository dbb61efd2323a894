"""Opening sessions: the transcript, the engine, and the hooks that tell of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from attrs import evolve

from hermitcrab.agent.agent import Agent, workspace_of
from hermitcrab.agent.clock import zone_of
from hermitcrab.agent.housekeeping import tell_deleted
from hermitcrab.agent.memory_sync import MemorySync
from hermitcrab.agent.memory_triggers import MemoryTriggers
from hermitcrab.agent.parts import SessionParts
from hermitcrab.agent.services import Services
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.telling import (
    replacement,
    tell_before_reset,
    tell_over,
    tell_replaced,
    tell_started,
)
from hermitcrab.compaction.providers import ChosenProvider, choose_provider
from hermitcrab.context import EngineContext
from hermitcrab.context.resolve import ResolvedEngine, resolve_engine, selected_engine_id
from hermitcrab.hooks import HookContext
from hermitcrab.models.contract import ChatModel
from hermitcrab.sessions.history_limits import history_limit_for
from hermitcrab.sessions.log import SessionLog
from hermitcrab.sessions.maintenance.removing import Removed

if TYPE_CHECKING:
    from pathlib import Path

    from hermitcrab.config import Config
    from hermitcrab.context.registry import HostEngineRegistry
    from hermitcrab.plugins.host import PluginHost

logger = logging.getLogger("hermitcrab.agent")


class SessionOpener:
    """Opens each session once, and keeps it with its engine until the host closes."""

    def __init__(self, services: Services, sync: MemorySync) -> None:
        self._services = services
        self._sync = sync
        self._triggers = MemoryTriggers(sync)
        self._open: dict[str, SessionContext] = {}
        self._lock = asyncio.Lock()
        self._told: set[str] = set()

    async def open(
        self, key: str, *, is_new: bool = False, provenance: Mapping[str, Any] | None = None
    ) -> SessionContext:
        """The session under a stored key; a new one is begun where there is none.

        A session that another process has begun under the key meanwhile takes the place of the one we know.

        :param is_new: whether it begins now though it has messages, such as those that a fork takes over.
        :param provenance: where the input came from that opens it, for the hooks.
        """
        async with self._lock:
            agent = await self._services.agent_of(key)
            known = self._open.get(key)
            log = await agent.sessions.open(key)
            if known is not None and known.log is log:
                return known
            context = await self._context(agent, log)
            context.hook_context = evolve(context.hook_context, provenance=provenance)
            self._open[key] = context
            if known is not None:
                await self._displace(known, context, "unknown")
            if is_new or not log.items():
                tell_started(context)
            return context

    async def begin(
        self, key: str, reason: str = "new", *, provenance: Mapping[str, Any] | None = None
    ) -> SessionContext:
        """A new session id under ``key``, whether or not there was one before, and whether or not it can be read."""
        async with self._lock:
            agent = await self._services.agent_of(key)
            known = self._open.get(key)
            context = await self._context(agent, await agent.sessions.start_new(key))
            context.hook_context = evolve(context.hook_context, provenance=provenance)
            context.begun_by = reason
            self._open[key] = context
            if known is not None:
                await self._displace(known, context, reason)
        previous = context.log.entry.previous_session_ids
        if previous:
            file = agent.sessions.path(previous[-1])
            tell_replaced(self._services, context, previous[-1], file, reason)
        tell_started(context, previous[-1] if previous else None)
        return context

    async def start_new(self, key: str, old: SessionContext, reason: str) -> SessionContext:
        """Begin a new session id under ``key``; tells plugins of the end and the beginning.

        :raises SessionStateError: if a turn or a compaction runs in the old one.
        """
        async with self._lock:
            old.activity.check("reset")
            tell_before_reset(old, reason)
            agent = await self._services.agent_of(key)
            log = await agent.sessions.start_new(key)
            context = await self._context(agent, log)
            context.begun_by = reason
            source = old.hook_context
            context.hook_context = evolve(
                context.hook_context, channel=source.channel, provenance=source.provenance
            )
            self._open[key] = context
        old.activity.archive()
        session_id = old.log.session_id
        tell_replaced(
            self._services, context, session_id, old.log.file, reason, entry=old.log.entry
        )
        tell_started(context, session_id)
        await old.close()
        return context

    def keys(self) -> frozenset[str]:
        """The sessions that are open."""
        return frozenset(self._open)

    @asynccontextmanager
    async def held(self, key: str) -> AsyncIterator[bool]:
        """Keep sessions from being opened meanwhile; tells whether this one is open."""
        async with self._lock:
            yield key in self._open

    async def delete(self, key: str) -> Removed:
        """Delete the session under a stored key; its transcripts stay as archives for a while.

        :raises SessionNotFoundError: if there is no such session.
        :raises SessionError: if it cannot be deleted, such as because a turn runs in it.
        """
        async with self._lock:
            known = self._open.get(key)
            if known is not None:
                known.activity.check("reset")
            agent = await self._services.agent_of(key)
            removed = await agent.sessions.delete(key)
            self._open.pop(key, None)
        tell_deleted(self._services, removed)
        if known is not None:
            known.activity.archive()
            await known.close()
        return removed

    def end_all(self, reason: str) -> None:
        """Tell plugins once that the open sessions are over, which they are for this process."""
        for context in self._open.values():
            self._tell_over(context, reason)

    async def release(self, key: str) -> None:
        """Let go of a session that nothing runs in; it opens again when it is asked for."""
        async with self._lock:
            context = self._open.get(key)
            if context is None or context.activity.state != "idle":
                return
            del self._open[key]
            (await self._services.agent_of(key)).sessions.release(key)
        self._tell_over(context, "unknown")
        await context.close()

    def _tell_over(self, context: SessionContext, reason: str) -> None:
        """Tell once that a session is over which no other one follows."""
        if context.log.session_id not in self._told:
            self._told.add(context.log.session_id)
            tell_over(self._services, context, reason)

    async def stop_triggers(self) -> None:
        """Look after the files of memory no more."""
        await self._triggers.close()

    async def close(self) -> None:
        """Release all engines."""
        for context in self._open.values():
            await context.close()
        self._open.clear()

    async def _displace(self, known: SessionContext, by: SessionContext, reason: str) -> None:
        """Let go of a session that has lost its key, be it to another process."""
        known.activity.archive()
        if reason == "unknown":
            self._services.session_events.emit(replacement(by, known.log.session_id, reason))
        await known.close()

    async def _context(self, agent: Agent, log: SessionLog) -> SessionContext:
        services = self._services
        settings = agent.settings
        engine = await self._engine(agent)
        flush_model = settings.compaction.memory_flush.model
        summary_model = settings.compaction.model
        parts = SessionParts(
            settings=settings,
            workspace=agent.workspace,
            flush_lock=agent.folder / "flush.lock",
            zone=zone_of(settings.user_timezone),
            counter=services.counter,
            hooks=services.hooks,
            history_limit=history_limit_for(log.key, services.config.session),
            group_history_limit=services.config.session.group_history_limit,
            citations=services.config.memory.citations,
            flush_model=self._model(flush_model),
            summary_model=self._model(summary_model),
            summary_window=await self._window(summary_model),
            summary_provider=self._provider(agent),
            memory=agent.memory,
            on_degraded=services.health.record_engine_used,
            thinking_levels=services.thinking_levels,
            after_compaction=lambda: self._sync.after_compaction(agent),
        )
        context = SessionContext(log, engine, parts, self._hook_context(agent, log))
        if log.items():
            await context.engine_calls.begin()
        self._triggers.session_opened(agent, log.key)
        return context

    def _provider(self, agent: Agent) -> ChosenProvider | None:
        """The compaction provider that config names."""
        services = self._services
        chosen = agent.settings.compaction.provider
        if chosen is None:
            return None
        return choose_provider(
            chosen,
            services.plugins.registries.compaction_providers,
            lambda plugin_id: EngineContext(
                config=services.config,
                plugin_config=services.plugins.plugin_config(plugin_id),
                agent_id=agent.agent_id,
                workspace=agent.workspace,
                home=services.home,
                logger=logging.getLogger("hermitcrab.compaction"),
            ),
        )

    def _model(self, reference: str | None) -> ChatModel | None:
        return None if reference is None else self._services.model_for(reference)

    async def _window(self, reference: str | None) -> int | None:
        model = self._model(reference)
        if model is None:
            return None
        return (await self._services.window_of(model, reference, None)).tokens

    def _hook_context(self, agent: Agent, log: SessionLog) -> HookContext:
        return self._services.hook_context(
            agent_id=agent.agent_id,
            session_key=log.key,
            session_id=log.session_id,
            workspace=agent.workspace,
            memory=agent.memory,
            trigger="user",
        )

    async def _engine(self, agent: Agent) -> ResolvedEngine:
        services = self._services
        return await resolve_for(
            agent.agent_id,
            config=services.config,
            home=services.home,
            plugins=services.plugins,
            engines=services.engines,
            workspace=agent.workspace,
        )


async def resolve_for(
    agent_id: str,
    *,
    config: Config,
    home: Path,
    plugins: PluginHost,
    engines: HostEngineRegistry,
    workspace: Path | None = None,
) -> ResolvedEngine:
    """Make the engine that a session of an agent gets.

    :raises ContextEngineError: the default engine is needed and missing or broken.
    """
    slot = config.plugins.slots.context_engine
    context = EngineContext(
        config=config,
        plugin_config=plugins.plugin_config(selected_engine_id(slot)),
        agent_id=agent_id,
        workspace=workspace or workspace_of(config, agent_id, home),
        home=home,
        logger=logging.getLogger("hermitcrab.context"),
    )

    def refusal(plugin_id: str) -> str | None:
        record = plugins.records.get(plugin_id)
        return record.reason if record is not None and record.status == "disabled" else None

    return await resolve_engine(
        engines,
        slot,
        context,
        default_context=evolve(context, plugin_config=plugins.plugin_config("legacy")),
        plugin_refusal=refusal,
    )
