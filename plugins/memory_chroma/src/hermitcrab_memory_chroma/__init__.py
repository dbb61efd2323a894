"""A memory of hermitcrab in Chroma: a folder of this machine, or a server that many machines share."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hermitcrab import hookimpl

if TYPE_CHECKING:
    from hermitcrab.hooks import AgentEnd, BeforePromptBuild, HookContext, PromptBuild, SessionEnd
    from hermitcrab.memory import MemoryBackend, MemoryContext
    from hermitcrab.memory.longterm import Capturer, Recaller
    from hermitcrab_memory_chroma.settings import ChromaConfig

__all__ = [
    "agent_end",
    "before_prompt_build",
    "config_class",
    "register_memory_backends",
    "session_end",
]


@hookimpl
def config_class() -> type[ChromaConfig]:
    """What may stand under ``plugins.entries.memory-chroma.config``."""
    from hermitcrab_memory_chroma.settings import ChromaConfig

    return ChromaConfig


@hookimpl
def register_memory_backends(registry: Any) -> None:
    """Offer the backend ``memory-chroma``."""
    registry.register("memory-chroma", create)


@hookimpl
async def before_prompt_build(event: BeforePromptBuild, ctx: HookContext) -> PromptBuild | None:
    """Put memories that fit the prompt before it."""
    if not _is_ours(ctx):
        return None
    return await _recaller().before_prompt(event, ctx, _settings(ctx))


@hookimpl
async def agent_end(event: AgentEnd, ctx: HookContext) -> None:
    """Keep what the user said of themselves, where that is asked for."""
    if _is_ours(ctx):
        await _capturer().after_turn(event, ctx, _settings(ctx))


@hookimpl
async def session_end(event: SessionEnd, ctx: HookContext) -> None:
    """Forget how far a session was captured."""
    if _is_ours(ctx):
        _capturer().forget_session(ctx)


def create(context: MemoryContext) -> MemoryBackend:
    """The backend of one agent; nothing is opened until it is used."""
    from hermitcrab_memory_chroma.backend import MemoryChroma

    return MemoryChroma(context)


def _is_ours(ctx: HookContext) -> bool:
    """Whether the agent's memory is this one: its hooks are silent where another plugin keeps the memories."""
    from hermitcrab_memory_chroma.memories import ChromaMemories

    return isinstance(getattr(ctx.memory, "long_term", None), ChromaMemories)


def _settings(ctx: HookContext) -> ChromaConfig:
    from hermitcrab_memory_chroma.settings import ChromaConfig

    config = ctx.plugin_config
    return config if isinstance(config, ChromaConfig) else ChromaConfig()


@cache
def _recaller() -> Recaller:
    from hermitcrab.memory.longterm import Recaller

    return Recaller()


@cache
def _capturer() -> Capturer:
    from hermitcrab.memory.longterm import Capturer

    return Capturer()
