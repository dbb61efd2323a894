"""One session under an agent: its messages, what the model sees of them, flushes and compactions (design 6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from attrs import evolve, frozen

from hermitcrab.agent.activity import Activity
from hermitcrab.agent.engine_calls import EngineCalls
from hermitcrab.agent.history import limited_history
from hermitcrab.agent.parts import SessionParts
from hermitcrab.agent.pruning import MARKER, SessionPruner
from hermitcrab.agent.upkeep import Upkeep
from hermitcrab.compaction.budget import Budget, make_budget
from hermitcrab.compaction.outcome import CompactionOutcome, CompactionTrigger
from hermitcrab.compaction.view import View, ViewBuilder
from hermitcrab.context import AssembleResult
from hermitcrab.context.delegation import using_compaction_runtime
from hermitcrab.context.resolve import ResolvedEngine
from hermitcrab.errors import CompactionError
from hermitcrab.hooks import BeforeMessageWrite, HookContext, HookEvent
from hermitcrab.memory.flush import FlushOutcome
from hermitcrab.messages.text import text_of
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel, ToolSchema
from hermitcrab.models.offline.model import OfflineModel
from hermitcrab.sessions.context import last_compaction
from hermitcrab.sessions.entry import milliseconds
from hermitcrab.sessions.log import SessionLog
from hermitcrab.sessions.restoring import MediaRestorer
from hermitcrab.sessions.states import RunStatus

logger = logging.getLogger("hermitcrab.agent")

#: How often the context may be compacted before one model call.
COMPACTIONS_PER_CALL = 3


@frozen(kw_only=True)
class AssembledContext:
    """What the model gets: messages, the system prompt with the engine's addition, and sizes in tokens.

    ``request_tokens`` is everything: system prompt, tool schemas and messages. ``window`` is the context window.
    ``compaction_id`` is the entry of the compaction behind which the messages stand.
    """

    messages: Sequence[Message]
    system: str
    system_prompt_addition: str | None
    tokens: int
    request_tokens: int
    window: int
    compaction_id: str | None = None
    flushes: Sequence[FlushOutcome] = ()
    compactions: Sequence[CompactionOutcome] = ()


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
        self.media = MediaRestorer(log)
        self.pruner = SessionPruner(parts.settings.context_pruning, parts.counter.messages)
        self._view = ViewBuilder(parts.counter)
        self._upkeep = Upkeep(
            log=log,
            engine=engine,
            parts=parts,
            view=self._view,
            media=self.media,
            fire=self.fire,
            model=lambda: self.model,
        )
        self.engine_calls = EngineCalls(engine, log)
        self.activity = Activity(log.key)
        self._pre_turn_count = 0
        self._compaction_at_start: str | None = None
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
        self._compaction_at_start = self._compaction_id()
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
        budget = self.budget(system, tools)
        for attempt in range(COMPACTIONS_PER_CALL + 1):
            result, view = await self._assemble_once(budget, tools, prompt)
            compaction_id = self._compaction_id()
            addition = result.system_prompt_addition
            added = self.parts.counter.text(f"{addition}\n\n") if addition else 0
            if not check:
                break
            if self._upkeep.flush_is_due(view, budget):
                flushes += await self.flush(budget)
            if view.tokens + added <= budget.usable or attempt == COMPACTIONS_PER_CALL:
                break
            flushes += await self.flush(budget)
            outcome = await self.compact(budget, trigger=trigger, must_fit=True)
            compactions.append(outcome)
            flushes += self.take_requested_flushes()
            # Another process may have been faster; what it left is to be assembled too.
            if not outcome.compacted and self._compaction_id() == compaction_id:
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

    async def _assemble_once(
        self, budget: Budget, tools: Sequence[ToolSchema], prompt: str
    ) -> tuple[AssembleResult, View]:
        await self.log.refresh()
        history = limited_history(
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
        messages = self.pruner.prune(
            result.messages,
            self.log.path,
            window=budget.window,
            model_id=self.model.id,
            now_ms=milliseconds(self.log.now()),
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
        return await self._upkeep.flush(budget)

    def take_requested_flushes(self) -> list[FlushOutcome]:
        """The flushes that plugins had run before or after compactions since this was asked last."""
        return self._upkeep.take_requested()

    async def compact_by_hand(self, budget: Budget, focus: str | None) -> CompactionOutcome:
        """Compact because the user wants it; the flush of a cycle that has had none runs first, if there is work."""
        if self._upkeep.has_work(budget):
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
    ) -> CompactionOutcome:
        """Have the engine compact, or the host where the engine leaves the context too large."""
        with self.activity.compacting():
            outcome = await self._upkeep.compact(
                budget, trigger=trigger, must_fit=must_fit, focus=focus
            )
        if outcome.compacted:
            await self.engine_calls.tidy_up("compaction")
        return outcome

    def measure(self, budget: Budget) -> int:
        """Tokens of the context as it stands."""
        return self._view.measure([item.message for item in self.log.items()], budget)

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


def prompt_of(messages: Sequence[Message]) -> str:
    """The text of the last user message, which engines get as the prompt."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return text_of(message)
    return ""
