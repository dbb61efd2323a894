"""Memory: the contract of a backend, the Markdown files that it searches, and the flush that fills them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermitcrab._lazy import lazy_names

if TYPE_CHECKING:
    from hermitcrab.memory import files, longterm, ranking, transcripts
    from hermitcrab.memory.contract import (
        EmbeddingProvider,
        Explanation,
        Hit,
        MemoryBackend,
        MemoryContext,
        MemoryStatus,
        ProbeResult,
        Progress,
        ReadResult,
        SearchResult,
        SyncReport,
    )
    from hermitcrab.memory.embeddings.contract import EmbeddingContext
    from hermitcrab.memory.imports import importing
    from hermitcrab.memory.tools import prompt_section

__all__ = [
    "EmbeddingContext",
    "EmbeddingProvider",
    "Explanation",
    "Hit",
    "MemoryBackend",
    "MemoryContext",
    "MemoryStatus",
    "ProbeResult",
    "Progress",
    "ReadResult",
    "SearchResult",
    "SyncReport",
    "files",
    "importing",
    "longterm",
    "prompt_section",
    "ranking",
    "transcripts",
]

_HOMES = dict.fromkeys(__all__, "hermitcrab.memory.contract") | {
    "EmbeddingContext": "hermitcrab.memory.embeddings.contract",
    "files": "hermitcrab.memory.files",
    "longterm": "hermitcrab.memory.longterm",
    "importing": "hermitcrab.memory.imports",
    "prompt_section": "hermitcrab.memory.tools",
    "ranking": "hermitcrab.memory.ranking",
    "transcripts": "hermitcrab.memory.transcripts",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
