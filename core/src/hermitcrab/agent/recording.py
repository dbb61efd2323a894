"""A recorded conversation, cut into turns and steps, and the model and tools that it stands in for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import field, frozen

from hermitcrab.agent.toolbox import Toolbox
from hermitcrab.errors import ModelUnavailableError
from hermitcrab.messages.text import result_call_id, tool_calls_of
from hermitcrab.messages.types import Message, ToolCall
from hermitcrab.models.contract import ChatModel, ChatReply, ChatRequest
from hermitcrab.models.offline.model import OfflineModel
from hermitcrab.sessions.context import message_of
from hermitcrab.sessions.format import Entry, parse_time


@frozen
class RecordedMessage:
    """A message and when it was recorded."""

    message: Message
    moment: datetime | None


@frozen(kw_only=True)
class RecordedStep:
    """An answer of the model, the results of its calls, and what else was recorded before the next answer."""

    answer: RecordedMessage
    results: Sequence[RecordedMessage] = ()
    others: Sequence[RecordedMessage] = ()


@frozen(kw_only=True)
class RecordedTurn:
    """A user message and what followed it; ``user`` is ``None`` for what stands before the first one."""

    user: RecordedMessage | None
    before: Sequence[RecordedMessage] = ()
    steps: Sequence[RecordedStep] = ()


@frozen
class _Step:
    answer: RecordedMessage
    results: list[RecordedMessage] = field(factory=list)
    others: list[RecordedMessage] = field(factory=list)


@frozen
class _Turn:
    user: RecordedMessage | None
    before: list[RecordedMessage] = field(factory=list)
    steps: list[_Step] = field(factory=list)


def recorded_turns(entries: Sequence[Entry]) -> list[RecordedTurn]:
    """Cut the messages of a branch into turns; every message is in exactly one place."""
    turns = [_Turn(None)]
    for recorded in map(_recorded, entries):
        if recorded is None:
            continue
        role = recorded.message.get("role")
        turn = turns[-1]
        if role == "user":
            turns.append(_Turn(recorded))
        elif role == "assistant":
            turn.steps.append(_Step(recorded))
        elif not turn.steps:
            turn.before.append(recorded)
        elif role == "toolResult" and _answers(turn.steps[-1], recorded.message):
            turn.steps[-1].results.append(recorded)
        else:
            turn.steps[-1].others.append(recorded)
    frozen_turns = [_frozen(turn) for turn in turns]
    return [turn for turn in frozen_turns if turn.user or turn.before or turn.steps]


def _frozen(turn: _Turn) -> RecordedTurn:
    return RecordedTurn(
        user=turn.user,
        before=tuple(turn.before),
        steps=tuple(
            RecordedStep(answer=step.answer, results=tuple(step.results), others=tuple(step.others))
            for step in turn.steps
        ),
    )


def _recorded(entry: Entry) -> RecordedMessage | None:
    if entry["type"] != "message":
        return None
    message = message_of(entry)
    if message is None:
        return None
    stamp = message.get("timestamp", entry.get("timestamp"))
    return RecordedMessage(message, parse_time(stamp) or parse_time(entry.get("timestamp")))


def _answers(step: _Step, result: Message) -> bool:
    """Whether a result belongs to a call of this step that has none yet."""
    call_id = result_call_id(result)
    calls = [call["id"] for call in tool_calls_of(step.answer.message)]
    answered = [result_call_id(known.message) for known in step.results]
    return calls.count(call_id) > answered.count(call_id)


def first_moment(entries: Sequence[Entry]) -> datetime:
    """When a recording begins."""
    moments = [moment for entry in entries if (moment := parse_time(entry.get("timestamp")))]
    return moments[0] if moments else datetime.now(UTC)


class RecordedModel(ChatModel):
    """Answers turns with recorded messages, and everything else with a real model."""

    def __init__(self) -> None:
        self.inner: ChatModel = OfflineModel()
        self.next_answer: Message | None = None

    @property
    def id(self) -> str:  # type: ignore[override]
        """The name of the model that flushes and summarises."""
        return self.inner.id

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The recorded answer, or the real model's for a flush or a summary."""
        if request.purpose != "turn":
            return await self.inner.complete(request)
        if self.next_answer is None:
            raise ModelUnavailableError("the recording has no answer here", where=self.id)
        answer, self.next_answer = self.next_answer, None
        return ChatReply(message=answer)

    async def context_window(self) -> int | None:
        return await self.inner.context_window()

    async def close(self) -> None:
        await self.inner.close()


class RecordedToolbox(Toolbox):
    """Offers the real tools and answers their calls with recorded results."""

    results: Sequence[RecordedMessage] = ()

    async def result_of(self, call: ToolCall, arguments: Mapping[str, Any]) -> Message | None:
        """The recorded result of a call; ``None`` where none was recorded."""
        for position, recorded in enumerate(self.results):
            if result_call_id(recorded.message) == call["id"]:
                self.results = [*self.results[:position], *self.results[position + 1 :]]
                return recorded.message
        return None
