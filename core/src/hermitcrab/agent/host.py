"""The host: opens a home, loads plugins, and runs turns (design 4, 6)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from hermitcrab.agent.agent import Agent, make_agent, make_folders
from hermitcrab.agent.clock import Clock, system_clock
from hermitcrab.agent.commands import ChatCommand, all_commands
from hermitcrab.agent.events import Reply, TurnEvent
from hermitcrab.agent.handle import Session
from hermitcrab.agent.opening import SessionOpener
from hermitcrab.agent.reception import Reception, TurnSetup
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.status import describe_session
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.config import Config, default_agent_id, load_config, resolve_home
from hermitcrab.context.registry import HostEngineRegistry, QuarantineRecord
from hermitcrab.errors import MemoryBackendError, TranscriptError
from hermitcrab.hooks import AgentEnd, BeforeReset, GatewayStart, GatewayStop, HookContext
from hermitcrab.hooks.dispatcher import HookDispatcher
from hermitcrab.memory.contract import MemoryBackend
from hermitcrab.messages.tokens import TokenCounter, load_counter
from hermitcrab.models.contract import ChatModel
from hermitcrab.models.resolve import (
    ContextWindow,
    build_model,
    model_entry,
    resolve_context_window,
)
from hermitcrab.plugins.health import HealthStore
from hermitcrab.plugins.host import PluginHost
from hermitcrab.plugins.registration import PluginRegistries
from hermitcrab.sessions.entries import SessionEntry
from hermitcrab.sessions.inbound import InboundMessage, resolve_session_key
from hermitcrab.sessions.keys import agent_id_of, to_store_key

logger = logging.getLogger("hermitcrab.agent")

#: Keys of the home directory's own files.
CONFIG_FILE = "config.yaml"
HEALTH_FILE = "health.sqlite"


class Host:
    """A running hermitcrab: use :meth:`open`."""

    def __init__(
        self,
        *,
        home: Path,
        config: Config,
        counter: TokenCounter,
        plugins: PluginHost,
        engines: HostEngineRegistry,
        health: HealthStore,
        model: ChatModel | None,
        clock: Clock,
    ) -> None:
        self.home = home
        self.config = config
        self.counter = counter
        self.plugins = plugins
        self.engines = engines
        self.health = health
        self.clock = clock
        self.hooks = HookDispatcher(plugins.implementations, health)
        self._model = model
        self._models: dict[str | None, ChatModel] = {}
        self._windows: dict[str, ContextWindow] = {}
        self._agents: dict[str, Agent] = {}
        self._agent_lock = asyncio.Lock()
        self._opener = SessionOpener(self)
        self._reception = Reception(self)

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
        host = cls(
            home=folder,
            config=loaded,
            counter=await asyncio.to_thread(load_counter, environ),
            plugins=plugin_host,
            engines=engines,
            health=health,
            model=model,
            clock=clock or system_clock,
        )
        try:
            await host.agent()
            host.hooks.fire_background(GatewayStart(), host.hook_context())
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
            turn.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await turn

    async def session(self, key: str) -> Session:
        """A session to drive with your own loop."""
        context = await self._opener.open(self.store_key(key))
        return Session(self, context)

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
                await self._opener.begin(stored)
            else:
                await self.reset_now(old, reason)

    async def reset_now(self, old: SessionContext, reason: str) -> SessionContext:
        """Begin a new session id in place of one that the caller holds."""
        old.fire_background(
            BeforeReset(
                session_file=str(old.log.file),
                messages=[item.message for item in old.log.items()],
                reason=reason,
            )
        )
        return await self._opener.start_new(old.log.key, old, reason)

    # -- parts --------------------------------------------------------------------------------

    @property
    def memory(self) -> MemoryBackend:
        """The memory of the default agent.

        :raises MemoryBackendError: if it has none.
        """
        agent = self._agents[default_agent_id(self.config)]
        if agent.memory is None:
            reason = agent.memory_failure or "the slot is none"
            raise MemoryBackendError(
                f"the agent has no memory: {reason}",
                where="plugins.slots.memory",
                hint="Select a memory plugin, such as memory-core.",
            )
        return agent.memory

    async def agent(self, agent_id: str | None = None) -> Agent:
        """An agent's parts, made when they are first needed."""
        name = agent_id or default_agent_id(self.config)
        async with self._agent_lock:
            agent = self._agents.get(name)
            if agent is None:
                agent = await make_agent(
                    name,
                    config=self.config,
                    home=self.home,
                    clock=self.clock,
                    plugins=self.plugins,
                )
                self._agents[name] = agent
            return agent

    def store_key(self, key: str) -> str:
        """The key under which a session is stored."""
        return to_store_key(
            key,
            agent_id=default_agent_id(self.config),
            main_key=self.config.session.main_key,
        )

    def resolve_key(self, message: InboundMessage) -> str:
        """The key of the session that an inbound message belongs to."""
        session = self.config.session
        return resolve_session_key(
            message,
            direct_scope=session.dm_scope,
            main_key=session.main_key,
            identity_links=session.identity_links,
        )

    def commands(self) -> dict[str, ChatCommand]:
        """All chat commands."""
        return all_commands(self.plugins.registries.commands.values())

    def hook_context(self, **values: Any) -> HookContext:
        """What hooks are told of the host; ``values`` add to it."""
        return HookContext(home=self.home, **values)

    # -- models -------------------------------------------------------------------------------

    def model_reference(self, entry: SessionEntry | None, agent: Agent | None = None) -> str | None:
        """The model that config and the session ask for, ``provider/name``; ``None`` is the offline model."""
        if entry is not None and entry.provider_override and entry.model_override:
            return f"{entry.provider_override}/{entry.model_override}"
        if agent is None:
            agent = self._agents.get(agent_id_of(entry.key) if entry else "main")
        return self.config.agents.defaults.model if agent is None else agent.settings.model

    def check_model(self, reference: str) -> None:
        """Whether a model can be made.

        :raises ConfigError: if nobody knows the provider.
        """
        self.model_for(reference)

    def model_for(self, reference: str | None) -> ChatModel:
        """The model of a reference; the one given to :meth:`open` answers for all.

        :raises ConfigError: if nobody knows the provider.
        """
        if self._model is not None:
            return self._model
        if reference not in self._models:
            self._models[reference] = build_model(
                reference,
                self.config.models.providers,
                self.plugins.registries.model_providers.values(),
            )
        return self._models[reference]

    async def window_of(
        self, model: ChatModel, reference: str | None, configured: int | None
    ) -> ContextWindow:
        """The context window of a model; asked for once (context 10, P20)."""
        if model.id not in self._windows or configured is not None:
            entry = None if self._model else model_entry(reference, self.config.models.providers)
            self._windows[model.id] = await resolve_context_window(
                model,
                configured=configured,
                entry=entry.context_window if entry is not None else None,
            )
        return self._windows[model.id]

    # -- the end ------------------------------------------------------------------------------

    async def describe_session(self, context: SessionContext) -> dict[str, str]:
        """What ``/status`` shows."""
        return await describe_session(self, context)

    async def close(self) -> None:
        """End the turns that still run, wait for what runs in the background, then release everything."""
        await self._reception.end_turns()
        await self._reception.close()
        await self.hooks.close()
        await self.hooks.fire(GatewayStop(reason="close"), self.hook_context())
        await self._opener.close()
        for agent in self._agents.values():
            await agent.close()
        models = [*self._models.values(), *([self._model] if self._model else [])]
        for model in models:
            await model.close()
        self.plugins.close()
        await asyncio.to_thread(self.health.close)

    async def set_up(self, context: SessionContext, prompt: str | None = None) -> TurnSetup:
        """The model, the tools and the system prompt of a session's next turn."""
        return await self._reception.set_up(context, prompt)

    async def begin_session(self, key: str) -> SessionContext:
        """A new session id under a key, whether or not there was one before."""
        return await self._opener.begin(self.store_key(key))

    async def end_turn(self, context: SessionContext) -> None:
        """End a turn that the caller ran by itself."""
        await context.end_turn()
        context.fire_background(AgentEnd(messages=context.new_messages, success=True))
        self._reception.sync_memory(await self.agent(agent_id_of(context.log.key)), "turn")

    async def open_session(self, key: str) -> SessionContext:
        """The session under a stored key, with its engine."""
        return await self._opener.open(key)

    def _inbound(self, key: str, text: str) -> InboundMessage:
        stored = self.store_key(key)
        return InboundMessage(text=text, agent_id=agent_id_of(stored), session_key=stored)


def _keep(health: HealthStore, record: QuarantineRecord) -> None:
    health.record_quarantine(
        record.engine_id, record.owner, record.operation, record.reason, record.failed_at
    )
