"""The host: opens a home, loads plugins, and runs turns (design 4, 6)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermitcrab.agent.agent import Agent, make_folders
from hermitcrab.agent.clock import Clock, system_clock
from hermitcrab.agent.commands import ChatCommand
from hermitcrab.agent.events import Reply, TurnEvent
from hermitcrab.agent.handle import Session
from hermitcrab.agent.memory_sync import MemorySync
from hermitcrab.agent.opening import SessionOpener
from hermitcrab.agent.reception import Reception
from hermitcrab.agent.services import Services
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.setup import TurnSetup, set_up_turn
from hermitcrab.agent.status import describe_session
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.config import Config, load_config, resolve_home
from hermitcrab.context.registry import HostEngineRegistry, QuarantineRecord
from hermitcrab.errors import MemoryBackendError, TranscriptError
from hermitcrab.hooks import BeforeReset, GatewayStart, GatewayStop
from hermitcrab.hooks.dispatcher import HookDispatcher
from hermitcrab.memory.contract import MemoryBackend
from hermitcrab.messages.tokens import TokenCounter, load_counter
from hermitcrab.models.contract import ChatModel
from hermitcrab.plugins.health import HealthStore
from hermitcrab.plugins.host import PluginHost
from hermitcrab.plugins.registration import PluginRegistries
from hermitcrab.sessions.inbound import InboundMessage
from hermitcrab.sessions.keys import agent_id_of

logger = logging.getLogger("hermitcrab.agent")

#: Keys of the home directory's own files.
CONFIG_FILE = "config.yaml"
HEALTH_FILE = "health.sqlite"


class Host:
    """A running hermitcrab: use :meth:`open`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._opener = SessionOpener(services)
        self._sync = MemorySync()
        self._reception = Reception(services, self._opener, self._sync, self)

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
        services = Services(
            home=folder,
            config=loaded,
            counter=await asyncio.to_thread(load_counter, environ),
            plugins=plugin_host,
            engines=engines,
            health=health,
            model=model,
            clock=clock or system_clock,
        )
        host = cls(services)
        try:
            await services.agent()
            services.hooks.fire_background(GatewayStart(), services.hook_context())
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

    async def describe_session(self, context: SessionContext) -> dict[str, str]:
        """The state of a session in words, in the order in which a person reads it."""
        setup = await self.set_up(context)
        return await describe_session(context, setup, tokenizer=self._services.counter.name)

    def commands(self) -> dict[str, ChatCommand]:
        """All chat commands."""
        return self._services.commands()

    def model_reference(self, session: SessionContext) -> str | None:
        """The model that config and the session ask for, ``provider/name``; ``None`` is the offline model."""
        return self._services.model_reference(session.log.entry)

    def check_model(self, reference: str) -> None:
        """Whether a model can be made.

        :raises ConfigError: if nobody knows the provider.
        """
        self._services.model_for(reference)

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
        await self._reception.end_turns()
        await self._sync.close()
        await services.hooks.close()
        await services.hooks.fire(GatewayStop(reason="close"), services.hook_context())
        await self._opener.close()
        await services.close()

    def _inbound(self, key: str, text: str) -> InboundMessage:
        stored = self.store_key(key)
        return InboundMessage(text=text, agent_id=agent_id_of(stored), session_key=stored)


def _keep(health: HealthStore, record: QuarantineRecord) -> None:
    health.record_quarantine(
        record.engine_id, record.owner, record.operation, record.reason, record.failed_at
    )
