"""A memory of hermitcrab in LanceDB: Markdown files and single memories, recalled and captured by itself."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hermitcrab import hookimpl

if TYPE_CHECKING:
    from hermitcrab.hooks import AgentEnd, BeforePromptBuild, HookContext, PromptBuild, SessionEnd
    from hermitcrab.memory import MemoryBackend, MemoryContext
    from hermitcrab.memory.longterm import Capturer, Recaller
    from hermitcrab_memory_lancedb.config import LanceDbConfig

__all__ = [
    "agent_end",
    "before_prompt_build",
    "config_class",
    "register_memory_backends",
    "session_end",
]


@hookimpl
def config_class() -> type[LanceDbConfig]:
    """What may stand under ``plugins.entries.memory-lancedb.config``."""
    from hermitcrab_memory_lancedb.config import LanceDbConfig

    return LanceDbConfig


@hookimpl
def register_memory_backends(registry: Any) -> None:
    """Offer the backend ``memory-lancedb``."""
    registry.register("memory-lancedb", create)


@hookimpl
async def before_prompt_build(event: BeforePromptBuild, ctx: HookContext) -> PromptBuild | None:
    """Put memories that fit the prompt before it."""
    settings = _settings_if_ours(ctx)
    return None if settings is None else await _recaller().before_prompt(event, ctx, settings)


@hookimpl
async def agent_end(event: AgentEnd, ctx: HookContext) -> None:
    """Keep what users said of themselves, where that is asked for."""
    settings = _settings_if_ours(ctx)
    if settings is not None:
        await _capturer().after_turn(event, ctx, settings)


@hookimpl
async def session_end(event: SessionEnd, ctx: HookContext) -> None:
    """Forget how far a session was captured."""
    if _settings_if_ours(ctx) is not None:
        _capturer().forget_session(ctx)


def create(context: MemoryContext) -> MemoryBackend:
    """The backend of one agent; nothing is opened until it is used."""
    from hermitcrab_memory_lancedb.backend import MemoryLanceDb

    return MemoryLanceDb(context)


def _settings_if_ours(ctx: HookContext) -> LanceDbConfig | None:
    """The settings, if the memories of the agent are kept here: where another plugin does, hooks are silent."""
    from hermitcrab_memory_lancedb.config import LanceDbConfig
    from hermitcrab_memory_lancedb.memories import LanceMemories

    if not isinstance(getattr(ctx.memory, "long_term", None), LanceMemories):
        return None
    config = ctx.plugin_config
    return config if isinstance(config, LanceDbConfig) else LanceDbConfig()


@cache
def _recaller() -> Recaller:
    from hermitcrab.memory.longterm import Recaller

    return Recaller()


@cache
def _capturer() -> Capturer:
    from hermitcrab.memory.longterm import Capturer

    return Capturer()
