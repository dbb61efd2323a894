"""The host: opens a home, loads plugins, and runs turns (design 4, 6)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermitcrab.agent.addressing import owner_of
from hermitcrab.agent.agent import Agent, make_folders
from hermitcrab.agent.clock import Clock, system_clock
from hermitcrab.agent.commands.calls import ChatCommand, ModelFacts
from hermitcrab.agent.events import Reply, TurnEvent
from hermitcrab.agent.handle import Session
from hermitcrab.agent.housekeeping import Housekeeping
from hermitcrab.agent.memory_sync import MemorySync
from hermitcrab.agent.opening import SessionOpener
from hermitcrab.agent.reception import Reception
from hermitcrab.agent.services import Services
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.setup import TurnSetup, set_up_turn
from hermitcrab.agent.status import describe_session
from hermitcrab.agent.subagents.spawning import Cleanup, SpawnRequest, SpawnResult
from hermitcrab.agent.subagents.subagents import Subagents
from hermitcrab.compaction.diagnostics import missing_for_compaction
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.config import Config, load_config, resolve_home
from hermitcrab.context.contract import SubagentContextMode
from hermitcrab.context.registry import HostEngineRegistry, QuarantineRecord
from hermitcrab.errors import MemoryBackendError, TranscriptError
from hermitcrab.hooks import GatewayStart, GatewayStop
from hermitcrab.hooks.dispatcher import HookDispatcher
from hermitcrab.memory.contract import MemoryBackend
from hermitcrab.messages.tokens import TokenCounter, load_counter
from hermitcrab.models.contract import ChatModel
from hermitcrab.plugins.health import HealthStore
from hermitcrab.plugins.host import PluginHost
from hermitcrab.plugins.registration import PluginRegistries
from hermitcrab.sessions.effective_levels import SessionLevels
from hermitcrab.sessions.entries import SessionEntry
from hermitcrab.sessions.events import SessionListener
from hermitcrab.sessions.inbound import InboundMessage
from hermitcrab.sessions.maintenance.removing import Removed

logger = logging.getLogger("hermitcrab.agent")

#: Keys of the home directory's own files.
CONFIG_FILE = "config.yaml"
HEALTH_FILE = "health.sqlite"


class Host:
    """A running hermitcrab: use :meth:`open`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._sync = MemorySync()
        self._opener = SessionOpener(services, self._sync)
        self._housekeeping = Housekeeping(services, self._opener)
        self._reception = Reception(services, self._opener, self._sync, self)
        self._subagents = Subagents(services, self._opener, self._reception)
        services.session_tools = self._subagents.tools_for

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        home: Path | str | None = None,
        config: Config | Path | str | None = None,
        model: ChatModel | None = None,
        plugins: Sequence[tuple[str, Any]] | None = None,
        clock: Clock | None = None,
        safe_mode: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Host]:
        """Open a home for as long as the context lasts.

        :param home: the folder of everything; default ``$HERMITCRAB_HOME``, else ``~/.hermitcrab``.
        :param config: a configuration, or the path of one; default ``config.yaml`` in the home.
        :param model: answers instead of the configured models.
        :param plugins: plugins given in code, as (id, module or instance).
        :param clock: returns the time, with a time zone; default the system's.
        :param safe_mode: start without third-party plugins.
        :raises ConfigError: if the configuration is wrong.
        :raises HermitcrabError: if the home cannot be used.
        """
        environ = os.environ if environ is None else environ
        folder = resolve_home(home, environ)
        loaded = (
            config
            if isinstance(config, Config)
            else load_config(None if config is None else Path(config), home=folder, environ=environ)
        )
        await asyncio.to_thread(make_folders, folder)
        health = HealthStore(folder / HEALTH_FILE)
        engines = HostEngineRegistry(on_quarantine=lambda record: _keep(health, record))
        plugin_host = PluginHost.load(
            loaded.plugins,
            registries=PluginRegistries(context_engines=engines),
            extra_plugins=plugins or (),
            safe_mode=safe_mode,
            environ=environ,
        )
        plugin_host.report(missing_for_compaction(loaded, plugin_host))
        services = Services(
            home=folder,
            config=loaded,
            counter=await asyncio.to_thread(load_counter, environ),
            plugins=plugin_host,
            engines=engines,
            health=health,
            model=model,
            clock=clock or system_clock,
            environ=environ,
        )
        host = cls(services)
        try:
            await services.agent()
            services.hooks.fire_background(GatewayStart(), services.hook_context())
            host._housekeeping.start()
            yield host
        finally:
            await host.close()

    # -- conversations ------------------------------------------------------------------------

    async def send(
        self, key: str, text: str, *, provenance: Mapping[str, Any] | None = None
    ) -> Reply:
        """Say something in a session and get the reply.

        :param key: a session key; ``main`` and other short forms belong to the default agent.
        :raises ModelError: if the model fails.
        """
        return await self._reception.receive(self._inbound(key, text), provenance=provenance)

    async def receive(
        self, message: InboundMessage, *, provenance: Mapping[str, Any] | None = None
    ) -> Reply:
        """Take a message from a channel: find its session, and run the turn."""
        return await self._reception.receive(message, provenance=provenance)

    async def stream(
        self, key: str, text: str, *, provenance: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[TurnEvent, None]:
        """The events of a turn as they happen; the last one is the :class:`Reply`.

        Leaving the loop early cancels the answer; the turn so far is kept.
        """
        queue: asyncio.Queue[TurnEvent | None] = asyncio.Queue()
        turn = asyncio.ensure_future(
            self._reception.receive(
                self._inbound(key, text), provenance=provenance, emit=queue.put_nowait
            )
        )
        turn.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            yield await turn
        finally:
            if not turn.done():
                turn.cancel()
                await asyncio.wait([turn])
                if not turn.cancelled() and turn.exception() is not None:
                    logger.warning("a turn that nobody listened to failed: %s", turn.exception())

    async def session(self, key: str) -> Session:
        """A session to drive with your own loop."""
        context = await self._opener.open(self.store_key(key))
        await context.log.refresh()
        return Session(context, self._services, self._sync)

    async def continue_turn(self, key: str, text: str) -> Reply:
        """Run a turn in a session that the caller holds already, such as from a chat command."""
        return await self._reception.answer(self._inbound(key, text))

    async def compact(self, key: str, *, instructions: str | None = None) -> CompactionOutcome:
        """Compact a session now, once its running turn is over (context 6.6)."""
        stored = self.store_key(key)
        async with self._reception.turn(stored):
            return await self.compact_now(await self._opener.open(stored), instructions)

    async def compact_now(
        self, context: SessionContext, instructions: str | None
    ) -> CompactionOutcome:
        """Compact a session that the caller holds, such as from a chat command."""
        return await self._reception.compact(context, instructions)

    async def reset(self, key: str, *, reason: str = "new") -> None:
        """Begin a new session id under a key, once its running turn is over; the old transcript is kept."""
        stored = self.store_key(key)
        async with self._reception.turn(stored):
            try:
                old = await self._opener.open(stored)
            except TranscriptError as error:
                logger.warning("%s", error, extra={"session_key": stored})
                await self._subagents.end_children(stored, "reset")
                await self._opener.begin(stored, reason)
            else:
                await self.reset_now(old, reason)

    async def reset_now(self, old: SessionContext, reason: str) -> SessionContext:
        """Begin a new session id in place of one that the caller holds; its subagents end.

        :raises SessionStateError: if a turn runs in it.
        """
        old.activity.check("reset")
        await self._subagents.end_children(old.log.key, "reset")
        return await self._opener.start_new(old.log.key, old, reason)

    async def delete_session(self, key: str) -> Removed:
        """Delete a session, once its running turn is over; its transcripts stay as archives for a while.

        :raises SessionError: if there is none, or if it cannot be deleted; it is as it was then.
        """
        stored = self.store_key(key)
        async with self._reception.turn(stored):
            await self._subagents.end_children(stored, "deleted")
            return await self._opener.delete(stored)

    async def spawn(
        self,
        parent: str,
        prompt: str,
        *,
        context: SubagentContextMode = "isolated",
        label: str | None = None,
        agent_id: str | None = None,
        model: str | None = None,
        timeout_s: float | None = None,
        cleanup: Cleanup = "keep",
    ) -> SpawnResult:
        """Have a subagent of a session do a task, wait for it, and hand its result to that session.

        The result is appended to the parent's conversation, after the turn that may run there. Cancelling this ends
        the subagent, and so do a reset of the parent and the end of the host. May be called within a turn.

        :param context: ``fork`` begins with a copy of the parent's conversation, ``isolated`` with nothing.
        :param agent_id: another agent, which ``agents.defaults.subagents.allowAgents`` must name.
        :param model: ``provider/name``; by default the agent's.
        :param timeout_s: seconds, 0 for no limit; by default ``agents.defaults.subagents.runTimeoutSeconds``.
        :param cleanup: ``delete`` deletes the subagent's session afterwards; an archive stays for a while.
        :raises SpawnRefusedError: if it may not start: its depth, too many, a plugin, or the engine.
        :raises ConfigError: if nobody knows the model.
        """
        request = SpawnRequest(
            prompt=prompt,
            context=context,
            label=label,
            agent_id=agent_id,
            model=model,
            timeout_s=timeout_s,
            cleanup=cleanup,
        )
        return await self._subagents.spawn(self.store_key(parent), request)

    def on_session_event(self, listener: SessionListener) -> Callable[[], None]:
        """Tell ``listener`` what becomes of sessions and transcripts, once it is on disk (sessions 4).

        It is called in the event loop and must not block.

        :return: ends it; may be called twice, and inside a listener.
        """
        return self._services.session_events.listen(listener)

    async def patch_session(self, key: str, patch: Mapping[str, Any]) -> SessionEntry:
        """Set fields of a session by their JSON names; null deletes one, all or nothing (sessions 5.1).

        ``model`` is ``provider/name``, or null for the configured model.

        :raises SessionNotFoundError: if there is no such session.
        :raises SessionError: for an unknown field or an invalid value.
        :raises ConfigError: for a model that nobody can make.
        """
        stored = self.store_key(key)
        agent = await self._services.agent_of(stored)
        return await agent.sessions.patch(stored, patch)

    async def levels(self, key: str) -> SessionLevels:
        """The levels that hold in a session: thinking, fast, verbose, reasoning; each with its source."""
        context = await self._opener.open(self.store_key(key))
        await context.log.refresh()
        return await self._services.levels(context.log.entry)

    async def describe_session(self, context: SessionContext) -> dict[str, str]:
        """The state of a session in words, in the order in which a person reads it."""
        setup = await self.set_up(context)
        return await describe_session(
            context, setup, self.config.session, tokenizer=self._services.counter.name
        )

    def commands(self) -> dict[str, ChatCommand]:
        """All chat commands."""
        return self._services.commands()

    def model_facts(self, session: SessionContext) -> ModelFacts:
        """The model that a session has chosen, and what it can be told."""
        return self._services.model_facts(session.log.entry)

    # -- parts --------------------------------------------------------------------------------

    @property
    def memory(self) -> MemoryBackend:
        """The memory of the default agent.

        :raises MemoryBackendError: if it has none.
        """
        agent = self._services.default_agent
        if agent.memory is None:
            reason = agent.memory_failure or "the slot is none"
            raise MemoryBackendError(
                f"the agent has no memory: {reason}",
                where="plugins.slots.memory",
                hint="Select a memory plugin, such as memory-core.",
            )
        return agent.memory

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._services.config

    @property
    def home(self) -> Path:
        """The folder of everything."""
        return self._services.home

    @property
    def plugins(self) -> PluginHost:
        """The plugins, loaded or not, and what is to be said of them."""
        return self._services.plugins

    @property
    def hooks(self) -> HookDispatcher:
        """Fires the hooks of this host's plugins."""
        return self._services.hooks

    @property
    def counter(self) -> TokenCounter:
        """Counts tokens, exactly or by estimate."""
        return self._services.counter

    async def agent(self, agent_id: str | None = None) -> Agent:
        """An agent's parts, made when they are first needed."""
        return await self._services.agent(agent_id)

    def store_key(self, key: str) -> str:
        """The key under which a session is stored."""
        return self._services.store_key(key)

    async def open_session(self, key: str) -> SessionContext:
        """The session under a stored key, with its engine."""
        return await self._opener.open(key)

    async def begin_session(self, key: str) -> SessionContext:
        """A new session id under a key, whether or not there was one before."""
        return await self._opener.begin(self.store_key(key))

    async def set_up(self, context: SessionContext, prompt: str | None = None) -> TurnSetup:
        """The model, the tools and the system prompt of a session's next turn."""
        return await set_up_turn(self._services, context, prompt)

    # -- the end ------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the turns that still run, wait for what runs in the background, then release everything."""
        services = self._services
        self._subagents.stop()
        await self._reception.end_turns()
        await self._subagents.close()
        await self._housekeeping.close()
        await self._opener.stop_triggers()
        await self._sync.close()
        self._opener.end_all("shutdown")
        await services.hooks.close()
        await services.hooks.fire(GatewayStop(reason="close"), services.hook_context())
        await self._opener.close()
        await services.close()
        services.session_events.close()

    def _inbound(self, key: str, text: str) -> InboundMessage:
        stored = self.store_key(key)
        owner = owner_of(self._services.config, stored)
        return InboundMessage(text=text, agent_id=owner, session_key=stored)


def _keep(health: HealthStore, record: QuarantineRecord) -> None:
    health.record_quarantine(
        record.engine_id, record.owner, record.operation, record.reason, record.failed_at
    )
