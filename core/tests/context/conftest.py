from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.context import (
    AssembleResult,
    CompactResult,
    ContextEngine,
    ContextEngineInfo,
    EngineContext,
    IngestResult,
)
from hermitcrab.context.registry import HostEngineRegistry, QuarantineRecord, global_engines
from hermitcrab.testing import engine_context


class PlainEngine(ContextEngine):
    """The smallest engine; it records its calls."""

    info = ContextEngineInfo(id="plain", name="Plain")

    def __init__(self, mark: str = "plain") -> None:
        self.mark = mark
        self.calls: list[str] = []

    async def ingest(self, **params: Any) -> IngestResult:
        self.calls.append("ingest")
        return IngestResult(ingested=True)

    async def assemble(self, *, messages: list[Any], **params: Any) -> AssembleResult:
        self.calls.append("assemble")
        return AssembleResult(messages, system_prompt_addition=self.mark)

    async def compact(self, **params: Any) -> CompactResult:
        self.calls.append("compact")
        return CompactResult(ok=True, compacted=False, reason=self.mark)


class DefaultEngine(PlainEngine):
    info = ContextEngineInfo(id="legacy", name="Default for tests")

    def __init__(self) -> None:
        super().__init__("default")


@pytest.fixture(autouse=True)
def global_tier() -> Iterator[dict[str, Any]]:
    """The process-global tier, empty during the test."""
    engines = global_engines()
    before = dict(engines)
    engines.clear()
    yield engines
    engines.clear()
    engines.update(before)


@pytest.fixture
def records() -> list[QuarantineRecord]:
    """What the host was told of quarantines."""
    return []


@pytest.fixture
def empty_registry(records: list[QuarantineRecord]) -> HostEngineRegistry:
    return HostEngineRegistry(on_quarantine=records.append, clock=lambda: 1_700_000_000_000)


@pytest.fixture
def registry(empty_registry: HostEngineRegistry) -> HostEngineRegistry:
    """A registry with a default engine."""
    empty_registry.register("legacy", DefaultEngine, owner="core")
    return empty_registry


@pytest.fixture
def plain_engine() -> type[PlainEngine]:
    return PlainEngine


@pytest.fixture
def context(tmp_path: Path) -> EngineContext:
    return engine_context(tmp_path)
