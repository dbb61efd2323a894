"""Telling the user of compactions, where config wants it (``compaction.notifyUser``, context 6.9)."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from hermitcrab.agent.events import Notice
from hermitcrab.compaction.outcome import CompactionOutcome, CompactionTrigger

_BEGUN = "Older messages of this conversation are being summarised…"


@define
class Notices:
    """The notices of one turn: events as it runs, and ``told`` for its reply."""

    _is_wanted: bool
    _emit: Callable[[Notice], None]
    _ends: list[str] = field(factory=list, init=False)

    def begun(self, trigger: CompactionTrigger) -> None:
        """A compaction begins."""
        if self._is_wanted:
            self._emit(Notice(_BEGUN))

    def ended(self, outcome: CompactionOutcome) -> None:
        """A compaction has ended."""
        if self._is_wanted:
            text = describe_compaction(outcome)
            self._ends.append(text)
            self._emit(Notice(text))

    @property
    def told(self) -> tuple[str, ...]:
        """How the compactions of the turn ended."""
        return tuple(self._ends)


def describe_compaction(outcome: CompactionOutcome) -> str:
    """One line about a compaction, for people."""
    if outcome.compacted:
        after = outcome.tokens_after or 0
        how = " (by rules, without a model)" if outcome.mode == "deterministic" else ""
        return (
            f"Compacted {outcome.messages_summarized} messages: "
            f"{outcome.tokens_before:,} → {after:,} tokens{how}."
        )
    verb = "skipped" if outcome.status == "not_needed" else outcome.status.replace("_", " ")
    return f"Compaction {verb}: {outcome.reason or 'no reason given'}."
