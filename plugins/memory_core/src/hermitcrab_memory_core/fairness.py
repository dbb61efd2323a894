"""Sharing results out between memory files and sessions: pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from hermitcrab.memory import Hit, SearchResult

_MODES = ("keyword", "vector", "hybrid")


def shared_out(files: Sequence[Hit], sessions: Sequence[Hit], limit: int) -> tuple[Hit, ...]:
    """At most ``limit`` hits of both, best first.

    Files have half of the places, rounded up, sessions the rest; what one side cannot fill goes to the other. Within a
    side the order stays.
    """
    of_files = min(len(files), max((limit + 1) // 2, limit - len(sessions)))
    of_sessions = min(len(sessions), limit - of_files)
    chosen = [*files[:of_files], *sessions[:of_sessions]]
    return tuple(sorted(chosen, key=lambda hit: -hit.score))


def joined(files: SearchResult, sessions: SearchResult) -> SearchResult:
    """How both searches came about, as one; the caller chooses the hits."""
    reasons = dict.fromkeys(reason for reason in (files.reason, sessions.reason) if reason)
    return evolve(
        files,
        mode=max(files.mode, sessions.mode, key=_MODES.index),
        degraded=files.degraded or sessions.degraded,
        reason="; ".join(reasons) or None,
    )
