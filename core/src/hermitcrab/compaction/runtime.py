"""Carrying out a compaction of one session: plan, summarise, check, append (context 6.7, design 7)."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import evolve, field, frozen

from hermitcrab.compaction.budget import Budget, BudgetSettings
from hermitcrab.compaction.identifiers import (
    IdentifierSelection,
    extract_identifiers,
    missing_identifiers,
    select_identifiers,
)
from hermitcrab.compaction.outcome import CompactionOutcome, CompactionTrigger, SummaryMode
from hermitcrab.compaction.plan import (
    CompactionPlan,
    NothingToCompact,
    latest_ask,
    plan_compaction,
)
from hermitcrab.compaction.serialise import serialise_message
from hermitcrab.compaction.structure import (
    IDENTIFIERS,
    NO_IDENTIFIERS,
    NOTHING,
    SummaryLimits,
    finish_summary,
    split_sections,
    with_headings,
)
from hermitcrab.compaction.summarise import Summariser, SummaryTask, SummaryText
from hermitcrab.compaction.view import ViewBuilder
from hermitcrab.errors import CompactionError
from hermitcrab.hooks import AfterCompaction, BeforeCompaction, SessionBeforeCompact
from hermitcrab.messages.caps import cut_text
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message
from hermitcrab.sessions.context import ContextItem, context_items, last_compaction
from hermitcrab.sessions.format import Entry
from hermitcrab.sessions.log import SessionLog

logger = logging.getLogger("hermitcrab.compaction")

#: Messages whose identifiers must survive (design 7, row "identifiers in summaries").
RECENT_MESSAGES = 10
#: The share of a summary that required identifiers may take, and the share of a split turn's section.
IDENTIFIER_SHARE = 4
TAIL_SHARE = 3
#: Rejections within one compaction count after which rules write the summary.
REJECTIONS = 2
#: Identifiers kept beside the text, in ``details.identifiers``.
OTHER_IDENTIFIERS = 500
SPLIT_TURN_TITLE = "**Turn Context (split turn):**"

#: Fires a hook event with the session's context.
Fire = Callable[[Any], Awaitable[Any]]


class CompactionSettings(BudgetSettings, Protocol):
    """The part of ``agents.defaults.compaction`` that a compaction reads."""

    @property
    def custom_instructions(self) -> str | None: ...
    @property
    def identifier_policy(self) -> str: ...
    @property
    def keep_credentials(self) -> bool: ...


@frozen(kw_only=True)
class _Draft:
    """A summary before it is brought into its final form."""

    sections: Mapping[str, str]
    tail: str
    mode: SummaryMode
    oversize: int = 0
    details: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class _Candidate:
    """A finished summary with all that is measured of it."""

    entry: Entry
    text: str
    mode: SummaryMode
    summary_tokens: int
    tokens_after: int
    identifiers: IdentifierSelection


class Compactor:
    """Compacts one session.

    :param summariser: the model's; :param fallback: works by rules alone and cannot fail for want of a model.
    """

    def __init__(
        self,
        log: SessionLog,
        *,
        view: ViewBuilder,
        counter: TokenCounter,
        settings: CompactionSettings,
        summariser: Summariser,
        fallback: Summariser,
        fire: Fire,
    ) -> None:
        self._log = log
        self._view = view
        self._counter = counter
        self._settings = settings
        self._summariser = summariser
        self._fallback = fallback
        self._fire = fire

    async def compact(
        self,
        budget: Budget,
        *,
        trigger: CompactionTrigger,
        must_fit: bool,
        focus: str | None = None,
        keep_recent: int | None = None,
    ) -> CompactionOutcome:
        """Compact once.

        :param must_fit: the context does not fit the window, so that a failing model is replaced by rules at once.
        :param focus: what the summary should dwell on, such as the text behind ``/compact``.
        :param keep_recent: tokens to keep instead of the budget's.
        """
        started = time.monotonic()
        await self._log.refresh()
        plan = self._plan(budget, keep_recent)
        if isinstance(plan, NothingToCompact):
            outcome = CompactionOutcome(
                status="not_needed",
                trigger=trigger,
                reason=plan.reason,
                tokens_before=plan.tokens_before,
            )
        else:
            outcome = await self._carry_out(plan, budget, trigger, must_fit, focus)
        outcome = evolve(outcome, duration_ms=round((time.monotonic() - started) * 1000))
        logger.info(
            "compaction (%s): %s%s",
            trigger,
            outcome.status,
            f", {outcome.reason}" if outcome.reason else "",
            extra={"session_key": self._log.key},
        )
        if outcome.status != "not_needed":
            await self._log.update_entry(record=False, last_compaction=outcome.record())
        return outcome

    def _plan(self, budget: Budget, keep_recent: int | None) -> CompactionPlan | NothingToCompact:
        items = self._log.items()
        return plan_compaction(
            items,
            budget,
            lambda messages: self._view.measure(messages, budget),
            keep_recent=keep_recent,
            unseen_from=self._unseen_from(items),
        )

    def _unseen_from(self, items: Sequence[ContextItem]) -> int | None:
        """Where what this cycle's flush has not seen begins; ``None`` if no flush ran in this cycle."""
        entry = self._log.entry
        if not entry.flushed or entry.flushed_entry_id is None:
            return None
        seen = (i for i, item in enumerate(items) if item.entry_id == entry.flushed_entry_id)
        index = next(seen, None)
        return None if index is None else index + 1

    async def _carry_out(
        self,
        plan: CompactionPlan,
        budget: Budget,
        trigger: CompactionTrigger,
        must_fit: bool,
        focus: str | None,
    ) -> CompactionOutcome:
        base = CompactionOutcome(
            status="failed",
            trigger=trigger,
            tokens_before=plan.tokens_before,
            messages_summarized=len(plan.summarised),
        )
        previous = last_compaction(self._log.path)
        previous_summary = previous.get("summary") if previous else None
        focus = focus or self._settings.custom_instructions
        await self._fire(
            BeforeCompaction(
                message_count=len(plan.summarised) + len(plan.kept),
                compacting_count=len(plan.summarised),
                token_count=plan.tokens_before,
                messages=plan.messages,
                session_file=str(self._log.file),
            )
        )
        decision = await self._ask_plugins(plan, budget, trigger, previous_summary, focus)
        if decision is not None and decision.cancel:
            return evolve(
                base, status="cancelled", reason=decision.reason or "cancelled by a plugin"
            )
        candidate = await self._candidate(plan, budget, previous_summary, focus, must_fit, decision)
        if isinstance(candidate, str):
            return evolve(base, reason=candidate)
        if candidate.tokens_after >= plan.tokens_before:
            return evolve(
                base,
                status="no_progress",
                reason="a summary would take as much as what it replaces",
                tokens_after=candidate.tokens_after,
            )
        return await self._commit(candidate, plan, base)

    async def _ask_plugins(
        self,
        plan: CompactionPlan,
        budget: Budget,
        trigger: str,
        previous_summary: str | None,
        focus: str | None,
    ) -> Any:
        return await self._fire(
            SessionBeforeCompact(
                session_key=self._log.key,
                session_id=self._log.session_id,
                messages=[item.message for item in plan.history],
                turn_prefix_messages=[item.message for item in plan.turn_prefix],
                previous_summary=previous_summary,
                custom_instructions=focus,
                tokens_before=plan.tokens_before,
                reason=trigger,
                first_kept_entry_id=plan.first_kept_entry_id,
                context_window=budget.window,
            )
        )

    async def _candidate(
        self,
        plan: CompactionPlan,
        budget: Budget,
        previous_summary: str | None,
        focus: str | None,
        must_fit: bool,
        decision: Any,
    ) -> _Candidate | str:
        """A summary that is good enough to store, or the reason why there is none."""
        if decision is not None and decision.summary:
            draft = _Draft(
                sections=with_headings(decision.summary),
                tail="",
                mode="plugin",
                details=decision.details or {},
            )
            return self._finish(draft, plan, budget, previous_summary)
        reason: str
        try:
            draft = await self._draft(self._summariser, plan, budget, previous_summary, focus)
            candidate = self._finish(draft, plan, budget, previous_summary)
            if candidate.tokens_after < plan.tokens_before:
                return candidate
            reason = "the summary is not smaller than what it replaces"
        except CompactionError as error:
            reason = str(error)
        rejections = self._log.entry.rejected_summaries + 1
        if not must_fit and rejections < REJECTIONS:
            await self._log.update_entry(record=False, rejected_summaries=rejections)
            return reason
        logger.warning("the summary is written by rules: %s", reason)
        draft = await self._draft(self._fallback, plan, budget, previous_summary, focus)
        note = f"Written by rules alone: {len(plan.summarised)} messages, {draft.oversize} of them too large."
        tail = "\n".join(filter(None, (note, draft.tail)))
        return self._finish(
            evolve(draft, mode="deterministic", tail=tail), plan, budget, previous_summary
        )

    async def _draft(
        self,
        summariser: Summariser,
        plan: CompactionPlan,
        budget: Budget,
        previous_summary: str | None,
        focus: str | None,
    ) -> _Draft:
        task = SummaryTask(
            messages=[item.message for item in plan.history],
            previous_summary=previous_summary,
            focus=focus,
            keep_identifiers=self._settings.identifier_policy != "off",
            max_tokens=budget.summary,
        )
        prefix = [item.message for item in plan.turn_prefix]
        if not plan.history:
            task = evolve(task, messages=prefix, is_turn_prefix=True)
        main = await summariser.summarise(task)
        tail = ""
        if plan.history and prefix:
            split = evolve(
                task,
                messages=prefix,
                previous_summary=None,
                is_turn_prefix=True,
                max_tokens=max(64, budget.summary // TAIL_SHARE),
            )
            tail = self._split_turn_section(await summariser.summarise(split), budget)
        return _Draft(
            sections=with_headings(main.text),
            tail=tail,
            mode="partial" if main.partial else "model",
            oversize=main.oversize,
        )

    def _split_turn_section(self, summary: SummaryText, budget: Budget) -> str:
        """What happened in the turn so far, under smaller headings, empty ones left out."""
        parts = [
            f"#{heading}\n{text}"
            for heading, text in with_headings(summary.text).items()
            if text not in {NOTHING, NO_IDENTIFIERS}
        ]
        text = "\n".join((SPLIT_TURN_TITLE, *parts))
        limit = budget.summary // TAIL_SHARE
        tokens = self._counter.text(text)
        if tokens > limit:
            text = cut_text(text, int(len(text) * limit / tokens * 0.9), "section")
        return text

    def _finish(
        self,
        draft: _Draft,
        plan: CompactionPlan,
        budget: Budget,
        previous_summary: str | None,
    ) -> _Candidate:
        limits = SummaryLimits(tokens=budget.summary)
        ask = latest_ask(plan.messages)
        identifiers = self._identifiers(plan.messages, ask, previous_summary, limits)
        text = finish_summary(
            draft.sections,
            required=identifiers.required,
            latest_ask=ask if plan.turn_prefix else None,
            tail=draft.tail,
            limits=limits,
            counter=self._counter,
            keep_credentials=self._settings.keep_credentials,
        )
        entry = self._log.new_entry(
            "compaction",
            summary=text,
            firstKeptEntryId=plan.first_kept_entry_id,
            tokensBefore=plan.tokens_before,
        )
        messages = [item.message for item in (*context_items([entry]), *plan.kept)]
        tokens_after = self._view.build_within(messages, budget).tokens
        entry["tokensAfter"] = tokens_after
        entry["details"] = {
            **draft.details,
            "identifiers": list(identifiers.others[:OTHER_IDENTIFIERS]),
            "identifiersRequired": len(identifiers.required),
            "messagesSummarized": len(plan.summarised),
            "mode": draft.mode,
        }
        return _Candidate(
            entry=entry,
            text=text,
            mode=draft.mode,
            summary_tokens=self._counter.text(text),
            tokens_after=tokens_after,
            identifiers=identifiers,
        )

    def _identifiers(
        self,
        messages: Sequence[Message],
        ask: str | None,
        previous_summary: str | None,
        limits: SummaryLimits,
    ) -> IdentifierSelection:
        """Which identifiers must stand in the text, newest first (design 7)."""
        texts = [serialise_message(message) for message in messages]
        everything = [one for text in reversed(texts) for one in extract_identifiers(text)]
        if self._settings.identifier_policy == "off":
            return IdentifierSelection(required=(), others=tuple(dict.fromkeys(everything)))
        recent = [
            one
            for text in (ask or "", *reversed(texts[-RECENT_MESSAGES:]))
            for one in extract_identifiers(text)
        ]
        earlier = extract_identifiers(split_sections(previous_summary or "").get(IDENTIFIERS, ""))
        return select_identifiers(
            [*recent, *earlier],
            everything,
            limit=limits.tokens // IDENTIFIER_SHARE,
            counter=self._counter,
        )

    async def _commit(
        self, candidate: _Candidate, plan: CompactionPlan, base: CompactionOutcome
    ) -> CompactionOutcome:
        if not await self._log.append_compaction(candidate.entry):
            return evolve(
                base,
                status="not_needed",
                reason="another process has compacted this session meanwhile",
            )
        await self._log.update_entry(
            record=False,
            compaction_count=self._log.entry.compaction_count + 1,
            rejected_summaries=0,
            flush_failures=0,
            context_tokens=candidate.tokens_after,
        )
        missing = missing_identifiers(candidate.text, candidate.identifiers.required)
        outcome = evolve(
            base,
            status="compacted",
            tokens_after=candidate.tokens_after,
            summary_tokens=candidate.summary_tokens,
            identifiers_required=len(candidate.identifiers.required),
            identifiers_kept=len(candidate.identifiers.required) - len(missing),
            mode=candidate.mode,
            summary=candidate.text,
            first_kept_entry_id=plan.first_kept_entry_id,
        )
        await self._fire(
            AfterCompaction(
                message_count=len(plan.kept) + 1,
                compacted_count=len(plan.summarised),
                token_count=candidate.tokens_after,
                session_file=str(self._log.file),
            )
        )
        return outcome
