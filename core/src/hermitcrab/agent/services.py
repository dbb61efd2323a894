"""What all parts of a host share: its home, plugins and hooks, and the agents and models that it makes when needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermitcrab.agent.addressing import owner_of, stored_key
from hermitcrab.agent.agent import Agent, make_agent
from hermitcrab.agent.clock import Clock
from hermitcrab.agent.commands.calls import ChatCommand, ModelFacts
from hermitcrab.agent.commands.commands import all_commands
from hermitcrab.agent.tools import Tool
from hermitcrab.config import Config, default_agent_id
from hermitcrab.context.registry import HostEngineRegistry
from hermitcrab.errors import ConfigError
from hermitcrab.hooks import HookContext
from hermitcrab.hooks.dispatcher import HookDispatcher
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.models.contract import ChatModel
from hermitcrab.models.resolve import (
    ContextWindow,
    build_model,
    model_entry,
    resolve_context_window,
    thinking_levels_of,
)
from hermitcrab.plugins.health import HealthStore
from hermitcrab.plugins.host import PluginHost
from hermitcrab.sessions.effective_levels import SessionLevels, levels_of
from hermitcrab.sessions.entries import SessionEntry
from hermitcrab.sessions.events import SessionEvents, SessionListener
from hermitcrab.sessions.inbound import InboundMessage, resolve_session_key


class Services:
    """The parts of one host.

    :param model: answers instead of the configured models.
    :param environ: where keys of embedding providers may stand.
    """

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
        environ: Mapping[str, str],
    ) -> None:
        self.home = home
        self.config = config
        self.counter = counter
        self.plugins = plugins
        self.engines = engines
        self.health = health
        self.clock = clock
        self._environ = environ
        self.hooks = HookDispatcher(plugins.implementations, health)
        self.session_events = SessionEvents(self._plugin_listeners, self._listener_failed)
        #: What a session's depth allows it besides its agent's tools.
        self.session_tools: Callable[[str, Agent], Sequence[Tool]] = lambda key, agent: ()
        self._model = model
        self._models: dict[str | None, ChatModel] = {}
        self._windows: dict[str, ContextWindow] = {}
        self._agents: dict[str, Agent] = {}
        self._agent_lock = asyncio.Lock()

    @property
    def default_agent(self) -> Agent:
        """The default agent, which is made when the host opens."""
        return self._agents[default_agent_id(self.config)]

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
                    check_model=self.model_for,
                    thinking_levels=self.thinking_levels,
                    events=self.session_events,
                    environ=self._environ,
                )
                self._agents[name] = agent
            return agent

    async def agent_of(self, key: str) -> Agent:
        """The agent that the session under a stored key belongs to."""
        return await self.agent(owner_of(self.config, key))

    def store_key(self, key: str) -> str:
        """The key under which a session is stored."""
        return stored_key(self.config, key)

    def resolve_key(self, message: InboundMessage) -> str:
        """The key of the session that an inbound message belongs to."""
        session = self.config.session
        return resolve_session_key(
            message,
            scope=session.scope,
            direct_scope=session.dm_scope,
            group_scope=session.group_scope,
            main_key=session.main_key,
            identity_links=session.identity_links,
        )

    def commands(self) -> dict[str, ChatCommand]:
        """All chat commands."""
        return all_commands(self.plugins.registries.commands.values())

    def hook_context(self, **values: Any) -> HookContext:
        """What hooks are told of the host; ``values`` add to it."""
        return HookContext(home=self.home, **values)

    def model_reference(self, entry: SessionEntry | None, agent: Agent | None = None) -> str | None:
        """The model that config and the session ask for, ``provider/name``; ``None`` is the offline model."""
        if entry is not None and entry.provider_override and entry.model_override:
            return f"{entry.provider_override}/{entry.model_override}"
        if agent is None:
            agent = self._agents.get(owner_of(self.config, entry.key) if entry else "main")
        return self.config.agents.defaults.model if agent is None else agent.settings.model

    def model_for(self, reference: str | None) -> ChatModel:
        """The model of a reference; the one given to the host answers for all.

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

    def thinking_levels(self, reference: str | None) -> tuple[str, ...]:
        """The thinking levels that a model can be told; none for a model that is not there.

        A model given to the host says so itself, others are marked in config.
        """
        try:
            model = self.model_for(reference)
        except ConfigError:
            return ()
        entry = None if self._model else model_entry(reference, self.config.models.providers)
        return thinking_levels_of(entry) or tuple(model.thinking_levels)

    def model_facts(self, entry: SessionEntry) -> ModelFacts:
        """The model that a session has chosen, and what it can be told; nothing if nobody can make it."""
        reference = self.model_reference(entry)
        try:
            model = self.model_for(reference)
        except ConfigError:
            return ModelFacts(name=str(reference))
        return ModelFacts(
            name=reference or model.id,
            thinking_levels=self.thinking_levels(reference),
            has_fast_mode=model.has_fast_mode,
        )

    async def levels(self, entry: SessionEntry) -> SessionLevels:
        """The levels that hold in a session with the model that it has chosen."""
        agent = await self.agent_of(entry.key)
        known = self.thinking_levels(self.model_reference(entry, agent))
        return levels_of(entry, agent.settings, known)

    async def window_of(
        self, model: ChatModel, reference: str | None, configured: int | None
    ) -> ContextWindow:
        """The context window of a model; asked for once, and again only where nobody could say (context 10, P20)."""
        known = self._windows.get(model.id)
        if known is not None and configured is None and known.source != "default":
            return known
        entry = None if self._model else model_entry(reference, self.config.models.providers)
        window = await resolve_context_window(
            model,
            configured=configured,
            entry=entry.context_window if entry is not None else None,
        )
        self._windows[model.id] = window
        return window

    def _plugin_listeners(self) -> list[tuple[str, SessionListener]]:
        registry = self.plugins.registries.session_listeners
        return [
            ((registry.owner_of(id) or "").removeprefix("plugin:"), listener)
            for id, listener in registry.values().items()
        ]

    def _listener_failed(self, plugin_id: str, error: BaseException, seconds: float) -> None:
        """Kept with the failures of hooks, so that ``status`` and ``doctor`` show it."""
        self.health.hook_failed(plugin_id, "register_session_listeners", error, seconds)

    def now_ms(self) -> int:
        """The clock, in milliseconds since the epoch."""
        return int(self.clock().timestamp() * 1000)

    async def close(self) -> None:
        """Close agents, models and plugins."""
        for agent in self._agents.values():
            await agent.close()
        models = [*self._models.values(), *([self._model] if self._model else [])]
        for model in models:
            await model.close()
        self.plugins.close()
        await asyncio.to_thread(self.health.close)
