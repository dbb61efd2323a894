"""Context engines: what they are, how they are registered, and how the host gets the one for a session."""

from __future__ import annotations

from hermitcrab.context.contract import (
    ContextEngine,
    ContextEngineInfo,
    EngineContext,
    has_method,
)
from hermitcrab.context.delegation import delegate_compaction
from hermitcrab.context.registry import register_context_engine
from hermitcrab.context.results import (
    AssembleResult,
    BootstrapResult,
    CompactionDetails,
    CompactResult,
    IngestBatchResult,
    IngestResult,
    MaintainResult,
    SubagentPreparation,
)
from hermitcrab.plugins.registry import RegistrationResult

__all__ = [
    "AssembleResult",
    "BootstrapResult",
    "CompactResult",
    "CompactionDetails",
    "ContextEngine",
    "ContextEngineInfo",
    "EngineContext",
    "IngestBatchResult",
    "IngestResult",
    "MaintainResult",
    "RegistrationResult",
    "SubagentPreparation",
    "delegate_compaction",
    "has_method",
    "register_context_engine",
]
