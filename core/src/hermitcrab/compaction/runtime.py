"""Carrying out a compaction of one session: plan, summarise, check, append (context 6.7, design 7)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from attrs import evolve, frozen

from hermitcrab.compaction.budget import Budget
from hermitcrab.compaction.contract import Draft, FinishedSummary, SummarySettings
from hermitcrab.compaction.drafting import Drafter, DraftSettings, SummaryJob, plugin_draft
from hermitcrab.compaction.outcome import CompactionOutcome, CompactionTrigger
from hermitcrab.compaction.plan import CompactionPlan, NothingToCompact
from hermitcrab.compaction.planning import Planner, situation_of
from hermitcrab.compaction.reading import MessageReader
from hermitcrab.compaction.repeats import without_repeated_asks
from hermitcrab.compaction.summarise import SummarySource
from hermitcrab.compaction.view import ViewBuilder
from hermitcrab.compaction.writing import JobWriter
from hermitcrab.errors import CompactionError
from hermitcrab.hooks import AfterCompaction, BeforeCompaction, SessionBeforeCompact
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.sessions.context import context_items, last_compaction
from hermitcrab.sessions.format import Entry
from hermitcrab.sessions.log import SessionLog

logger = logging.getLogger("hermitcrab.compaction")

#: Rejections within one compaction count after which rules write the summary.
REJECTIONS = 2

#: Fires a hook event with the session's context.
Fire = Callable[[Any], Awaitable[Any]]


class CompactionSettings(DraftSettings, SummarySettings, Protocol):
    """The part of ``agents.defaults.compaction`` that a compaction reads."""

    @property
    def custom_instructions(self) -> str | None: ...


@frozen(kw_only=True)
class _Candidate:
    """A finished summary, the entry that stores it, and what the context takes with it, in tokens."""

    summary: FinishedSummary
    entry: Entry
    tokens_after: int


async def _no_flush() -> None:
    return


class Compactor:
    """Compacts one session.

    :param summariser: the model's, or a provider's; :param fallback: works by rules alone and cannot fail for want of
        a model.
    :param reader: shared with both of them, so that nothing is read twice.
    """

    def __init__(
        self,
        log: SessionLog,
        *,
        view: ViewBuilder,
        counter: TokenCounter,
        settings: CompactionSettings,
        summariser: SummarySource,
        fallback: SummarySource,
        fire: Fire,
        request_flush: Callable[[], Awaitable[None]] = _no_flush,
        reader: MessageReader | None = None,
    ) -> None:
        self._log = log
        self._view = view
        self._counter = counter
        self._reader = reader or MessageReader(counter)
        self._drafter = Drafter(counter, settings)
        self._settings = settings
        self._summariser = summariser
        self._fallback = fallback
        self._fire = fire
        self._request_flush = request_flush

    async def has_work(self, budget: Budget, trigger: CompactionTrigger) -> bool:
        """Whether there is anything that a compaction could take away."""
        return not isinstance(await self._plan(budget, trigger, None), NothingToCompact)

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
        planned_at = self._log.leaf_id
        plan = await self._plan(budget, trigger, keep_recent)
        if isinstance(plan, NothingToCompact):
            outcome = CompactionOutcome(
                status="not_needed",
                trigger=trigger,
                reason=plan.reason,
                tokens_before=plan.tokens_before,
            )
        else:
            outcome = await self._carry_out(plan, planned_at, budget, trigger, must_fit, focus)
        outcome = evolve(outcome, duration_ms=round((time.monotonic() - started) * 1000))
        logger.info(
            "compaction (%s): %s%s",
            trigger,
            outcome.status,
            f", {outcome.reason}" if outcome.reason else "",
            extra={"session_key": self._log.key},
        )
        await self._log.update_entry(
            record=False, policy="preserve-activity", last_compaction=outcome.record()
        )
        return outcome

    async def _plan(
        self, budget: Budget, trigger: CompactionTrigger, keep_recent: int | None
    ) -> CompactionPlan | NothingToCompact:
        """The plan for what the session holds now."""
        planner = Planner(self._view, situation_of(self._log), budget)
        return await asyncio.to_thread(planner.plan, trigger, keep_recent)

    async def _carry_out(
        self,
        plan: CompactionPlan,
        planned_at: str | None,
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
        job = await asyncio.to_thread(self._job, plan, self._log.path, budget, focus)
        wish = await self._fire(
            BeforeCompaction(
                message_count=len(plan.summarised) + len(plan.kept),
                compacting_count=len(plan.summarised),
                token_count=plan.tokens_before,
                messages=plan.messages,
                session_file=str(self._log.file),
            )
        )
        if wish is not None and wish.flush:
            await self._request_flush()
        writer = JobWriter(
            job,
            drafter=self._drafter,
            source=self._summariser,
            settings=self._settings,
            counter=self._counter,
            reader=self._reader,
        )
        decision = await self._ask_plugins(job, writer, trigger)
        if decision is not None and decision.cancel:
            return evolve(
                base, status="cancelled", reason=decision.reason or "cancelled by a plugin"
            )
        candidate = await self._write(job, writer, decision, must_fit)
        if isinstance(candidate, str):
            return evolve(base, reason=candidate)
        if candidate.tokens_after >= plan.tokens_before:
            return evolve(
                base,
                status="no_progress",
                reason="a summary would take as much as what it replaces",
                tokens_after=candidate.tokens_after,
            )
        return await self._commit(candidate, plan, planned_at, base)

    def _job(
        self, plan: CompactionPlan, path: Sequence[Entry], budget: Budget, focus: str | None
    ) -> SummaryJob:
        previous = last_compaction(path)
        details = previous.get("details") if previous else None
        summary = previous.get("summary") if previous else None
        instructions = (focus, self._settings.custom_instructions)
        return SummaryJob(
            plan=plan,
            history=without_repeated_asks([item.message for item in plan.history]),
            turn_prefix=without_repeated_asks([item.message for item in plan.turn_prefix]),
            budget=budget,
            identifiers=self._drafter.identifiers(plan, budget, summary),
            focus=next((text for text in instructions if text and text.strip()), None),
            previous_summary=summary,
            previous_details=details if isinstance(details, dict) else None,
        )

    async def _ask_plugins(self, job: SummaryJob, writer: JobWriter, trigger: str) -> Any:
        plan = job.plan
        return await self._fire(
            SessionBeforeCompact(
                session_key=self._log.key,
                session_id=self._log.session_id,
                messages=job.history,
                turn_prefix_messages=job.turn_prefix,
                previous_summary=job.previous_summary,
                custom_instructions=job.focus,
                tokens_before=plan.tokens_before,
                reason=trigger,
                first_kept_entry_id=plan.first_kept_entry_id,
                context_window=job.budget.window,
                writer=writer,
            )
        )

    async def _write(
        self, job: SummaryJob, writer: JobWriter, decision: Any, must_fit: bool
    ) -> _Candidate | str:
        """A plugin's or the model's summary, or one by rules where none may be waited for, or why there is none."""
        reason: str
        try:
            candidate = await self._candidate(await self._summary(job, writer, decision), job)
            if candidate.tokens_after < job.plan.tokens_before:
                return candidate
            reason = "the summary is not smaller than what it replaces"
        except CompactionError as error:
            reason = str(error)
        rejections = self._log.entry.rejected_summaries + 1
        if not must_fit and rejections < REJECTIONS:
            await self._log.update_entry(
                record=False, policy="preserve-activity", rejected_summaries=rejections
            )
            return reason
        logger.warning("the summary is written by rules: %s", reason)
        draft = await self._drafter.by_rules(self._fallback, job, reason)
        return await self._candidate(await self._finished(draft, job), job)

    async def _summary(self, job: SummaryJob, writer: JobWriter, decision: Any) -> FinishedSummary:
        """The summary that a plugin supplies, else the model's.

        :raises CompactionError: if there is none, or a plugin has rejected all that it was given.
        """
        if decision is not None and decision.summary:
            known = writer.finished(decision.summary)
            if known is not None:
                return evolve(known, details={**known.details, **(decision.details or {})})
            draft = plugin_draft(decision.summary, decision.details, budget=job.budget)
            return await self._finished(draft, job)
        if decision is not None and decision.rejected:
            raise CompactionError(decision.rejected)
        return await self._finished(await self._drafter.by_model(self._summariser, job), job)

    async def _finished(self, draft: Draft, job: SummaryJob) -> FinishedSummary:
        return await asyncio.to_thread(self._drafter.finish, draft, job)

    async def _candidate(self, summary: FinishedSummary, job: SummaryJob) -> _Candidate:
        entry = self._log.new_entry(
            "compaction",
            summary=summary.text,
            firstKeptEntryId=job.plan.first_kept_entry_id,
            tokensBefore=job.plan.tokens_before,
            details=dict(summary.details),
        )
        messages = [item.message for item in (*context_items([entry]), *job.plan.kept)]
        view = await asyncio.to_thread(self._view.build_within, messages, job.budget)
        entry["tokensAfter"] = view.tokens
        return _Candidate(summary=summary, entry=entry, tokens_after=view.tokens)

    async def _commit(
        self,
        candidate: _Candidate,
        plan: CompactionPlan,
        planned_at: str | None,
        base: CompactionOutcome,
    ) -> CompactionOutcome:
        if not await self._log.append_compaction(candidate.entry, planned_at=planned_at):
            return evolve(
                base,
                status="not_needed",
                reason="another process has compacted this session meanwhile, or it was rewritten",
            )
        await self._log.update_entry(
            record=False,
            policy="preserve-activity",
            add_compactions=1,
            rejected_summaries=0,
            flush_failures=0,
            context_tokens=candidate.tokens_after,
        )
        summary = candidate.summary
        outcome = evolve(
            base,
            status="compacted",
            reason="; ".join(summary.remarks) or None,
            tokens_after=candidate.tokens_after,
            summary_tokens=summary.tokens,
            identifiers_required=summary.identifiers_required,
            identifiers_kept=summary.identifiers_kept,
            mode=summary.mode,
            summary=summary.text,
            first_kept_entry_id=plan.first_kept_entry_id,
        )
        wish = await self._fire(
            AfterCompaction(
                message_count=len(plan.kept) + 1,
                compacted_count=len(plan.summarised),
                token_count=candidate.tokens_after,
                session_file=str(self._log.file),
            )
        )
        if wish is not None and wish.flush:
            await self._request_flush()
        return outcome
