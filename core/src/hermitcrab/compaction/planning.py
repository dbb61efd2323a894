"""Planning one compaction from what a session holds at one moment, away from its event loop (P24)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from hermitcrab.compaction.budget import Budget
from hermitcrab.compaction.outcome import CompactionTrigger
from hermitcrab.compaction.plan import (
    CompactionPlan,
    NothingToCompact,
    plan_compaction,
    takes_at_least,
)
from hermitcrab.compaction.view import ViewBuilder
from hermitcrab.messages.types import Message
from hermitcrab.sessions.context import ContextItem, message_of
from hermitcrab.sessions.format import Entry
from hermitcrab.sessions.log import SessionLog

#: A user's wish to compact what is all recent is followed from this many tokens on; a summary would take as much.
WORTH_SUMMARISING = 400
#: Triggers of a provider that could not take a request, whatever our count says.
_PRESSED: frozenset[CompactionTrigger] = frozenset({"overflow", "timeout_recovery"})


@frozen(kw_only=True)
class Situation:
    """What a plan is made from: taken on the event loop, and never changed by what the session goes on to do.

    ``flushed_entry_id`` is the last entry that this cycle's flush has seen, where one has run.
    """

    items: Sequence[ContextItem]
    path: Sequence[Entry]
    flushed_entry_id: str | None


def situation_of(log: SessionLog) -> Situation:
    """What there is to plan with now."""
    entry = log.entry
    return Situation(
        items=log.items(),
        path=log.path,
        flushed_entry_id=entry.flushed_entry_id if entry.flushed else None,
    )


@frozen
class Planner:
    """Plans compactions; takes time with long conversations, so that it is called in a thread."""

    view: ViewBuilder
    situation: Situation
    budget: Budget

    def plan(
        self, trigger: CompactionTrigger, keep_recent: int | None
    ) -> CompactionPlan | NothingToCompact:
        """The plan; where nearly all is recent, a user or a provider who asks for a compaction still gets one."""
        plan = self._plan(keep_recent)
        if trigger not in {"manual", *_PRESSED} or self._is_worthwhile(plan):
            return plan
        if trigger == "manual" and not self._said_since_last_compaction():
            return plan
        closer = self._plan(0)
        if isinstance(closer, NothingToCompact) and not isinstance(plan, NothingToCompact):
            return plan
        return closer if trigger in _PRESSED or self._is_worthwhile(closer) else plan

    def _plan(self, keep_recent: int | None) -> CompactionPlan | NothingToCompact:
        return plan_compaction(
            self.situation.items,
            self.budget,
            self._measure,
            keep_recent=keep_recent,
            unseen_from=self._unseen_from(),
        )

    def _measure(self, messages: Sequence[Message]) -> int:
        return self.view.measure(messages, self.budget)

    def _is_worthwhile(self, plan: CompactionPlan | NothingToCompact) -> bool:
        """Whether what a plan takes away is more than the summary that stands in for it."""
        if isinstance(plan, NothingToCompact):
            return False
        return takes_at_least(plan.messages, WORTH_SUMMARISING, self._measure)

    def _said_since_last_compaction(self) -> bool:
        for entry in reversed(self.situation.path):
            if entry["type"] == "compaction":
                return False
            if message_of(entry) is not None:
                return True
        return False

    def _unseen_from(self) -> int | None:
        """Where what this cycle's flush has not seen begins; ``None`` if no flush ran in this cycle."""
        flushed = self.situation.flushed_entry_id
        if flushed is None:
            return None
        items = self.situation.items
        index = next((i for i, item in enumerate(items) if item.entry_id == flushed), None)
        return None if index is None else index + 1
