"""Writing one summary: attempts, each audited, until one is good enough (context 5.3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve, frozen

from hermitcrab.compaction import (
    Draft,
    FinishedSummary,
    SummaryWish,
    SummaryWriter,
    prune_for_share,
)
from hermitcrab.errors import CompactionError
from hermitcrab.hooks import CompactionDecision, SessionBeforeCompact
from hermitcrab.messages import Message
from hermitcrab_compaction_safeguard.asks import (
    ASKS,
    NOT_FOREGROUNDED,
    Requests,
    answered_and_open,
    one_line,
    pending_in,
)
from hermitcrab_compaction_safeguard.audit import (
    TOO_LONG,
    audit_answer,
    audit_stored,
    is_acceptable,
    named_identifiers,
    without_invented,
)
from hermitcrab_compaction_safeguard.conversation import is_conversation, user_line
from hermitcrab_compaction_safeguard.rules import workspace_rules
from hermitcrab_compaction_safeguard.sections import (
    RECENT_TURNS,
    Part,
    compose,
    files_part,
    own_part,
    recent_turns_part,
    tool_failures_part,
)

logger = logging.getLogger("hermitcrab.plugins.compaction-safeguard")

#: Times that a summary is written again at most, whatever config says.
MOST_RETRIES = 3
#: Estimates may be this much too low.
SAFETY_MARGIN = 1.2
#: What follows the five sections may take one part in this many of a summary, however long these are.
TAIL_SHARE = 3
#: What stands between the sections and what follows them, in tokens or characters, rounded up.
_SEPARATION = 8
#: Reasons that an answer names.
_NAMED_REASONS = 4


@frozen(kw_only=True)
class Attempt:
    """A summary as it would be stored, and what is wrong with it."""

    summary: FinishedSummary
    issues: tuple[str, ...]


class Safeguard:
    """Decides on one compaction."""

    def __init__(
        self, event: SessionBeforeCompact, writer: SummaryWriter, workspace: Path | None
    ) -> None:
        self._event = event
        self._writer = writer
        self._workspace = workspace
        self._settings = writer.settings
        self._messages = [*event.messages, *event.turn_prefix_messages]

    async def decide(self) -> CompactionDecision:
        """The summary to store, or why there is none that is good enough."""
        if not is_conversation(self._messages, self._event.previous_summary):
            # Without a summary the same compaction would be due again at once.
            summary = self._writer.finish(self._writer.without_model())
            return CompactionDecision(summary=summary.text)
        rules = await asyncio.to_thread(
            workspace_rules, self._workspace, self._settings.post_compaction_sections
        )
        try:
            return await self._audited(await self._wish(), rules)
        except CompactionError as error:
            return _rejected(f"could not summarise the session: {error}", self._event)

    async def _wish(self) -> SummaryWish:
        """What is to be summarised; where much is kept, the oldest part has been summarised first (context 4.9).

        :raises CompactionError: if that fails: it must not be lost.
        """
        event = self._event
        history, previous = list(event.messages), event.previous_summary
        limit = self._writer.limits.tokens
        given_up, kept = await asyncio.to_thread(self._pruned, history)
        if given_up:
            first = await self._writer.write(
                SummaryWish(
                    messages=given_up, previous_summary=previous, focus=event.custom_instructions
                )
            )
            history, previous = kept, first.answer
        return SummaryWish(
            messages=history,
            turn_prefix=list(event.turn_prefix_messages),
            previous_summary=previous,
            focus=event.custom_instructions,
            max_tokens=limit - limit // TAIL_SHARE,
        )

    def _pruned(self, history: list[Message]) -> tuple[list[Message], list[Message]]:
        tokens, window = self._event.tokens_before, self._event.context_window
        if tokens is None or window is None:
            return [], history
        summarised = sum(map(self._writer.count, self._messages))
        share = window * self._settings.max_history_share
        if max(0, tokens - summarised) <= int(share * SAFETY_MARGIN):
            return [], history
        return prune_for_share(history, max(1, int(share)), self._writer.count)

    async def _audited(self, wish: SummaryWish, rules: str) -> CompactionDecision:
        guard = self._settings.quality_guard
        attempts = 1 + min(guard.max_retries, MOST_RETRIES) if guard.enabled else 1
        best: Attempt | None = None
        issues: tuple[str, ...] = ()
        number = 0
        for number in range(1, attempts + 1):
            try:
                draft = await self._writer.write(evolve(wish, feedback=issues))
            except CompactionError as error:
                if best is None:
                    raise
                logger.warning("a summary could not be written again: %s", error)
                break
            attempt = await asyncio.to_thread(self._examine, draft, rules)
            issues = attempt.issues
            if not issues or not guard.enabled:
                return self._stored(attempt, number, audited=guard.enabled)
            logger.info("a summary failed its audit: %s", "; ".join(issues))
            if is_acceptable(issues) and (best is None or len(issues) <= len(best.issues)):
                best = attempt
        if best is not None:
            return self._stored(best, number, audited=True)
        listed = "; ".join(issues[:_NAMED_REASONS])
        return _rejected(f"the summary failed its audit {number} times: {listed}", self._event)

    def _stored(self, attempt: Attempt, attempts: int, *, audited: bool) -> CompactionDecision:
        issues = list(attempt.issues)
        details: dict[str, object] = {
            "safeguard": {"audited": audited, "attempts": attempts, "issues": issues}
        }
        if self._writer.unresolved_ask is not None:
            details["latestUnresolvedUserRequest"] = one_line(self._writer.unresolved_ask)
        return CompactionDecision(summary=attempt.summary.text, details=details)

    def _examine(self, draft: Draft, rules: str) -> Attempt:
        """Complete a draft, and audit both it and the text that would be stored."""
        writer = self._writer
        ask = writer.latest_ask
        invented: Sequence[str] = ()
        if self._settings.identifier_policy == "strict":
            invented = writer.invented_identifiers(named_identifiers(draft))
        issues = audit_answer(draft, ask=ask, invented=invented)
        tokens = writer.count_text(draft.answer)
        if tokens > writer.limits.tokens:
            issues.append(f"{TOO_LONG}:{tokens} tokens, at most {writer.limits.tokens} fit")
        if invented:
            draft = without_invented(draft, invented)
        body = writer.finish(evolve(draft, tail=""))
        tail = self._tail(draft, body, rules)
        requests = self._requests(tail)
        misplaced = requests.audit(pending_in(body.text))
        if misplaced:
            issues += misplaced
            pending = requests.mend(draft.sections.get(ASKS, ""))
            draft = evolve(draft, sections={**draft.sections, ASKS: pending})
            tail = self._tail(draft, writer.finish(evolve(draft, tail="")), rules)
        summary = writer.finish(evolve(draft, tail=tail))
        issues += audit_stored(summary, ask=ask)
        if NOT_FOREGROUNDED in requests.audit(pending_in(summary.text)):
            issues.append(f"stored_{NOT_FOREGROUNDED}")
        return Attempt(summary=summary, issues=tuple(issues))

    def _requests(self, tail: str) -> Requests:
        """What is known of the user's requests; answered ones count only where their turn is in ``tail``."""
        answered, waiting = answered_and_open(self._messages)
        turns = tail.partition(RECENT_TURNS)[2]
        retained = [ask for ask in answered if user_line(ask) in turns]
        return Requests(unresolved=self._writer.unresolved_ask, answered=retained, open=waiting)

    def _tail(self, draft: Draft, body: FinishedSummary, rules: str) -> str:
        """What follows the sections: a third of the summary is its own, and what the sections leave.

        It never takes more than half of what is summarised, or a compaction could save nothing.
        """
        writer = self._writer
        parts = [
            own_part(draft.tail),
            recent_turns_part(self._event.messages, self._settings.recent_turns_preserve),
            tool_failures_part(self._messages),
            files_part("read-files", writer.files.read),
            files_part("modified-files", writer.files.modified),
            Part(segments=[rules] if rules else []),
        ]
        limits = writer.limits
        room = max(limits.tokens // TAIL_SHARE, limits.tokens - body.tokens - _SEPARATION)
        left = limits.characters - len(body.text)
        return compose(
            [part for part in parts if part.segments],
            tokens=min(room, sum(map(writer.count, self._messages)) // 2),
            characters=max(limits.characters // TAIL_SHARE, left - _SEPARATION),
            count=writer.count_text,
        )


def _rejected(reason: str, event: SessionBeforeCompact) -> CompactionDecision:
    logger.warning("%s", reason, extra={"session_key": event.session_key})
    return CompactionDecision(rejected=f"compaction safeguard: {reason}")
