"""What a status tells of an index beside the counts (memory 2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermitcrab.errors import EmbeddingError
from hermitcrab.memory.contract import SearchMode
from hermitcrab_memory_core.building import Builder
from hermitcrab_memory_core.embedding_cache import MOST_ENTRIES
from hermitcrab_memory_core.identity import Cost, described
from hermitcrab_memory_core.index import Counts, Index
from hermitcrab_memory_core.settings import Settings
from hermitcrab_memory_core.survey import Survey

# The interfaces of providers for jobs that run for hours are not used.
_NO_BATCH = {"enabled": False}


def search_mode(settings: Settings, state: Survey | None) -> SearchMode:
    """How a search would be answered if the provider answers."""
    text, vector = settings.fusion.shares
    if state is None or not state.is_ready or vector == 0:
        return "keyword"
    return "hybrid" if text > 0 else "vector"


def keyword_details(settings: Settings, counts: Counts, problem: str | None) -> dict[str, Any]:
    """The details where there is no embedding provider; ``problem`` says why, if one was wanted."""
    details: dict[str, Any] = {
        "provider": "none",
        "sources": [settings.source],
        "sourceCounts": [source_count(settings.source, counts.files, counts.chunks)],
        "extraPaths": list(settings.extra_paths),
        "fts": {"enabled": True, "available": True},
        "vector": {"enabled": False, "available": False},
        "batch": _NO_BATCH,
    }
    if problem is not None:
        details["vector"]["reason"] = problem
    return details


def source_count(source: str, files: int, chunks: int) -> dict[str, Any]:
    """How much of one source is indexed; every enabled source is told of, an empty one too (memory 2.3)."""
    return {"source": source, "files": files, "chunks": chunks}


def vector_details(
    builder: Builder, state: Survey, cost: Cost | None, storage: Mapping[str, int]
) -> dict[str, Any]:
    """What an embedding provider adds to the details; ``cost`` is what missing vectors would cost."""
    wanted = described(builder.wanted())
    error = builder.embedder.error
    vector: dict[str, Any] = {
        "enabled": True,
        "available": state.is_ready,
        "dims": storage["dims"] or wanted["dims"],
        "vectors": state.vectors,
        "pending": state.pending,
        "bytes": storage["bytes"],
    }
    if error is not None or builder.problem is not None:
        vector["lastError"] = str(error or builder.problem)
    if cost is not None and cost.texts:
        vector["cost"] = {"texts": cost.texts, "tokens": cost.tokens}
    identity: dict[str, Any] = {"status": state.verdict.state}
    if state.verdict.reason:
        identity["reason"] = state.verdict.reason
    return {
        "provider": wanted["provider"],
        "model": wanted["model"],
        "remote": builder.embedder.provider.remote,
        "indexIdentity": identity,
        "vector": vector,
        "cache": {
            "enabled": True,
            "entries": storage["cached"],
            "maxEntries": MOST_ENTRIES + state.passages,
        },
    }


def storage_of(index: Index) -> dict[str, int]:
    """Sizes: bytes and dims of the vectors, entries of the cache."""
    current = index.vectors.generation()
    try:
        cached = index.with_cache(lambda cache: cache.count())
    except EmbeddingError:  # the build that needs it says so
        cached = 0
    return {
        "dims": 0 if current is None else current.identity.dims,
        "bytes": index.vectors.size(),
        "cached": cached,
    }
