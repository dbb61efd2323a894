"""What a status tells of the index and the memories (memory 2.3); it asks no provider and makes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from attrs import evolve

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import MemoryStatus
from hermitcrab.memory.contract import SearchMode
from hermitcrab.memory.longterm import LongTermStore, StoreStats
from hermitcrab_memory_lancedb.filling import VectorState
from hermitcrab_memory_lancedb.passages import Counts, PassageTable
from hermitcrab_memory_lancedb.settings import Settings
from hermitcrab_memory_lancedb.syncing import Syncing


async def status_of(
    status: MemoryStatus,
    *,
    table: PassageTable,
    syncing: Syncing,
    settings: Settings,
    problem: str | None,
    memories: LongTermStore,
) -> MemoryStatus:
    """``status`` with what there is to say; ``problem`` is why there is no embedding provider."""
    error = syncing.last_error
    details: dict[str, Any] = {"extraPaths": list(settings.extra_paths), "sources": ["memory"]}
    try:
        counts, plan = await asyncio.gather(table.counts(), syncing.indexer.plan())
        details |= _keyword_details(counts, problem)
        state = None if syncing.filler is None else await syncing.filler.state()
        if state is not None:
            details |= _vector_details(syncing, state)
        status = evolve(
            status,
            files=counts.files,
            chunks=counts.passages,
            dirty=plan.is_needed,
            mode=_mode(settings, state),
            skipped=plan.skipped,
        )
    except MemoryBackendError as failure:
        error = str(failure)
        status = evolve(status, keyword_search=False)
    notes: tuple[str, ...] = ()
    try:
        stats = await memories.stats()
        details["longTerm"] = _longterm_details(stats)
        notes = stats.notes
    except MemoryBackendError as failure:
        error = error or str(failure)
    return evolve(status, last_error=error, notes=notes, details=details)


def _mode(settings: Settings, state: VectorState | None) -> SearchMode:
    """How a search would be answered if the provider answers."""
    text, vector = settings.fusion.shares
    if state is None or not state.is_ready or vector == 0:
        return "keyword"
    return "hybrid" if text > 0 else "vector"


def _keyword_details(counts: Counts, problem: str | None) -> dict[str, Any]:
    vector: dict[str, Any] = {"enabled": False, "available": False}
    if problem is not None:
        vector["reason"] = problem
    return {
        "provider": "none",
        "sourceCounts": [{"source": "memory", "files": counts.files, "chunks": counts.passages}],
        "fts": {"enabled": True, "available": True},
        "vector": vector,
    }


def _vector_details(syncing: Syncing, state: VectorState) -> dict[str, Any]:
    filler = syncing.filler
    assert filler is not None
    provider, error = filler.embedder.provider, filler.embedder.error
    vector: dict[str, Any] = {
        "enabled": True,
        "available": state.is_ready,
        "dims": state.dims,
        "vectors": state.vectors,
        "pending": state.pending,
    }
    if error is not None or filler.problem is not None:
        vector["lastError"] = str(error or filler.problem)
    return {
        "provider": provider.id,
        "model": provider.model,
        "remote": provider.remote,
        "vector": vector,
    }


def _longterm_details(stats: StoreStats) -> dict[str, Any]:
    known = {
        "memories": stats.count,
        "location": stats.location,
        "model": stats.model,
        "dims": stats.dims,
        "bytes": stats.size_bytes,
    }
    return {name: value for name, value in known.items() if value is not None}
