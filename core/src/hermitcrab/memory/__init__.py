"""Memory: the contract of a backend, the Markdown files that it searches, and the flush that fills them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermitcrab.memory import files
    from hermitcrab.memory.contract import (
        EmbeddingProvider,
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
    from hermitcrab.memory.tools import prompt_section

__all__ = [
    "EmbeddingProvider",
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
    "prompt_section",
]

_ELSEWHERE = {"files": "hermitcrab.memory.files", "prompt_section": "hermitcrab.memory.tools"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_ELSEWHERE.get(name, "hermitcrab.memory.contract"))
    return module if name == "files" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
