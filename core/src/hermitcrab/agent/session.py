"""One session under an agent: its messages, what the model sees of them, flushes and compactions (design 6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve

from hermitcrab.agent.activity import Activity
from hermitcrab.agent.assembled import AssembledContext, too_large
from hermitcrab.agent.engine_calls import EngineCalls
from hermitcrab.agent.flushing import SessionFlush
from hermitcrab.agent.history import limited_history
from hermitcrab.agent.parts import SessionParts
from hermitcrab.agent.pruning import MARKER, SessionPruner
from hermitcrab.agent.refresh import read_refresh
from hermitcrab.agent.upkeep import CompactionWish, Upkeep
from hermitcrab.compaction.budget import Budget, make_budget
from hermitcrab.compaction.gate import Due, Pressure, compaction_due, latch_of
from hermitcrab.compaction.outcome import CompactionOutcome, CompactionTrigger
from hermitcrab.compaction.view import View, ViewBuilder
from hermitcrab.context import AssembleResult
from hermitcrab.context.delegation import using_compaction_runtime
from hermitcrab.context.resolve import ResolvedEngine
from hermitcrab.hooks import BeforeMessageWrite, HookContext, HookEvent
from hermitcrab.memory.flush import FlushOutcome
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel, ToolSchema
from hermitcrab.models.offline.model import OfflineModel
from hermitcrab.sessions.blobs.restoring import MediaRestorer
from hermitcrab.sessions.context import last_compaction
from hermitcrab.sessions.entry import milliseconds
from hermitcrab.sessions.format import Entry
from hermitcrab.sessions.log import SessionLog
from hermitcrab.sessions.states import RunStatus

logger = logging.getLogger("hermitcrab.agent")

#: How often the context may be compacted before one model call.
COMPACTIONS_PER_CALL = 3


class SessionContext:
    """A session as a turn sees it: it appends, measures, assembles, flushes and compacts.

    ``model`` and ``window`` are those of the turn at hand; :meth:`use_model` sets them. ``on_compaction`` is told when
    a compaction begins.
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
        self.media = MediaRestorer(log)
        self.pruner = SessionPruner(parts.settings.context_pruning, parts.counter.messages)
        self._view = ViewBuilder(parts.counter)
        self._flush = SessionFlush(
            log=log, parts=parts, view=self._view, media=self.media, model=lambda: self.model
        )
        self._upkeep = Upkeep(
            log=log,
            engine=engine,
            parts=parts,
            view=self._view,
            flush=self._flush,
            fire=self.fire,
            model=lambda: self.model,
        )
        self.engine_calls = EngineCalls(engine, log)
        self.activity = Activity(log.key)
        self.on_compaction: Callable[[CompactionTrigger], None] = lambda trigger: None
        #: How it took the place of another one under its key, such as `new`, if that happened here.
        self.begun_by: str | None = None
        self._pre_turn_count = 0
        self._compaction_at_start: str | None = None
        self._new_messages: list[Message] = []
        self._attempts = 0
        self._narrowed_to: int | None = None
        self._refresh: str | None = None
        self._offered: tuple[Sequence[ToolSchema], str] = ((), "")

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
        """Remember where the turn begins, and forget what held for the last one alone."""
        self._pre_turn_count = len(self.log.items())
        self._compaction_at_start = self._compaction_id()
        self._new_messages = []
        self._attempts = 0
        self._narrowed_to = None
        self._refresh = None
        self._flush.begin_turn()

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
        self,
        *,
        system: str,
        tools: Sequence[ToolSchema] = (),
        prompt: str = "",
        check: bool = True,
        trigger: CompactionTrigger = "preflight",
    ) -> AssembledContext:
        """What the model gets for its next call; flushes and compacts first where that is due.

        :param check: whether it may flush and compact (``midTurnPrecheck`` can forbid it between tool rounds).
        :raises CompactionError: if the context cannot be brought to fit the window.
        """
        flushes: list[FlushOutcome] = []
        compactions: list[CompactionOutcome] = []
        self._offered = (tools, prompt)
        for attempt in range(COMPACTIONS_PER_CALL + 1):
            budget = self.budget(self._with_refresh(system), tools)
            result, view = await self._assemble_once(budget)
            compaction_id = self._compaction_id()
            addition = result.system_prompt_addition
            added = self.parts.counter.text(f"{addition}\n\n") if addition else 0
            if not check:
                break
            if self._flush.is_due(view, budget):
                flushes += await self.flush(budget)
            if attempt == COMPACTIONS_PER_CALL:
                break
            due = await self._due(result, view, added, budget)
            if due is None:
                break
            flushes += await self.flush(budget)
            outcome = await self.compact(
                budget,
                trigger="bytes" if due.reason == "bytes" else trigger,
                must_fit=due.must_fit,
            )
            compactions.append(outcome)
            flushes += self.take_requested_flushes()
            # Another process may have been faster; what it left is to be assembled too.
            if not outcome.compacted and self._compaction_id() == compaction_id:
                break
        view = await self._within(result, view, added, budget)
        if view.tokens + added > budget.window - budget.fixed:
            raise too_large(
                view.tokens + added,
                budget,
                where=self.log.key,
                is_enabled=self.parts.settings.compaction.enabled,
                reason=compactions[-1].reason if compactions else None,
            )
        system = self._with_refresh(system)
        return AssembledContext(
            messages=await self.media.restored(view.messages),
            system=f"{addition}\n\n{system}" if addition else system,
            system_prompt_addition=addition,
            tokens=view.tokens,
            request_tokens=view.tokens + added + budget.fixed,
            window=budget.window,
            compaction_id=compaction_id,
            flushes=flushes,
            compactions=compactions,
        )

    async def _due(
        self, result: AssembleResult, view: View, added: int, budget: Budget
    ) -> Due | None:
        """The compaction that is due before the next model call, if any."""
        settings = self.parts.settings.compaction
        tokens, entry = view.tokens + added, self.log.entry
        limit = settings.max_active_transcript_bytes
        if tokens <= budget.compact_at and not 0 < limit <= self.log.visible_bytes:
            return None
        cut = await self._within(result, view, added, budget)
        stored_tokens = await self.measure(budget)
        pressure = Pressure(
            tokens=tokens,
            stored_tokens=stored_tokens,
            visible_bytes=self.log.visible_bytes,
            session_id=self.log.session_id,
            last=entry.last_compaction,
            byte_latch=entry.byte_latch,
            attempts=self._attempts,
            fits_when_cut=cut.tokens + added <= budget.usable,
        )
        return compaction_due(pressure, budget, settings)

    async def _within(self, result: AssembleResult, view: View, added: int, budget: Budget) -> View:
        """The view, cut further where it does not fit what is usable, or what a provider has let through."""
        most = min(budget.usable, self._narrowed_to or budget.usable)
        if view.tokens + added <= most:
            return view
        narrow = evolve(budget, usable=max(1, most - added))
        return await asyncio.to_thread(self._view.build_within, result.messages, narrow)

    def narrow(self, tokens: int) -> bool:
        """Cut what the model sees to at most so many tokens for the rest of the turn; once a turn."""
        if self._narrowed_to is not None:
            return False
        self._narrowed_to = max(1, tokens)
        return True

    def _with_refresh(self, system: str) -> str:
        return f"{system}\n\n{self._refresh}" if self._refresh else system

    async def _assemble_once(self, budget: Budget) -> tuple[AssembleResult, View]:
        await self.log.refresh()
        tools, prompt = self._offered
        history = await asyncio.to_thread(
            limited_history,
            self.log.items(),
            turns=self.parts.history_limit,
            overheard=self.parts.group_history_limit,
        )
        with using_compaction_runtime(self._upkeep.runtime(budget)):
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
        return await asyncio.to_thread(
            self._shown, result, self.log.path, milliseconds(self.log.now()), budget
        )

    def _shown(
        self, result: AssembleResult, path: Sequence[Entry], now_ms: int, budget: Budget
    ) -> tuple[AssembleResult, View]:
        """What the engine has assembled, pruned, and the view of it; called in a thread (P24)."""
        messages = self.pruner.prune(
            result.messages, path, window=budget.window, model_id=self.model.id, now_ms=now_ms
        )
        return evolve(result, messages=messages), self._view.build(messages, budget)

    async def compacted_since(self, context: AssembledContext) -> bool:
        """Whether a compaction, of this process or another, has narrowed the session since it was assembled."""
        await self.log.refresh()
        return self._compaction_id() != context.compaction_id

    def _compaction_id(self) -> str | None:
        compaction = last_compaction(self.log.path)
        return None if compaction is None else compaction["id"]

    async def flush(self, budget: Budget) -> list[FlushOutcome]:
        """Run the memory flush, unless it is off or this cycle's has run already."""
        return await self._flush.run(budget)

    def take_requested_flushes(self) -> list[FlushOutcome]:
        """The flushes that plugins had run before or after compactions since this was asked last."""
        return self._flush.take_requested()

    async def compact_by_hand(self, budget: Budget, focus: str | None) -> CompactionOutcome:
        """Compact because the user wants it; the flush of a cycle that has had none runs first, if there is work."""
        if await self._upkeep.has_work(budget):
            await self.flush(budget)
        outcome = await self.compact(budget, trigger="manual", must_fit=False, focus=focus)
        self.take_requested_flushes()
        return outcome

    async def compact(
        self,
        budget: Budget,
        *,
        trigger: CompactionTrigger,
        must_fit: bool,
        focus: str | None = None,
        observed_tokens: int | None = None,
    ) -> CompactionOutcome:
        """Have the engine compact, or the host where the engine leaves the context too large."""

        async def shown() -> int:
            return (await self._assemble_once(budget))[1].tokens

        wish = CompactionWish(
            trigger=trigger,
            shown=shown,
            must_fit=must_fit,
            focus=focus,
            observed_tokens=observed_tokens,
        )
        self._attempts += 1
        self.on_compaction(trigger)
        with self.activity.compacting():
            outcome = await self._upkeep.compact(budget, wish)
        if trigger == "bytes":
            await self._latch_bytes()
        if outcome.compacted:
            await self.engine_calls.tidy_up("compaction")
            await self.parts.after_compaction()
            await self._read_refresh()
        return outcome

    async def _latch_bytes(self) -> None:
        """A transcript that stays large makes the byte trigger wait, so that it never fires for ever (P5)."""
        limit = self.parts.settings.compaction.max_active_transcript_bytes
        latch = latch_of(self.log.session_id, self.log.visible_bytes, limit)
        if latch is not None or self.log.entry.byte_latch is not None:
            await self.log.update_entry(record=False, policy="preserve-activity", byte_latch=latch)

    async def _read_refresh(self) -> None:
        """Read again what the operator wants the model to be reminded of, once a turn."""
        names = self.parts.settings.compaction.post_compaction_sections
        if names and self._refresh is None:
            now = self.log.now().astimezone(self.parts.zone)
            self._refresh = await asyncio.to_thread(read_refresh, self.parts.workspace, names, now)

    async def measure(self, budget: Budget) -> int:
        """Tokens of the context as it stands."""
        messages = [item.message for item in self.log.items()]
        return await asyncio.to_thread(self._view.measure, messages, budget)

    # -- the end of a turn --------------------------------------------------------------------

    async def end_turn(self, status: RunStatus | None = "done") -> None:
        """Let the engine take in the turn and tidy up, and make the turn durable.

        :param status: how it ended, for the session entry; ``None`` if there was no run of the agent.
        """
        await self._mark_pruning()
        taken_in = await self.engine_calls.take_in(self._new_messages, self._pre_turn_count)
        if status in {"done", None} and taken_in:
            await self.engine_calls.tidy_up("turn")
        degraded = self.engine.degradation()
        reason = None if degraded is None else degraded.reason
        await asyncio.to_thread(self.parts.on_degraded, self.log.key, self.engine.engine_id, reason)
        aborted = True if status == "killed" else None
        await self.log.end_turn(
            **({} if status is None else {"status": status, "aborted_last_run": aborted})
        )

    async def _mark_pruning(self) -> None:
        """Note in the transcript when the provider's cache was touched last, and what was pruned."""
        compacted = self._compaction_id() != self._compaction_at_start
        marker = self.pruner.take_marker(self.model.id, compacted=compacted)
        if marker is not None:
            await self.log.append(
                [self.log.new_entry("custom", customType=MARKER, data=marker)], purpose="pruning"
            )

    async def close(self) -> None:
        """Release the engine."""
        await self.engine_calls.close()
