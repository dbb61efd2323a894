"""Compaction: budgets, planning, summaries, and the runtime that engines delegate to.

Public is what plugins need that write summaries or check them: a provider is registered in
``register_compaction_providers``, and the hook ``session_before_compact`` gets a writer.
"""

from __future__ import annotations

from hermitcrab.compaction.chunks import prune_for_share
from hermitcrab.compaction.contract import (
    CompactionProvider,
    Draft,
    FinishedSummary,
    SummaryRequest,
    SummarySettings,
    SummaryWish,
    SummaryWriter,
)
from hermitcrab.compaction.files import FileLists
from hermitcrab.compaction.structure import (
    HEADINGS,
    NO_IDENTIFIERS,
    NOTHING,
    SummaryLimits,
    cut_graphemes,
    headings_in,
)

__all__ = [
    "HEADINGS",
    "NOTHING",
    "NO_IDENTIFIERS",
    "CompactionProvider",
    "Draft",
    "FileLists",
    "FinishedSummary",
    "SummaryLimits",
    "SummaryRequest",
    "SummarySettings",
    "SummaryWish",
    "SummaryWriter",
    "cut_graphemes",
    "headings_in",
    "prune_for_share",
]
