"""The default context engine of hermitcrab: the model sees the messages as they are, the host compacts."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from hermitcrab import hookimpl
from hermitcrab.context import (
    AssembleResult,
    CompactResult,
    ContextEngine,
    ContextEngineInfo,
    IngestResult,
    delegate_compaction,
)
from hermitcrab.messages.types import Message

__all__ = ["LegacyContextEngine", "register_context_engines"]


class LegacyContextEngine(ContextEngine):
    """Passes messages through and stores nothing, because the transcript holds them already."""

    info = ContextEngineInfo(
        id="legacy",
        name="Pass-through context engine",
        version=version("hermitcrab-context-legacy"),
    )

    async def ingest(self, **_: Any) -> IngestResult:
        return IngestResult(ingested=False)

    async def assemble(self, *, messages: list[Message], **_: Any) -> AssembleResult:
        return AssembleResult(messages)

    async def compact(self, **params: Any) -> CompactResult:
        return await delegate_compaction(**params)


@hookimpl
def register_context_engines(registry: Any) -> None:
    """Offer the engine to the host."""
    registry.register("legacy", LegacyContextEngine)
