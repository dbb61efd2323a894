"""One turn: the user's message, the model and the tools in turn, and the reply (design 6)."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from attrs import field, frozen

from hermitcrab.agent.assembled import AssembledContext
from hermitcrab.agent.call_report import CallReport
from hermitcrab.agent.events import Compacted, Emit, Flushed, Reply
from hermitcrab.agent.loop_guard import LoopGuard, StopReason, stop_note
from hermitcrab.agent.notices import Notices
from hermitcrab.agent.preparation import PreparedTurn
from hermitcrab.agent.recovery import Recovery
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.shown_work import ShownWork
from hermitcrab.agent.toolbox import Toolbox, run_call
from hermitcrab.compaction.budget import Budget
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.context.contract import DEFAULT_ENGINE_ID
from hermitcrab.errors import ModelUnavailableError
from hermitcrab.hooks import (
    AgentEnd,
    BeforeAgentFinalize,
    LlmInput,
    LlmOutput,
)
from hermitcrab.memory.flush import FlushOutcome
from hermitcrab.memory.silent import SilentGate, is_silent, strip_silent
from hermitcrab.messages.build import assistant, user
from hermitcrab.messages.pairing import is_broken
from hermitcrab.messages.text import text_of, tool_calls_of
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import (
    ChatReply,
    ChatRequest,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
)
from hermitcrab.sessions.effective_levels import SessionLevels
from hermitcrab.sessions.states import status_after

logger = logging.getLogger("hermitcrab.agent")

#: How often plugins may send the model back to revise its answer.
REVISIONS = 3


@frozen(kw_only=True)
class TurnObserver:
    """Told of what a turn does besides its events; used to measure."""

    on_request: Callable[[AssembledContext], None] = field(default=lambda context: None)


class Turn:
    """Runs one turn of a session. One instance, one turn."""

    def __init__(
        self,
        session: SessionContext,
        prepared: PreparedTurn,
        toolbox: Toolbox,
        *,
        max_rounds: int,
        levels: SessionLevels | None = None,
        emit: Emit = lambda event: None,
        observer: TurnObserver | None = None,
    ) -> None:
        self.session = session
        self.prepared = prepared
        self.toolbox = toolbox
        self.run_id = session.hook_context.run_id or uuid.uuid4().hex
        self._max_rounds = max_rounds
        self._levels = levels
        self._work = ShownWork(levels, emit)
        self._emit = self._work.event
        self._asked = False
        self._check_between_rounds = session.parts.settings.compaction.mid_turn_precheck.enabled
        self._observer = observer or TurnObserver()
        self._usage = TokenUsage()
        self._compactions: list[CompactionOutcome] = []
        self._flushes: list[FlushOutcome] = []
        self._texts: list[str] = []
        self._said: list[str] = []
        self._revisions = 0
        self._guard = LoopGuard()
        self._stopped: StopReason | None = None
        self._recovery = Recovery(session, self._budget, self._tell)
        self._notices = Notices(session.parts.settings.compaction.notify_user, self._emit)
        session.on_compaction = self._notices.begun

    async def run(self, message: Message | None) -> Reply:
        """Append the user's message, if there is one, and answer.

        :raises ModelError: if the model fails; the turn so far stays in the transcript.
        """
        started = time.monotonic()
        failure: BaseException | None = None
        self.session.begin_turn()
        try:
            # A message that a plugin keeps out of the transcript cannot be answered.
            if message is None or await self.session.append(message) is not None:
                await self._rounds()
        except (Exception, asyncio.CancelledError) as error:
            failure = error
            raise
        finally:
            await self._finish(failure, round((time.monotonic() - started) * 1000))
        return self._reply()

    async def _rounds(self) -> None:
        for _ in range(self._max_rounds):
            answer = await self._answer()
            if answer is None:
                return
            await self._run_tools(answer)
            if not await self._goes_on(answer):
                return
        await self._stop("tool_rounds")

    async def _stop(self, reason: StopReason) -> None:
        """End the turn with a note to the user."""
        self._stopped = reason
        note = stop_note(reason, self._max_rounds)
        await self._append_answer(assistant(note, model=self.session.model.id))
        self._emit(TextDelta(note))

    async def _answer(self) -> Message | None:
        """One answer of the model, appended; where the call fails for its size, the context is made smaller.

        ``None`` ends the turn without an answer.
        """
        known = len(self._compactions)
        while True:
            context = await self.session.assemble(
                system=self.prepared.system,
                tools=self.toolbox.schemas,
                prompt=self.prepared.prompt,
                check=not self._asked or self._check_between_rounds,
                trigger="in_loop" if self._asked else "preflight",
            )
            self._tell(context.flushes, context.compactions)
            compacted = any(outcome.compacted for outcome in self._compactions[known:])
            known = len(self._compactions)
            self._guard.model_asked(compacted=compacted)
            self._observer.on_request(context)
            if not self._asked:
                self._asked = True
                self._fire_input(context)
            try:
                return await self._call(context)
            except asyncio.CancelledError:
                await self._append_broken("aborted", "cancelled")
                raise
            except Exception as error:
                if await self._recovery.helps(error, context):
                    continue
                await self._append_broken("error", str(error))
                raise

    def _budget(self) -> Budget:
        return self.session.budget(self.prepared.system, self.toolbox.schemas)

    def _tell(
        self, flushes: Sequence[FlushOutcome], compactions: Sequence[CompactionOutcome]
    ) -> None:
        for flush in flushes:
            self._flushes.append(flush)
            self._emit(Flushed(flush))
        for compaction in compactions:
            self._compactions.append(compaction)
            self._emit(Compacted(compaction))
            self._notices.ended(compaction)

    async def _call(self, context: AssembledContext) -> Message | None:
        request = ChatRequest(
            messages=context.messages,
            system=context.system,
            tools=self.toolbox.schemas,
            thinking=self._levels.told_thinking if self._levels else None,
            fast=self._levels.is_fast if self._levels else False,
            stream_thinking=self._work.streams_thinking,
        )
        report = CallReport(self.session, self.run_id, context.window)
        self._said = []
        try:
            reply = await self._stream(request)
        except (Exception, asyncio.CancelledError) as error:
            report.ended(error)
            raise
        report.ended()
        self._usage += reply.usage
        self._work.answered(reply.message)
        kept = await self._append_answer(reply.message)
        return reply.message if kept else None

    async def _stream(self, request: ChatRequest) -> ChatReply:
        reply: ChatReply | None = None
        gate = SilentGate()
        events = self.session.model.stream(request)
        try:
            async for event in events:
                if isinstance(event, TextDelta):
                    self._said.append(event.text)
                    self._say(gate.let_through(event.text))
                elif isinstance(event, ThinkingDelta):
                    self._work.thinking(event)
                else:
                    reply = event
        finally:
            # An abandoned generator would keep its connection until it is collected.
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
        if reply is None:
            raise ModelUnavailableError(
                "the model's stream ended without a reply", where=self.session.model.id
            )
        self._say(gate.rest())
        return reply

    def _say(self, text: str) -> None:
        if text:
            self._emit(TextDelta(text))

    async def _append_answer(self, message: Message) -> bool:
        """Append an answer; tells whether plugins let it into the transcript."""
        kept = await self.session.append(message)
        text = text_of(message)
        if text.strip():
            self._texts.append(text)
        return kept is not None

    async def _append_broken(self, stop_reason: str, reason: str) -> None:
        """Append what there is of an answer that did not come to its end."""
        message = assistant(
            "".join(self._said), stop_reason=stop_reason, model=self.session.model.id
        )
        message["errorMessage"] = reason
        await self.session.append(message)

    async def _run_tools(self, answer: Message) -> None:
        if is_broken(answer):
            return
        for call in tool_calls_of(answer):
            result = await run_call(
                self.session, self.toolbox, call, run_id=self.run_id, emit=self._emit
            )
            if result is not None:
                self._guard.tool_called(call["name"], call["arguments"], text_of(result))

    async def _goes_on(self, answer: Message) -> bool:
        """Whether the model is asked again: after tool calls, or because a plugin wants a revision."""
        if is_broken(answer):
            return False
        if tool_calls_of(answer):
            if self._guard.stop is None:
                return True
            await self._stop(self._guard.stop)
            return False
        decision = await self.session.fire(
            BeforeAgentFinalize(
                run_id=self.run_id,
                session_id=self.session.log.session_id,
                session_key=self.session.log.key,
                provider=self.session.model.id.partition("/")[0],
                model=self.session.model.id.partition("/")[2],
                transcript_path=str(self.session.log.file),
                stop_hook_active=self._revisions > 0,
                last_assistant_message=text_of(answer),
                messages=self.session.new_messages,
            )
        )
        if decision is None or decision.action != "revise" or not decision.retry_instruction:
            return False
        most = min(decision.max_attempts or REVISIONS, REVISIONS)
        if self._revisions >= most:
            return False
        self._revisions += 1
        instruction = user(decision.retry_instruction)
        instruction["provenance"] = {"kind": "internal_system"}
        await self.session.append(instruction)
        return True

    def _fire_input(self, context: AssembledContext) -> None:
        provider, _, model = self.session.model.id.partition("/")
        self.session.fire_background(
            LlmInput(
                run_id=self.run_id,
                session_id=self.session.log.session_id,
                provider=provider,
                model=model,
                prompt=self.prepared.prompt,
                system_prompt=context.system,
                history_messages=context.messages,
                tools=self.toolbox.schemas,
            )
        )

    async def _finish(self, failure: BaseException | None, duration_ms: int) -> None:
        messages = self.session.new_messages
        provider, _, model = self.session.model.id.partition("/")
        error = "cancelled" if isinstance(failure, asyncio.CancelledError) else str(failure)
        await self.session.end_turn(status_after(failure))
        self.session.fire_background(
            AgentEnd(
                messages=messages,
                success=failure is None,
                error=None if failure is None else error,
                duration_ms=duration_ms,
                run_id=self.run_id,
                compactions=[outcome.record() for outcome in self._compactions],
            )
        )
        answers = [message for message in messages if message.get("role") == "assistant"]
        self.session.fire_background(
            LlmOutput(
                run_id=self.run_id,
                session_id=self.session.log.session_id,
                provider=provider,
                model=model,
                assistant_texts=[text for text in map(text_of, answers) if text],
                last_assistant=answers[-1] if answers else None,
                usage=self._usage,
            )
        )

    def _reply(self) -> Reply:
        text = self._texts[-1] if self._texts else ""
        degraded = self.session.engine.degradation()
        return Reply(
            text=strip_silent(text),
            session_key=self.session.log.key,
            session_id=self.session.log.session_id,
            engine=self.session.engine.engine_id if degraded is None else DEFAULT_ENGINE_ID,
            usage=self._usage,
            degraded=_sentences(degraded, self.prepared.degraded),
            messages=self.session.new_messages,
            compactions=tuple(self._compactions),
            flushes=tuple(self._flushes),
            silent=is_silent(text) or not self._asked,
            notes=self._notices.told,
            stopped=self._stopped,
            reasoning=self._work.reasoning,
            tool_lines=self._work.tool_lines,
        )


def _sentences(degraded: Any, others: Sequence[str]) -> tuple[str, ...]:
    own = () if degraded is None else (f"{degraded.reason}. {degraded.hint}",)
    return (*own, *others)
