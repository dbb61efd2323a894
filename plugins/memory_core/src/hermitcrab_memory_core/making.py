"""The backend that an agent's settings ask for."""

from __future__ import annotations

from pathlib import Path

from hermitcrab.memory import MemoryBackend, MemoryContext
from hermitcrab.memory.transcripts import effective_sources
from hermitcrab_memory_core.backend import MemoryCore
from hermitcrab_memory_core.combined import CombinedMemory
from hermitcrab_memory_core.corpora import SessionCorpus, sessions_path
from hermitcrab_memory_core.embedder import Embedder
from hermitcrab_memory_core.settings import MEMORY, SESSIONS


def make_backend(context: MemoryContext) -> MemoryBackend:
    """The memory files of an agent, together with its sessions where it has them as a source.

    Nothing is opened until it is used; but an index of sessions that are no source any more is removed.
    """
    embedder = None if context.embeddings is None else Embedder(context.embeddings)
    files = MemoryCore(context, embedder=embedder)
    if context.transcripts is None:
        if context.config is not None and SESSIONS not in effective_sources(context.config):
            _forget_sessions(context)
        return files
    sessions = MemoryCore(context, embedder=embedder, corpus=SessionCorpus(context.transcripts))
    searches_files = MEMORY in effective_sources(context.config)
    return CombinedMemory(files, sessions, searches_files=searches_files)


def _forget_sessions(context: MemoryContext) -> None:
    """What was said must not stay behind in an index that nobody tends."""
    index = sessions_path(context.index_path)
    for path in _belonging(index):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            context.logger.warning("the index of sessions cannot be removed: %s", error)


def _belonging(index: Path) -> list[Path]:
    """The index with all that stands beside it: its log, its vectors, its cache."""
    return [path for path in index.parent.glob(f"{index.stem}.*") if path.is_file()]
