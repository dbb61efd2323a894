"""Audited summaries: what a model writes is checked, written again where it fails, and completed (context 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermitcrab import hookimpl

if TYPE_CHECKING:
    from hermitcrab.hooks import CompactionDecision, HookContext, SessionBeforeCompact

__all__ = ["session_before_compact"]

#: How long all attempts at a summary may take together, in milliseconds. Each request to a model has its own limit,
#: ``agents.defaults.compaction.timeoutSeconds``; this one only has to be longer than all of them.
TIMEOUT_MS = 6 * 3_600_000
#: Where ``compaction.mode`` is not set, to have this plugin installed is to ask for it.
_AUDITED = frozenset({None, "safeguard"})


@hookimpl(timeout_ms=TIMEOUT_MS)
async def session_before_compact(
    event: SessionBeforeCompact, ctx: HookContext
) -> CompactionDecision | None:
    """Write the summary of a compaction, unless ``compaction.mode`` is another and no provider is set."""
    writer = event.writer
    if writer is None or not (writer.settings.mode in _AUDITED or writer.settings.provider):
        return None
    from hermitcrab_compaction_safeguard.safeguard import Safeguard

    return await Safeguard(event, writer, ctx.workspace).decide()
