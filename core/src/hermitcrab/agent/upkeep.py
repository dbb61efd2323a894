"""Keeping a session within its window: the memory flush and compactions (design 6, 7)."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen

from hermitcrab.agent.parts import SessionParts
from hermitcrab.compaction.budget import Budget
from hermitcrab.compaction.outcome import CompactionOutcome, CompactionTrigger
from hermitcrab.compaction.providers import ProvidedSummaries
from hermitcrab.compaction.runtime import Compactor
from hermitcrab.compaction.summarise import Summariser, SummarySource
from hermitcrab.compaction.view import View, ViewBuilder
from hermitcrab.context import CompactionDetails, CompactResult
from hermitcrab.context.delegation import CompactionRuntime, using_compaction_runtime
from hermitcrab.context.resolve import ResolvedEngine
from hermitcrab.errors import HermitcrabError
from hermitcrab.hooks import AfterCompaction, BeforeCompaction
from hermitcrab.memory.flush import FLUSH_TOOLS, FlushOutcome, run_flush
from hermitcrab.memory.prompts import flush_prompt, flush_system_prompt
from hermitcrab.messages.pairing import group_messages
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel
from hermitcrab.models.offline.model import OfflineModel
from hermitcrab.sessions.format import ENTRY_CHANGE
from hermitcrab.sessions.log import SessionLog
from hermitcrab.sessions.restoring import MediaRestorer

logger = logging.getLogger("hermitcrab.agent")

#: After this many failures the flush of a cycle counts as done (context 6.10).
FLUSH_FAILURES = 3
#: The flush leaves this much of the window for its answer, in tokens.
_FLUSH_ANSWER_TOKENS = 1_500


@frozen(kw_only=True)
class Upkeep:
    """Flushes and compacts one session.

    :param model: the model of the turn at hand; flushes and summaries use it unless config names others.
    """

    log: SessionLog
    engine: ResolvedEngine
    parts: SessionParts
    view: ViewBuilder
    media: MediaRestorer
    fire: Callable[[Any], Awaitable[Any]]
    model: Callable[[], ChatModel]
    _requested: list[FlushOutcome] = field(factory=list, init=False)

    def flush_is_due(self, view: View, budget: Budget) -> bool:
        """Whether the context is close enough to a compaction, or the transcript large enough."""
        settings = self.parts.settings.compaction.memory_flush
        limit = settings.force_flush_transcript_bytes
        too_large = 0 < limit <= self.log.visible_bytes
        return view.tokens >= budget.flush_at or too_large

    async def flush(self, budget: Budget) -> list[FlushOutcome]:
        """Run the memory flush, unless it is off or this cycle's has run already (context 6.10)."""
        entry = self.log.entry
        settings = self.parts.settings.compaction.memory_flush
        items = self.log.items()
        if not (items and settings.enabled) or self._is_flushed():
            return []
        if not self._workspace_is_writable():
            return []
        cycle = entry.compaction_count
        outcome = FlushOutcome(path="")
        for part in self._flush_parts([item.message for item in items], budget):
            outcome = _together(outcome, await self._flush_part(part))
            if outcome.error is not None:
                break
        await self._record_flush(outcome, cycle, items[-1].entry_id)
        return [outcome]

    def _is_flushed(self) -> bool:
        """Whether this cycle's flush has run.

        A compaction whose process died, or has not counted it yet, begins a new cycle all the same.
        """
        if not self.log.entry.flushed:
            return False
        for entry in reversed(self.log.path):
            if entry["type"] == "compaction":
                return False
            data = entry.get("data") if entry.get("customType") == ENTRY_CHANGE else None
            if isinstance(data, dict) and "flushedCycle" in data:
                return True
        return True

    async def _flush_part(self, messages: Sequence[Message]) -> FlushOutcome:
        settings = self.parts.settings.compaction.memory_flush
        return await run_flush(
            self.parts.flush_model or self.model(),
            messages=await self.media.restored(messages),
            workspace=self.parts.workspace,
            now=self.log.now(),
            zone=self.parts.zone,
            lock_path=self.parts.flush_lock,
            prompt=settings.prompt,
            system_prompt=settings.system_prompt,
            max_tokens=_FLUSH_ANSWER_TOKENS,
            timeout_s=float(self.parts.settings.compaction.timeout_seconds),
        )

    def _workspace_is_writable(self) -> bool:
        return os.access(self.parts.workspace, os.W_OK)

    def _flush_parts(
        self, messages: Sequence[Message], budget: Budget
    ) -> Sequence[Sequence[Message]]:
        """The conversation as the flush sees it: cut, and in several parts where it does not fit one request.

        What a compaction removes must have been seen by the flush, the oldest messages too (design 7).
        """
        settings = self.parts.settings.compaction.memory_flush
        now: datetime = self.log.now()
        count = self.parts.counter
        instructions = (
            count.text(flush_system_prompt(settings.system_prompt, target="memory/YYYY-MM-DD.md"))
            + count.text(flush_prompt(settings.prompt, target="memory/YYYY-MM-DD.md", now=now))
            + count.tools(FLUSH_TOOLS)
        )
        room = budget.window - instructions - min(_FLUSH_ANSWER_TOKENS, budget.reserve)
        view = self.view.build(messages, budget)
        parts: list[list[Message]] = [[]]
        taken = 0
        for group in group_messages(view.messages):
            members = [view.messages[index] for index in group]
            tokens = count.messages(members)
            if parts[-1] and taken + tokens > room:
                parts.append([])
                taken = 0
            parts[-1] += members
            taken += tokens
        return parts

    async def _record_flush(self, outcome: FlushOutcome, cycle: int, last: str | None) -> None:
        now = int(self.log.now().timestamp() * 1000)
        if outcome.error is None:
            await self.log.update_entry(
                policy="preserve-activity",
                flushed_cycle=cycle,
                flushed_at=now,
                flushed_entry_id=last,
                flush_failures=0,
                flush_error=None,
            )
            return
        failures = self.log.entry.flush_failures + 1
        changes: dict[str, Any] = {"flush_failures": failures, "flush_error": outcome.error[:200]}
        if failures >= FLUSH_FAILURES:
            changes |= {"flushed_cycle": cycle, "flushed_entry_id": None}
        await self.log.update_entry(policy="preserve-activity", **changes)

    async def compact(
        self,
        budget: Budget,
        *,
        trigger: CompactionTrigger,
        must_fit: bool,
        focus: str | None = None,
    ) -> CompactionOutcome:
        """Have the engine compact; the host does it where a non-owning engine leaves the context too large (C34)."""
        engine = self.engine.engine
        runtime = _Runtime(self, budget, trigger=trigger, must_fit=must_fit)
        tokens = self._measure(budget)
        if engine.info.owns_compaction:
            wish = await self.fire(BeforeCompaction(message_count=-1, token_count=tokens))
            if wish is not None and wish.flush:
                await self._flush_on_request(budget)
        failure: str | None = None
        result: CompactResult | None = None
        try:
            with using_compaction_runtime(runtime):
                result = await engine.compact(
                    session_id=self.log.session_id,
                    session_key=self.log.key,
                    session_file=str(self.log.file),
                    token_budget=budget.usable,
                    force=must_fit or trigger == "manual",
                    current_token_count=tokens,
                    compaction_target="threshold" if trigger == "manual" else "budget",
                    custom_instructions=focus,
                    runtime_context={"trigger": trigger, "window": budget.window},
                )
        except HermitcrabError as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001 - a foreign engine may raise anything
            failure = f"{type(error).__name__}: {error}"
        if failure is not None:
            logger.warning(
                "engine %s failed to compact: %s",
                self.engine.engine_id,
                failure,
                extra={"session_key": self.log.key, "plugin_id": self.engine.engine_id},
            )
        if runtime.outcome is not None:
            return runtime.outcome
        await self.log.refresh()
        over = self._measure(budget) > budget.usable
        if trigger == "overflow" and not (result is not None and result.compacted):
            over = True  # the provider knows better than our count
        if not engine.info.owns_compaction and (over or failure is not None):
            return await self.compactor(budget).compact(
                budget, trigger=trigger, must_fit=must_fit, focus=focus
            )
        outcome = _outcome_of(result, trigger, tokens, failure)
        if outcome.compacted:
            await self._count_compaction(outcome, budget)
        return outcome

    async def _count_compaction(self, outcome: CompactionOutcome, budget: Budget) -> None:
        """A compaction that an engine did by itself begins a new cycle too."""
        await self.log.update_entry(
            policy="preserve-activity",
            add_compactions=1,
            flush_failures=0,
            last_compaction=outcome.record(),
        )
        wish = await self.fire(
            AfterCompaction(message_count=-1, compacted_count=-1, token_count=outcome.tokens_after)
        )
        if wish is not None and wish.flush:
            await self._flush_on_request(budget)

    def _measure(self, budget: Budget) -> int:
        return self.view.measure([item.message for item in self.log.items()], budget)

    def compactor(self, budget: Budget) -> Compactor:
        """The runtime's compactor for the model at hand."""
        settings = self.parts.settings.compaction
        timeout_s = float(settings.timeout_seconds)
        summariser: SummarySource = Summariser(
            self.parts.summary_model or self.model(),
            self.parts.counter,
            window=self.parts.summary_window or budget.window,
            timeout_s=timeout_s,
        )
        if self.parts.summary_provider is not None:
            summariser = ProvidedSummaries(
                self.parts.summary_provider, summariser, timeout_s=timeout_s
            )
        return Compactor(
            self.log,
            view=self.view,
            counter=self.parts.counter,
            settings=settings,
            summariser=summariser,
            fallback=Summariser(
                OfflineModel(), self.parts.counter, window=budget.window, timeout_s=timeout_s
            ),
            fire=self.fire,
            request_flush=lambda: self._flush_on_request(budget),
        )

    async def _flush_on_request(self, budget: Budget) -> None:
        """A plugin wants a flush; the guard of the cycle decides."""
        self._requested.extend(await self.flush(budget))

    def take_requested(self) -> list[FlushOutcome]:
        """The flushes that plugins have had run since this was asked last."""
        taken = list(self._requested)
        self._requested.clear()
        return taken

    def has_work(self, budget: Budget) -> bool:
        """Whether a compaction by hand would find anything to do; of an engine that owns it nobody knows."""
        owns = self.engine.engine.info.owns_compaction
        return owns or self.compactor(budget).has_work(budget, "manual")

    def runtime(self, budget: Budget) -> CompactionRuntime:
        """What engines find in their calls that are not compactions."""
        return _Runtime(self, budget, must_fit=False)


