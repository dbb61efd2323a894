"""Whether a compaction is due before a model call, and why (context 6.2, 6.5; design 7). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from attrs import frozen

from hermitcrab.compaction.budget import Budget

#: After an attempt that changed nothing, the context must grow by this share of what is usable before the next one.
GROWTH = 0.05
#: Attempts of one turn at compacting by itself; after them, what does not fit is cut in the view (P3).
COMPACTIONS_PER_TURN = 24

DueReason = Literal["too_large", "early", "bytes"]


class GateSettings(Protocol):
    """The part of ``agents.defaults.compaction`` that says when to compact."""

    @property
    def enabled(self) -> bool: ...
    @property
    def max_active_transcript_bytes(self) -> int: ...


@frozen(kw_only=True)
class Pressure:
    """What the decision depends on.

    ``tokens`` are those of the messages as they would be sent, ``stored_tokens`` those of the context before engine
    and pruning, ``visible_bytes`` those of the transcript that the model sees; ``fits_when_cut`` tells that the view
    can be cut to what is usable. ``last`` is the record of the last attempt, ``byte_latch`` what :func:`latch_of` kept.
    ``attempts`` counts those of this turn.
    """

    tokens: int
    stored_tokens: int
    visible_bytes: int
    session_id: str
    last: Mapping[str, Any] | None = None
    byte_latch: Mapping[str, Any] | None = None
    attempts: int = 0
    fits_when_cut: bool = True


@frozen
class Due:
    """A compaction is due; ``must_fit`` says that the context is larger than what is usable."""

    reason: DueReason
    must_fit: bool = False


def compaction_due(now: Pressure, budget: Budget, settings: GateSettings) -> Due | None:
    """The compaction to try before the next model call, if any.

    One that changed nothing is not tried again until the context has grown, unless nothing else makes it fit (C27).
    """
    if not settings.enabled or now.attempts >= COMPACTIONS_PER_TURN:
        return None
    if now.tokens > budget.usable:
        is_pointless = _is_cooling_down(now, budget, above=budget.usable)
        return None if is_pointless and now.fits_when_cut else Due("too_large", must_fit=True)
    if now.tokens > budget.compact_at and not _is_cooling_down(now, budget):
        return Due("early")
    limit = settings.max_active_transcript_bytes
    if 0 < limit <= now.visible_bytes and not is_latched(now, limit):
        return Due("bytes")
    return None


def _is_cooling_down(now: Pressure, budget: Budget, *, above: int = 0) -> bool:
    """Whether the last attempt changed nothing and the context is about as large as it was then.

    :param above: tokens; an attempt at a smaller context does not count, as it was not that hard.
    """
    last = now.last or {}
    if last.get("trigger") == "manual" or last.get("status") not in {
        "no_progress",
        "failed",
        "not_needed",
    }:
        return False
    before = last.get("tokensBefore")
    if not isinstance(before, int) or before <= above:
        return False
    return before <= now.stored_tokens < before + budget.usable * GROWTH


def is_latched(now: Pressure, limit: int) -> bool:
    """Whether the byte trigger waits for the transcript to grow by another ``limit`` bytes (P5)."""
    latch = now.byte_latch
    if latch is None or latch.get("sessionId") != now.session_id or latch.get("maxBytes") != limit:
        return False
    active = latch.get("activeBytes")
    return isinstance(active, int) and now.visible_bytes < active + limit


def latch_of(session_id: str, visible_bytes: int, limit: int) -> dict[str, Any] | None:
    """What to keep after a compaction by bytes: nothing, if it has brought the transcript below the limit."""
    if visible_bytes < limit:
        return None
    return {"sessionId": session_id, "maxBytes": limit, "activeBytes": visible_bytes}
