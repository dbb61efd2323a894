"""Compacting one session: the engine does it, and the host where the engine does not (design 4; context 1.5, 6.7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import evolve, frozen

from hermitcrab.agent.flushing import SessionFlush
from hermitcrab.agent.parts import SessionParts
from hermitcrab.agent.summaries import summary_sources
from hermitcrab.compaction.budget import Budget
from hermitcrab.compaction.outcome import CompactionOutcome, CompactionTrigger
from hermitcrab.compaction.reading import MessageReader
from hermitcrab.compaction.runtime import Compactor
from hermitcrab.compaction.view import ViewBuilder
from hermitcrab.context import CompactionDetails, CompactResult
from hermitcrab.context.contract import DEFAULT_ENGINE_ID
from hermitcrab.context.delegation import CompactionRuntime, using_compaction_runtime
from hermitcrab.context.resolve import ResolvedEngine
from hermitcrab.errors import HermitcrabError
from hermitcrab.hooks import AfterCompaction, BeforeCompaction
from hermitcrab.models.contract import ChatModel
from hermitcrab.sessions.log import SessionLog

logger = logging.getLogger("hermitcrab.agent")

#: Triggers that know better than our count that the context is too large.
_CERTAIN: frozenset[CompactionTrigger] = frozenset({"overflow", "timeout_recovery", "bytes"})
AUTOMATIC_IS_OFF = "automatic compaction is off (agents.defaults.compaction.enabled)"
NOT_BELIEVED = "the engine says that it compacted, and the context is as large as before"


@frozen(kw_only=True)
class CompactionWish:
    """What is wanted of one compaction. Sizes are tokens.

    ``shown`` measures the messages as the engine would assemble them now. ``observed_tokens`` is the size of the
    request by the provider's count, where it refused one.
    """

    trigger: CompactionTrigger
    shown: Callable[[], Awaitable[int]]
    must_fit: bool = False
    focus: str | None = None
    observed_tokens: int | None = None


@frozen(kw_only=True)
class Upkeep:
    """Compacts one session.

    :param model: the model of the turn at hand; summaries use it unless config names another.
    """

    log: SessionLog
    engine: ResolvedEngine
    parts: SessionParts
    view: ViewBuilder
    flush: SessionFlush
    fire: Callable[[Any], Awaitable[Any]]
    model: Callable[[], ChatModel]

    async def compact(self, budget: Budget, wish: CompactionWish) -> CompactionOutcome:
        """Have the engine compact, and the host where that leaves the context as it is (C34, P10)."""
        runtime = _Runtime(self, budget, trigger=wish.trigger, must_fit=wish.must_fit)
        shown_before = None if self._always_delegates else await wish.shown()
        tokens = await self._measure(budget)
        result, failure = await self._ask_engine(budget, wish, tokens, runtime)
        if runtime.outcome is not None:
            return runtime.outcome
        await self.log.refresh()
        outcome = _outcome_of(result, wish.trigger, tokens, failure)
        shown = await wish.shown()
        if outcome.compacted and shown_before is not None and shown >= shown_before:
            logger.warning("%s: %s", self.engine.engine_id, NOT_BELIEVED, extra=self._record)
            outcome = evolve(outcome, status="no_progress", reason=NOT_BELIEVED, tokens_after=shown)
        if self._host_takes_over(outcome, shown, budget, wish):
            return await self.compactor(budget).compact(
                budget, trigger=wish.trigger, must_fit=wish.must_fit, focus=wish.focus
            )
        await self._keep(outcome, budget)
        return outcome

    @property
    def _always_delegates(self) -> bool:
        return self.engine.engine_id == DEFAULT_ENGINE_ID

    @property
    def _record(self) -> dict[str, str]:
        return {"session_key": self.log.key, "plugin_id": self.engine.engine_id}

    async def _ask_engine(
        self, budget: Budget, wish: CompactionWish, tokens: int, runtime: _Runtime
    ) -> tuple[CompactResult | None, str | None]:
        """What the engine's ``compact`` answers, or how it failed."""
        engine = self.engine.engine
        if engine.info.owns_compaction:
            request = await self.fire(BeforeCompaction(message_count=-1, token_count=tokens))
            if request is not None and request.flush:
                await self.flush.run_on_request(budget)
        try:
            with using_compaction_runtime(runtime):
                return await engine.compact(
                    session_id=self.log.session_id,
                    session_key=self.log.key,
                    session_file=str(self.log.file),
                    token_budget=budget.usable,
                    force=wish.must_fit or wish.trigger == "manual",
                    current_token_count=wish.observed_tokens or tokens,
                    compaction_target="threshold" if wish.trigger == "manual" else "budget",
                    custom_instructions=wish.focus,
                    runtime_context={"trigger": wish.trigger, "window": budget.window},
                ), None
        except HermitcrabError as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001 - a foreign engine may raise anything
            failure = f"{type(error).__name__}: {error}"
        logger.warning(
            "engine %s failed to compact: %s", self.engine.engine_id, failure, extra=self._record
        )
        return None, failure

    def _host_takes_over(
        self, outcome: CompactionOutcome, shown: int, budget: Budget, wish: CompactionWish
    ) -> bool:
        """Whether the host compacts because the engine did not.

        An engine that owns compaction may refuse one, but not leave the context too large for the window.
        """
        if outcome.reason == NOT_BELIEVED:
            return True
        is_unmet = wish.trigger in _CERTAIN and not outcome.compacted
        if self.engine.engine.info.owns_compaction:
            too_large = shown > budget.usable or is_unmet
            return wish.must_fit and too_large and not outcome.compacted
        return shown > budget.compact_at or is_unmet or outcome.status == "failed"

    async def _keep(self, outcome: CompactionOutcome, budget: Budget) -> None:
        """Record what an engine did by itself; a compaction of its own begins a new cycle too."""
        if not outcome.compacted:
            await self.log.update_entry(
                record=False, policy="preserve-activity", last_compaction=outcome.record()
            )
            return
        await self.log.update_entry(
            policy="preserve-activity",
            add_compactions=1,
            flush_failures=0,
            last_compaction=outcome.record(),
        )
        request = await self.fire(
            AfterCompaction(message_count=-1, compacted_count=-1, token_count=outcome.tokens_after)
        )
        if request is not None and request.flush:
            await self.flush.run_on_request(budget)

    async def _measure(self, budget: Budget) -> int:
        messages = [item.message for item in self.log.items()]
        return await asyncio.to_thread(self.view.measure, messages, budget)

    def compactor(self, budget: Budget) -> Compactor:
        """The runtime's compactor for the model at hand."""
        reader = MessageReader(self.parts.counter)
        sources = summary_sources(self.parts, self.log.entry, self.model(), budget.window, reader)
        return Compactor(
            self.log,
            view=self.view,
            counter=self.parts.counter,
            settings=self.parts.settings.compaction,
            summariser=sources.chosen,
            fallback=sources.by_rules,
            fire=self.fire,
            request_flush=lambda: self.flush.run_on_request(budget),
            reader=reader,
        )

    async def has_work(self, budget: Budget) -> bool:
        """Whether a compaction by hand would find anything to do; of an engine that owns it nobody knows."""
        owns = self.engine.engine.info.owns_compaction
        return owns or await self.compactor(budget).has_work(budget, "manual")

    def runtime(self, budget: Budget) -> CompactionRuntime:
        """What engines find in their calls that are not compactions."""
        return _Runtime(self, budget, must_fit=False)


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
        is_enabled = self._upkeep.parts.settings.compaction.enabled
        if self._trigger == "engine" and not is_enabled:
            return CompactResult(ok=True, compacted=False, reason=AUTOMATIC_IS_OFF)
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
