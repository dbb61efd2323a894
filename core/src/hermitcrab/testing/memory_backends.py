"""The contract of memory backends as tests (memory 2, 6, 11)."""

from __future__ import annotations

from hermitcrab.testing.long_term_stores import LongTermTests
from hermitcrab.testing.memory_finding import FindingTests
from hermitcrab.testing.memory_upkeep import UpkeepTests


class MemoryBackendContract(FindingTests, UpkeepTests, LongTermTests):
    """Subclass as ``class TestMyBackend(MemoryBackendContract)`` and say how to make a backend.

    A backend may keep all it has below ``context.home``; one that keeps it elsewhere, such as on a server, derives a
    place of its own from ``context.home``, which is another folder in each test. Tests of what is optional are skipped,
    with the reason, where a backend does not have it.
    """
