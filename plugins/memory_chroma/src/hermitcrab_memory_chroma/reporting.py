"""What a status tells beside the counts (memory 2.3)."""

from __future__ import annotations

from typing import Any

from hermitcrab_memory_chroma.connection import ConnectionStatus
from hermitcrab_memory_chroma.file_index import FileIndex
from hermitcrab_memory_chroma.file_vectors import FileVectors, Survey
from hermitcrab_memory_chroma.settings import ChromaConfig

_SOURCE = "memory"


def connection_details(status: ConnectionStatus, config: ChromaConfig) -> dict[str, Any]:
    """How Chroma is reached, without anything secret."""
    chroma: dict[str, Any] = {
        "mode": status.mode,
        "address": status.address,
        "collectionPrefix": config.collection_prefix,
        "version": status.version,
        "reconnects": status.reconnects,
    }
    if status.mode == "server":
        chroma["shareFiles"] = config.share_files
    if status.last_error is not None:
        chroma["lastError"] = status.last_error
    return {"chroma": chroma}


def file_details(
    index: FileIndex, vectors: FileVectors | None, survey: Survey | None, problem: str | None
) -> dict[str, Any]:
    """What is indexed of the files; ``problem`` says why there is no embedding provider, if one was wanted."""
    files = index.known.values()
    counts = {
        "source": _SOURCE,
        "files": len(files),
        "chunks": sum(file.passages for file in files),
    }
    details: dict[str, Any] = {
        "sources": [_SOURCE],
        "sourceCounts": [counts],
        "fts": {"enabled": True, "available": True},
    }
    if vectors is None or survey is None:
        vector: dict[str, Any] = {"enabled": False, "available": False}
        if problem is not None:
            vector["reason"] = problem
        return {**details, "provider": "none", "vector": vector}
    vector = {
        "enabled": True,
        "available": survey.vectors > 0,
        "dims": vectors.embedder.provider.dims,
        "vectors": survey.vectors,
        "pending": survey.pending,
    }
    if survey.paused is not None:
        vector["paused"] = survey.paused
    return {
        **details,
        "provider": vectors.embedder.provider.id,
        "model": vectors.embedder.provider.model,
        "remote": vectors.embedder.is_remote,
        "vector": vector,
    }
