"""memory-lancedb keeps the contract of memory backends."""

from __future__ import annotations

from hermitcrab.memory import MemoryBackend, MemoryContext
from hermitcrab.testing import MemoryBackendContract
from hermitcrab_memory_lancedb import create


class TestMemoryLanceDb(MemoryBackendContract):
    """On a folder of this machine."""

    def make_backend(self, context: MemoryContext) -> MemoryBackend:
        return create(context)
