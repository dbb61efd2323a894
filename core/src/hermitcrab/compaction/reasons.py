"""Why a compaction did not take place, sorted into classes that programs can act on (context 6.8). Pure."""

from __future__ import annotations

import re
from typing import Literal

ReasonClass = Literal[
    "no_compactable_entries",
    "below_threshold",
    "already_compacted",
    "deferred_background",
    "live_context_still_exceeds_target",
    "guard_blocked",
    "summary_failed",
    "timeout",
    "provider_error_4xx",
    "provider_error_5xx",
    "auth_failed",
    "transcript_persistence_failed",
    "unknown",
]

#: The first match wins.
_CLASSES: tuple[tuple[ReasonClass, str], ...] = (
    (
        "no_compactable_entries",
        r"nothing (?:more )?(?:to|can be) compact|no real conversation|too short to compact"
        r"|everything is recent|not yet flushed",
    ),
    ("below_threshold", r"below (?:the )?threshold|already under (?:the )?target"),
    ("already_compacted", r"already[ _]compacted|has compacted this session meanwhile"),
    ("deferred_background", r"deferred"),
    (
        "live_context_still_exceeds_target",
        r"still exceeds|as large as before|as much as what it replaces|not smaller than what",
    ),
    ("guard_blocked", r"guard|cancelled|automatic compaction is off"),
    ("summary_failed", r"summar"),
    ("timeout", r"timed out|timeout|no answer within|nothing came within|deadline exceeded"),
    ("provider_error_4xx", r"\b(?:400|401|403|429)\b"),
    ("provider_error_5xx", r"\b(?:500|502|503|504)\b"),
    (
        "auth_failed",
        r"refused the credentials|unauthori[sz]ed|invalid api key|authentication (?:failed|error)",
    ),
    ("transcript_persistence_failed", r"transcript|disk|read-only file|held the"),
)
_PATTERNS = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _CLASSES)


def reason_class(reason: str | None) -> ReasonClass:
    """The class of a reason; ``unknown`` for one that none fits, and for none at all."""
    text = reason or ""
    return next((name for name, pattern in _PATTERNS if pattern.search(text)), "unknown")
