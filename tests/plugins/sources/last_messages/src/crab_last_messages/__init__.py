"""A context engine that shows the model the last few messages and says so in the system prompt."""

from __future__ import annotations

from attrs import field, frozen

from hermitcrab import hookimpl
from hermitcrab.context import (
    AssembleResult,
    ContextEngine,
    ContextEngineInfo,
    IngestResult,
    delegate_compaction,
)


@frozen
class Settings:
    """``plugins.entries.last-messages.config``: how many messages are shown."""

    count: int = field(default=3)


class LastMessages(ContextEngine):
    info = ContextEngineInfo(id="last-messages", name="Last messages")

    def __init__(self, context):
        self._count = context.plugin_config.count

    async def ingest(self, **_):
        return IngestResult(ingested=False)

    async def assemble(self, *, messages, **_):
        kept = messages[-self._count :]
        while kept and kept[0]["role"] == "toolResult":
            kept = kept[1:]  # its call is gone
        addition = f"You see the last {self._count} messages."
        return AssembleResult(kept, system_prompt_addition=addition)

    async def compact(self, **params):
        return await delegate_compaction(**params)


@hookimpl
def config_class():
    return Settings


@hookimpl
def register_context_engines(registry):
    registry.register("last-messages", LastMessages)
