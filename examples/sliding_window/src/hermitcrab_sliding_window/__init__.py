"""A context engine that shows the last turns of a conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import field, frozen, validators

from hermitcrab import hookimpl
from hermitcrab.context import (
    AssembleResult,
    CompactResult,
    ContextEngine,
    ContextEngineInfo,
    EngineContext,
    IngestResult,
    delegate_compaction,
)
from hermitcrab.messages import Message

CHARACTERS_PER_TOKEN = 4


@frozen(kw_only=True)
class SlidingWindowSettings:
    """``turns``: how many turns the model sees at most, the current one included."""

    turns: int = field(default=10, validator=validators.ge(1))


class SlidingWindow(ContextEngine):
    """Shows the last turns, whole, and as many of them as fit into the budget."""

    info = ContextEngineInfo(id="sliding-window", name="Sliding window", version="0.1.0")

    def __init__(self, context: EngineContext) -> None:
        settings = context.plugin_config
        self._turns = settings.turns if isinstance(settings, SlidingWindowSettings) else 10

    async def ingest(self, **_: Any) -> IngestResult:
        return IngestResult(ingested=False)

    async def assemble(
        self, *, messages: Sequence[Message], token_budget: int | None = None, **_: Any
    ) -> AssembleResult:
        starts = [i for i, message in enumerate(messages) if message["role"] == "user"][
            -self._turns :
        ]
        window = list(messages[starts[0] if starts else 0 :])
        while token_budget is not None and len(starts) > 1 and tokens(window) > token_budget:
            starts.pop(0)
            window = list(messages[starts[0] :])
        return AssembleResult(messages=window)

    async def compact(self, **params: Any) -> CompactResult:
        return await delegate_compaction(**params)


def tokens(messages: Sequence[Message]) -> int:
    """About how many tokens the messages take."""
    return len(json.dumps(messages, ensure_ascii=False, default=str)) // CHARACTERS_PER_TOKEN


@hookimpl
def config_class() -> type[SlidingWindowSettings]:
    return SlidingWindowSettings


@hookimpl
def register_context_engines(registry: Any) -> None:
    registry.register("sliding-window", SlidingWindow)
