"""A context engine that fails when it is needed."""

from __future__ import annotations

from hermitcrab import hookimpl
from hermitcrab.context import CompactResult, ContextEngine, ContextEngineInfo, IngestResult


class Faulty(ContextEngine):
    info = ContextEngineInfo(id="faulty", name="Faulty")

    async def ingest(self, **_):
        return IngestResult(ingested=False)

    async def assemble(self, **_):
        raise RuntimeError("the index is gone")

    async def compact(self, **_):
        return CompactResult(ok=True, compacted=False)


@hookimpl
def register_context_engines(registry):
    registry.register("faulty", Faulty)
