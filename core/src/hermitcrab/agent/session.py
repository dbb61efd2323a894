"""One session under an agent: its messages, what the model sees of them, flushes and compactions (design 6)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from attrs import field, frozen

from hermitcrab.compaction.budget import Budget, make_budget
from hermitcrab.compaction.outcome import CompactionOutcome, CompactionTrigger
from hermitcrab.compaction.runtime import Compactor
from hermitcrab.compaction.summarise import Summariser
from hermitcrab.compaction.view import View, ViewBuilder
from hermitcrab.config import AgentSettings
from hermitcrab.context import AssembleResult, CompactionDetails, CompactResult
from hermitcrab.context.contract import has_method
from hermitcrab.context.delegation import using_compaction_runtime
from hermitcrab.context.resolve import ResolvedEngine
from hermitcrab.errors import CompactionError, HermitcrabError
from hermitcrab.hooks import BeforeMessageWrite, HookContext, HookEvent
from hermitcrab.hooks.dispatcher import HookDispatcher
from hermitcrab.memory.flush import FLUSH_TOOLS, FlushOutcome, run_flush
from hermitcrab.memory.prompts import flush_prompt, flush_system_prompt
from hermitcrab.messages.pairing import group_messages
from hermitcrab.messages.text import text_of
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel, ToolSchema
from hermitcrab.models.offline.model import OfflineModel
from hermitcrab.sessions.log import SessionLog

logger = logging.getLogger("hermitcrab.agent")

#: How often the context may be compacted before one model call.
COMPACTIONS_PER_CALL = 3
#: After this many failures the flush of a cycle counts as done (context 6.10).
FLUSH_FAILURES = 3
#: The flush leaves this much of the window for its answer, in tokens.
_FLUSH_ANSWER_TOKENS = 1_500


@frozen(kw_only=True)
class AssembledContext:
    """What the model gets: messages, the system prompt with the engine's addition, and sizes in tokens.

    ``request_tokens`` is everything: system prompt, tool schemas and messages. ``window`` is the context window.
    """

    messages: Sequence[Message]
    system: str
    system_prompt_addition: str | None
    tokens: int
    request_tokens: int
    window: int
    flushes: Sequence[FlushOutcome] = ()
    compactions: Sequence[CompactionOutcome] = ()


@frozen(kw_only=True)
class SessionParts:
    """What a session works with; the host makes them."""

    settings: AgentSettings
    workspace: Path
    flush_lock: Path
    zone: tzinfo
    counter: TokenCounter
    hooks: HookDispatcher
    history_limit: int | None
    citations: str
    flush_model: ChatModel | None = None
    summary_model: ChatModel | None = None
    memory: Any = None
    on_degraded: Callable[[str, str, str | None], None] = field(
        default=lambda key, engine, reason: None
    )


class SessionContext:
    """A session as a turn sees it: it appends, measures, assembles, flushes and compacts.

    ``model`` and ``window`` are those of the turn at hand; :meth:`use_model` sets them.
    """

    def __init__(
        self,
        log: SessionLog,
        engine: ResolvedEngine,
        parts: SessionParts,
        hook_context: HookContext,
    ) -> None:
        self.log = log
        self.engine = engine
        self.parts = parts
        self.hook_context = hook_context
        self.model: ChatModel = OfflineModel()
        self.window = 0
        self._view = ViewBuilder(parts.counter)
        self._pre_turn_count = 0
        self._new_messages: list[Message] = []

    def use_model(self, model: ChatModel, window: int) -> None:
        """Answer with this model, whose context window is ``window`` tokens."""
        self.model, self.window = model, window

    async def fire(self, event: HookEvent[Any]) -> Any:
        """Fire a hook with this session's context."""
        return await self.parts.hooks.fire(event, self.hook_context)

    def fire_background(self, event: HookEvent[None]) -> None:
        """Fire a hook that nobody waits for."""
        self.parts.hooks.fire_background(event, self.hook_context)

    # -- messages -----------------------------------------------------------------------------

    def begin_turn(self) -> None:
        """Remember where the turn begins, for the engine's ``after_turn``."""
        self._pre_turn_count = len(self.log.items())
        self._new_messages = []

    async def append(self, message: Message) -> Message | None:
        """Append a message, as the hook ``before_message_write`` leaves it; ``None`` if the hook blocks it."""
        decision = self.parts.hooks.fire_sync(
            BeforeMessageWrite(
                message=message, session_key=self.log.key, agent_id=self.hook_context.agent_id
            ),
            self.hook_context,
        )
        if decision is not None and decision.block:
            logger.warning(
                "plugin %s blocked a %s message",
                decision.decided_by,
                message.get("role"),
                extra={"session_key": self.log.key, "plugin_id": decision.decided_by},
            )
            return None
        if decision is not None and decision.message is not None:
            message = decision.message
        await self.log.append_messages([message])
        self._new_messages.append(message)
        return message

    @property
    def new_messages(self) -> list[Message]:
        """The messages of the turn at hand."""
        return list(self._new_messages)

    # -- assembling ---------------------------------------------------------------------------

    def budget(self, system: str, tools: Sequence[ToolSchema]) -> Budget:
        """How the window is divided for this system prompt and these tools."""
        fixed = self.parts.counter.text(system) + self.parts.counter.tools(tools)
        return make_budget(self.window, fixed, self.parts.settings.compaction)

    async def assemble(
        self, *, system: str, tools: Sequence[ToolSchema] = (), prompt: str = ""
    ) -> AssembledContext:
        """What the model gets for its next call; flushes and compacts first where that is due.

        :raises CompactionError: if the context cannot be brought to fit the window.
        """
        flushes: list[FlushOutcome] = []
        compactions: list[CompactionOutcome] = []
        budget = self.budget(system, tools)
        for attempt in range(COMPACTIONS_PER_CALL + 1):
            result, view = await self._assemble_once(budget, tools, prompt)
            addition = result.system_prompt_addition
            added = self.parts.counter.text(f"{addition}\n\n") if addition else 0
            if self._flush_is_due(view, budget):
                flushes += await self.flush(budget)
            if view.tokens + added <= budget.usable or attempt == COMPACTIONS_PER_CALL:
                break
            flushes += await self.flush(budget)
            outcome = await self.compact(budget, trigger="preflight", must_fit=True)
            compactions.append(outcome)
            if not outcome.compacted:
                break
        if view.tokens + added > budget.usable:
            view = self._view.build_within(result.messages, budget)
        if view.tokens + added > budget.window - budget.fixed:
            raise CompactionError(
                f"the context takes {view.tokens + added} tokens and at most {budget.usable} fit"
                + (f"; {compactions[-1].reason}" if compactions and compactions[-1].reason else ""),
                where=self.log.key,
                hint="Start afresh with /new, or use a model with a larger context window.",
            )
        return AssembledContext(
            messages=view.messages,
            system=f"{addition}\n\n{system}" if addition else system,
            system_prompt_addition=addition,
            tokens=view.tokens,
            request_tokens=view.tokens + added + budget.fixed,
            window=budget.window,
            flushes=flushes,
            compactions=compactions,
        )

    async def _assemble_once(
        self, budget: Budget, tools: Sequence[ToolSchema], prompt: str
    ) -> tuple[AssembleResult, View]:
        await self.log.refresh()
        history = self._limited([item.message for item in self.log.items()])
        with using_compaction_runtime(_Runtime(self, budget, must_fit=False)):
            result = await self.engine.engine.assemble(
                session_id=self.log.session_id,
                session_key=self.log.key,
                messages=list(history),
                token_budget=budget.usable,
                available_tools=frozenset(schema.name for schema in tools),
                citations_mode=self.parts.citations,
                model=self.model.id,
                prompt=prompt,
            )
        return result, self._view.build(result.messages, budget)

    def _limited(self, messages: list[Message]) -> list[Message]:
        """The summary and the last ``session.historyLimit`` user turns; cut only where a user message stands (C44)."""
        limit = self.parts.history_limit
        if limit is None:
            return messages
        head = 1 if self.log.items() and self.log.items()[0].is_summary else 0
        starts = [i for i in range(head, len(messages)) if messages[i].get("role") == "user"]
        if len(starts) <= limit:
            return messages
        return messages[:head] + messages[starts[-limit] :]

    # -- flush --------------------------------------------------------------------------------

    def _flush_is_due(self, view: View, budget: Budget) -> bool:
        settings = self.parts.settings.compaction.memory_flush
        limit = settings.force_flush_transcript_bytes
        too_large = 0 < limit <= self.log.visible_bytes
        return view.tokens >= budget.flush_at or too_large

    async def flush(self, budget: Budget) -> list[FlushOutcome]:
        """Run the memory flush, unless it is off or this cycle's has run already (context 6.10)."""
        entry = self.log.entry
        settings = self.parts.settings.compaction.memory_flush
        if not settings.enabled or entry.flushed or not self._workspace_is_writable():
            return []
        cycle = entry.compaction_count
        items = self.log.items()
        outcome = await run_flush(
            self.parts.flush_model or self.model,
            messages=self._flush_view([item.message for item in items], budget),
            workspace=self.parts.workspace,
            now=self.log.now(),
            zone=self.parts.zone,
            lock_path=self.parts.flush_lock,
            prompt=settings.prompt,
            system_prompt=settings.system_prompt,
            max_tokens=_FLUSH_ANSWER_TOKENS,
        )
        await self._record_flush(outcome, cycle, items[-1].entry_id if items else None)
        return [outcome]

    def _workspace_is_writable(self) -> bool:
        return os.access(self.parts.workspace, os.W_OK)

    def _flush_view(self, messages: Sequence[Message], budget: Budget) -> Sequence[Message]:
        """The conversation as the flush sees it: cut, and without its oldest groups if it still does not fit."""
        settings = self.parts.settings.compaction.memory_flush
        now: datetime = self.log.now()
        count = self.parts.counter
        instructions = (
            count.text(flush_system_prompt(settings.system_prompt, target="memory/YYYY-MM-DD.md"))
            + count.text(flush_prompt(settings.prompt, target="memory/YYYY-MM-DD.md", now=now))
            + count.tools(FLUSH_TOOLS)
        )
        room = budget.window - instructions - min(_FLUSH_ANSWER_TOKENS, budget.reserve)
        view = self._view.build(messages, budget)
        groups = group_messages(view.messages)
        total = view.tokens
        first = 0
        while total > room and first < len(groups) - 1:
            total -= count.messages(view.messages[index] for index in groups[first])
            first += 1
        return view.messages[groups[first][0] :] if first else view.messages

    async def _record_flush(self, outcome: FlushOutcome, cycle: int, last: str | None) -> None:
        now = int(self.log.now().timestamp() * 1000)
        if outcome.error is None:
            await self.log.update_entry(
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
        await self.log.update_entry(**changes)

    # -- compaction ---------------------------------------------------------------------------

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
        tokens = self.measure(budget)
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
                extra={"session_key": self.log.key},
            )
        if runtime.outcome is not None:
            return runtime.outcome
        await self.log.refresh()
        over = self.measure(budget) > budget.usable
        if not engine.info.owns_compaction and (over or failure is not None):
            return await self.compactor(budget).compact(
                budget, trigger=trigger, must_fit=must_fit, focus=focus
            )
        return _outcome_of(result, trigger, tokens, failure)

    def measure(self, budget: Budget) -> int:
        """Tokens of the context as it stands."""
        return self._view.measure([item.message for item in self.log.items()], budget)

    def compactor(self, budget: Budget) -> Compactor:
        """The runtime's compactor for the model at hand."""
        settings = self.parts.settings.compaction
        timeout_s = float(settings.timeout_seconds)
        return Compactor(
            self.log,
            view=self._view,
            counter=self.parts.counter,
            settings=settings,
            summariser=Summariser(
                self.parts.summary_model or self.model,
                self.parts.counter,
                window=budget.window,
                timeout_s=timeout_s,
            ),
            fallback=Summariser(
                OfflineModel(), self.parts.counter, window=budget.window, timeout_s=timeout_s
            ),
            fire=self.fire,
        )

    # -- the end of a turn --------------------------------------------------------------------

    async def end_turn(self) -> None:
        """Let the engine take in the turn, and make it durable."""
        messages = [item.message for item in self.log.items()]
        engine = self.engine.engine
        session_id, session_key = self.log.session_id, self.log.key
        try:
            if has_method(engine, "after_turn"):
                await engine.after_turn(
                    session_id=session_id,
                    session_key=session_key,
                    session_file=str(self.log.file),
                    messages=messages,
                    pre_prompt_message_count=min(self._pre_turn_count, len(messages)),
                )
            elif has_method(engine, "ingest_batch"):
                await engine.ingest_batch(
                    session_id=session_id, session_key=session_key, messages=self.new_messages
                )
            else:
                for message in self._new_messages:
                    await engine.ingest(
                        session_id=session_id, session_key=session_key, message=message
                    )
        except Exception as error:
            logger.warning(
                "engine %s failed after the turn: %s",
                self.engine.engine_id,
                error,
                exc_info=True,
                extra={"session_key": self.log.key},
            )
        degraded = self.engine.degradation()
        self.parts.on_degraded(
            self.log.key, self.engine.engine_id, None if degraded is None else degraded.reason
        )
        await self.log.end_turn()

    async def close(self) -> None:
        """Release the engine."""
        await self.engine.dispose()


class _Runtime:
    """The compaction runtime that an engine finds while the host calls it (context 3)."""

    def __init__(
        self,
        context: SessionContext,
        budget: Budget,
        *,
        must_fit: bool,
        trigger: CompactionTrigger = "engine",
    ) -> None:
        self._context = context
        self._budget = budget
        self._must_fit = must_fit
        self._trigger: CompactionTrigger = trigger
        self.outcome: CompactionOutcome | None = None

    async def compact(self, *, custom_instructions: str | None, **params: Any) -> CompactResult:
        """Compact the session that is being handled."""
        outcome = await self._context.compactor(self._budget).compact(
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


def prompt_of(messages: Sequence[Message]) -> str:
    """The text of the last user message, which engines get as the prompt."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return text_of(message)
    return ""
