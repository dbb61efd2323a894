"""What stands in for the host when an engine is tested alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermitcrab.context.contract import EngineContext
from hermitcrab.context.results import CompactionDetails, CompactResult


class RecordingCompactionRuntime:
    """A compaction runtime that compacts nothing: it keeps what it was called with and answers ``result``.

    :param gate: where given, each call waits for it first.
    """

    def __init__(
        self, result: CompactResult | None = None, *, gate: asyncio.Event | None = None
    ) -> None:
        details = CompactionDetails(
            summary="## Decisions\nThe port is 8443.",
            first_kept_entry_id="0123456789abcdef",
            tokens_before=9000,
            tokens_after=1200,
        )
        self.result = result or CompactResult(ok=True, compacted=True, result=details)
        self.calls: list[dict[str, Any]] = []
        self._gate = gate

    async def compact(self, **params: Any) -> CompactResult:
        """Record the call and answer."""
        self.calls.append(params)
        if self._gate is not None:
            await self._gate.wait()
        return self.result


def engine_context(
    folder: Path,
    *,
    config: Any = None,
    plugin_config: Mapping[str, Any] | None = None,
    agent_id: str = "main",
) -> EngineContext:
    """What a factory is called with, with everything below ``folder``."""
    return EngineContext(
        config=config,
        plugin_config=dict(plugin_config or {}),
        agent_id=agent_id,
        workspace=folder / "workspace",
        home=folder,
        logger=logging.getLogger("hermitcrab.testing"),
    )
