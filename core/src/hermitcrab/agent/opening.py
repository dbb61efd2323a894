"""Opening sessions: the transcript, the engine, and the hooks that tell of it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from attrs import evolve

from hermitcrab.agent.agent import Agent, workspace_of
from hermitcrab.agent.clock import zone_of
from hermitcrab.agent.parts import SessionParts
from hermitcrab.agent.services import Services
from hermitcrab.agent.session import SessionContext
from hermitcrab.context import EngineContext
from hermitcrab.context.resolve import ResolvedEngine, resolve_engine, selected_engine_id
from hermitcrab.hooks import HookContext, SessionEnd, SessionStart
from hermitcrab.models.contract import ChatModel
from hermitcrab.sessions.keys import agent_id_of
from hermitcrab.sessions.log import SessionLog

if TYPE_CHECKING:
    from pathlib import Path

    from hermitcrab.config import Config
    from hermitcrab.context.registry import HostEngineRegistry
    from hermitcrab.plugins.host import PluginHost

logger = logging.getLogger("hermitcrab.agent")


class SessionOpener:
    """Opens each session once, and keeps it with its engine until the host closes."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._open: dict[str, SessionContext] = {}
        self._lock = asyncio.Lock()

    async def open(self, key: str) -> SessionContext:
        """The session under a stored key; a new one is begun where there is none.

        A session that another process has begun under the key meanwhile takes the place of the one we know.
        """
        async with self._lock:
            agent = await self._services.agent(agent_id_of(key))
            known = self._open.get(key)
            log = await agent.sessions.open(key)
            if known is not None and known.log is log:
                return known
            context = await self._context(agent, log)
            self._open[key] = context
            if known is not None:
                await known.close()
            if not log.items():
                self._started(context, None)
            return context

    async def begin(self, key: str) -> SessionContext:
        """A new session id under ``key``, without the ceremony of a reset."""
        async with self._lock:
            agent = await self._services.agent(agent_id_of(key))
            context = await self._context(agent, await agent.sessions.start_new(key))
            self._open[key] = context
            self._started(context, None)
            return context

    async def start_new(self, key: str, old: SessionContext, reason: str) -> SessionContext:
        """Begin a new session id under ``key``; tells plugins of the end and the beginning."""
        async with self._lock:
            agent = await self._services.agent(agent_id_of(key))
            log = await agent.sessions.start_new(key)
            context = await self._context(agent, log)
            self._open[key] = context
        duration = self._services.now_ms() - old.log.entry.session_started_at
        old.fire_background(
            SessionEnd(
                session_id=old.log.session_id,
                session_key=key,
                message_count=old.log.entry.message_count,
                duration_ms=max(0, duration),
                reason=reason,
                session_file=str(old.log.file),
                next_session_id=log.session_id,
                next_session_key=key,
            )
        )
        self._started(context, old.log.session_id)
        await old.close()
        return context

    async def close(self) -> None:
        """Release all engines."""
        for context in self._open.values():
            await context.close()
        self._open.clear()

    def _started(self, context: SessionContext, resumed_from: str | None) -> None:
        context.fire_background(
            SessionStart(
                session_id=context.log.session_id,
                session_key=context.log.key,
                resumed_from=resumed_from,
            )
        )

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
            history_limit=services.config.session.history_limit,
            citations=services.config.memory.citations,
            flush_model=self._model(flush_model),
            summary_model=self._model(summary_model),
            summary_window=await self._window(summary_model),
            memory=agent.memory,
            on_degraded=services.health.record_engine_used,
        )
        context = SessionContext(log, engine, parts, self._hook_context(agent, log))
        if log.items():
            await context.engine_calls.begin()
        return context

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
