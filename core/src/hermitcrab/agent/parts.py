"""What a session works with; the host makes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any

from attrs import field, frozen

from hermitcrab.compaction.providers import ChosenProvider
from hermitcrab.config import AgentSettings
from hermitcrab.hooks.dispatcher import HookDispatcher
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.models.contract import ChatModel


async def _nothing() -> None:
    return


@frozen(kw_only=True)
class SessionParts:
    """What a session works with besides its transcript and its engine.

    ``flush_model`` and ``summary_model`` are set where config names models of their own for that work;
    ``summary_window`` is the context window of the latter, in tokens. ``summary_provider`` is set where config names a
    compaction provider, whether or not there is one. ``after_compaction`` is awaited after each compaction that took
    place. ``thinking_levels`` says which levels the model of an id can be told.
    """

    settings: AgentSettings
    workspace: Path
    flush_lock: Path
    zone: tzinfo
    counter: TokenCounter
    hooks: HookDispatcher
    history_limit: int | None
    citations: str
    flush_model: ChatModel | None = None
    summary_model: ChatModel | None = None
    summary_window: int | None = None
    summary_provider: ChosenProvider | None = None
    group_history_limit: int = 50
    memory: Any = None
    on_degraded: Callable[[str, str, str | None], None] = field(
        default=lambda key, engine, reason: None
    )
    after_compaction: Callable[[], Awaitable[None]] = _nothing
    thinking_levels: Callable[[str], Sequence[str]] = field(default=lambda model_id: ())
