"""What a compaction came to."""

from __future__ import annotations

from typing import Any, Literal

from attrs import asdict, frozen

from hermitcrab.compaction.reasons import ReasonClass, reason_class
from hermitcrab.config.names import camel_case

CompactionStatus = Literal["compacted", "not_needed", "no_progress", "cancelled", "failed"]
CompactionTrigger = Literal[
    "preflight", "in_loop", "bytes", "manual", "overflow", "timeout_recovery", "engine"
]
#: Where the summary came from: the model, as much of it as the model managed, rules alone, or a plugin.
SummaryMode = Literal["model", "partial", "deterministic", "plugin"]


@frozen(kw_only=True)
class CompactionOutcome:
    """The outcome of one compaction. Sizes are tokens of the view, ``duration_ms`` is milliseconds.

    ``identifiers_kept`` counts those of the required identifiers that stand in the stored text.
    """

    status: CompactionStatus
    trigger: CompactionTrigger
    reason: str | None = None
    tokens_before: int = 0
    tokens_after: int | None = None
    summary_tokens: int = 0
    messages_summarized: int = 0
    identifiers_required: int = 0
    identifiers_kept: int = 0
    mode: SummaryMode | None = None
    duration_ms: int = 0
    summary: str | None = None
    first_kept_entry_id: str | None = None

    @property
    def compacted(self) -> bool:
        return self.status == "compacted"

    @property
    def benign(self) -> bool:
        """Whether the turn may go on as if nothing had been asked."""
        return self.status in {"compacted", "not_needed"}

    @property
    def reason_class(self) -> ReasonClass | None:
        """What kind of reason kept it from compacting; ``None`` if it did compact."""
        if self.compacted:
            return None
        found = reason_class(self.reason)
        return "guard_blocked" if found == "unknown" and self.status == "cancelled" else found

    def record(self) -> dict[str, Any]:
        """The outcome as JSON data with camelCase names, without the summary's text."""
        values = {**asdict(self), "reason_class": self.reason_class}
        del values["summary"]
        return {camel_case(name): value for name, value in values.items()}