def _together(first: FlushOutcome, second: FlushOutcome) -> FlushOutcome:
    """The outcome of a flush in parts, as if it were one."""
    return FlushOutcome(
        path=second.path,
        bytes_written=first.bytes_written + second.bytes_written,
        silent=second.silent and not first.bytes_written,
        error=second.error,
        calls=first.calls + second.calls,
        usage=first.usage + second.usage,
    )


class _Runtime:
    """The compaction runtime that an engine finds while the host calls it (context 3)."""

    def __init__(
        self,
        upkeep: Upkeep,
        budget: Budget,
        *,
        must_fit: bool,
        trigger: CompactionTrigger = "engine",
    ) -> None:
        self._upkeep = upkeep
        self._budget = budget
        self._must_fit = must_fit
        self._trigger: CompactionTrigger = trigger
        self.outcome: CompactionOutcome | None = None

    async def compact(self, *, custom_instructions: str | None, **params: Any) -> CompactResult:
        """Compact the session that is being handled."""
        outcome = await self._upkeep.compactor(self._budget).compact(
            self._budget,
            trigger=self._trigger,
            must_fit=self._must_fit,
            focus=custom_instructions,
        )
        self.outcome = outcome
        return CompactResult(
            ok=outcome.benign,
            compacted=outcome.compacted,
            reason=outcome.reason,
            result=CompactionDetails(
                summary=outcome.summary,
                first_kept_entry_id=outcome.first_kept_entry_id,
                tokens_before=outcome.tokens_before,
                tokens_after=outcome.tokens_after,
            ),
        )


def _outcome_of(
    result: CompactResult | None, trigger: CompactionTrigger, tokens: int, failure: str | None
) -> CompactionOutcome:
    """The outcome of an engine that compacts by itself."""
    if result is None:
        return CompactionOutcome(
            status="failed", trigger=trigger, reason=failure, tokens_before=tokens
        )
    details = result.result
    status = "compacted" if result.compacted else "not_needed" if result.ok else "failed"
    return CompactionOutcome(
        status=status,  # type: ignore[arg-type]
        trigger=trigger,
        reason=result.reason,
        tokens_before=(details.tokens_before if details else 0) or tokens,
        tokens_after=details.tokens_after if details else None,
        summary=details.summary if details else None,
    )
