"""Looking at a home from the outside: its plugins, its engine and its memory, without running a turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from hermitcrab.cli.options import Settings

if TYPE_CHECKING:
    from hermitcrab.agent.agent import Agent
    from hermitcrab.config import Config
    from hermitcrab.context.registry import HostEngineRegistry
    from hermitcrab.plugins.host import PluginHost


@frozen(kw_only=True)
class LoadedPlugins:
    """The plugins of a home, loaded as the host loads them."""

    home: Path
    config: Config
    plugins: PluginHost
    engines: HostEngineRegistry


@frozen(kw_only=True)
class EngineState:
    """Which engine is selected and which one answers (``None``: none can); ``reason`` says why they differ."""

    selected: str
    active: str | None
    reason: str | None = None
    hint: str | None = None
    warnings: tuple[str, ...] = ()


@contextmanager
def loaded_plugins(settings: Settings, config: Config) -> Iterator[LoadedPlugins]:
    """Load everything that is selected, for as long as the context lasts. What fails stands in the diagnostics."""
    import os

    from hermitcrab.compaction.diagnostics import missing_for_compaction
    from hermitcrab.context.registry import HostEngineRegistry
    from hermitcrab.plugins.host import PluginHost
    from hermitcrab.plugins.registration import PluginRegistries

    engines = HostEngineRegistry()
    host = PluginHost.load(
        config.plugins,
        registries=PluginRegistries(context_engines=engines),
        safe_mode=settings.safe_mode,
        environ=os.environ,
    )
    host.report(missing_for_compaction(config, host))
    try:
        yield LoadedPlugins(
            home=settings.home_folder(), config=config, plugins=host, engines=engines
        )
    finally:
        host.close()


async def engine_state(loaded: LoadedPlugins) -> EngineState:
    """Make the selected engine as a session would, and release it again."""
    from hermitcrab.agent.opening import resolve_for
    from hermitcrab.config import default_agent_id
    from hermitcrab.context.resolve import selected_engine_id
    from hermitcrab.errors import ContextEngineError

    selected = selected_engine_id(loaded.config.plugins.slots.context_engine)
    try:
        resolved = await resolve_for(
            default_agent_id(loaded.config),
            config=loaded.config,
            home=loaded.home,
            plugins=loaded.plugins,
            engines=loaded.engines,
        )
    except ContextEngineError as error:
        reason = error.message if error.where is None else f"{error.where}: {error.message}"
        return EngineState(selected=selected, active=None, reason=reason, hint=error.hint)
    degraded = resolved.degradation()
    await resolved.dispose()
    return EngineState(
        selected=selected,
        active=resolved.engine_id if degraded is None else "legacy",
        reason=None if degraded is None else degraded.reason,
        hint=None if degraded is None else degraded.hint,
        warnings=resolved.warnings,
    )


@asynccontextmanager
async def opened_agent(loaded: LoadedPlugins, agent_id: str) -> AsyncIterator[Agent]:
    """The parts of an agent; creates its folders."""
    import os

    from hermitcrab.agent.agent import make_agent
    from hermitcrab.agent.clock import system_clock

    agent = await make_agent(
        agent_id,
        config=loaded.config,
        home=loaded.home,
        clock=system_clock,
        plugins=loaded.plugins,
        environ=os.environ,
    )
    try:
        yield agent
    finally:
        await agent.close()


def agents_in_use(loaded: LoadedPlugins) -> list[str]:
    """The agents that have a folder in the home."""
    from hermitcrab.cli.sessions import agent_folders

    return [folder.name for folder in agent_folders(loaded.home)]
