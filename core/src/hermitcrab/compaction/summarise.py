"""Having a model summarise a conversation: in chunks, in stages, with a ladder of fallbacks (context 4.6-4.8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from attrs import evolve, field, frozen

from hermitcrab.compaction import prompts
from hermitcrab.compaction.chunks import (
    DEFAULT_PARTS,
    MINIMUM_MESSAGES_TO_SPLIT,
    chunk_limit,
    split_by_share,
    split_by_size,
)
from hermitcrab.compaction.prompts import Advice
from hermitcrab.compaction.serialise import quoted, serialise, serialise_message
from hermitcrab.errors import (
    CompactionError,
    ModelAuthError,
    ModelError,
    ModelOverflowError,
    ModelRateLimitError,
    ModelUnavailableError,
)
from hermitcrab.messages.build import user
from hermitcrab.messages.caps import MINIMUM_TEXT, cut_text
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel, ChatRequest, Purpose

if TYPE_CHECKING:
    from tenacity import RetryCallState

logger = logging.getLogger("hermitcrab.compaction")

ATTEMPTS = 3
#: How often chunks are made smaller where a provider says that a request overflows (C32).
OVERFLOWS = 4
#: The smallest amount of conversation in one request, in tokens.
SMALLEST_CHUNK = 64
_RETRY_MINIMUM_S = 0.5
_RETRY_MAXIMUM_S = 5.0
_RETRY_JITTER = 0.2
#: The operator's word on identifiers, and the feedback, each take at most one part in this many of the window.
_ADVICE_SHARE = 16
#: What roles, tags and labels around the parts of a request take at most, in tokens.
_FRAMING_TOKENS = 64


@frozen(kw_only=True)
class SummaryTask:
    """What to summarise and how. Sizes are tokens."""

    messages: Sequence[Message]
    previous_summary: str | None = None
    advice: Advice = field(factory=Advice)
    is_turn_prefix: bool = False
    max_tokens: int = 4_000


@frozen(kw_only=True)
class SummaryText:
    """A summary; ``oversize`` messages were cut to fit, ``note`` says what could not be summarised.

    ``provider`` names the compaction provider that wrote it; ``remark`` says why the one that config names did not.
    """

    text: str
    oversize: int = 0
    note: str = ""
    provider: str | None = None
    remark: str = ""

    @property
    def partial(self) -> bool:
        return bool(self.note)


class SummarySource(Protocol):
    """Whatever turns messages into a summary."""

    async def summarise(self, task: SummaryTask) -> SummaryText: ...


def instructions_for(task: SummaryTask, *, update: bool) -> str:
    """What the notes should be like; with ``update`` there are earlier ones."""
    if task.is_turn_prefix:
        return prompts.prefix_prompt(task.advice)
    return prompts.summarise_prompt(task.advice, update=update)


class _PartialSummaryError(CompactionError):
    """Some messages could not be summarised after others had been; ``covered`` counts the others."""

    def __init__(self, cause: Exception, summary: str, covered: int) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.summary = summary
        self.covered = covered


class _SummaryTimeoutError(CompactionError):
    """The model took too long."""


@frozen
class _Room:
    """How one request divides the window: the answer, the notes so far, and the conversation, in tokens."""

    answer: int
    notes: int
    conversation: int


class Summariser:
    """Summarises with one model.

    No request is larger than ``window`` tokens, its answer included, for windows of 4,000 tokens and more; each has
    ``timeout_s`` seconds. Cancelling the task cancels the request.
    """

    def __init__(
        self, model: ChatModel, counter: TokenCounter, *, window: int, timeout_s: float
    ) -> None:
        self._model = model
        self._counter = counter
        self._window = window
        self._timeout_s = timeout_s
        self._sizes: dict[int, tuple[Message, int]] = {}

    async def summarise(self, task: SummaryTask) -> SummaryText:
        """Summarise, first in stages, then in smaller chunks, then as far as it goes.

        A model that refuses the credentials or takes too long is not asked again.

        :raises CompactionError: if nothing could be summarised; the history is untouched.
        """
        task = evolve(task, advice=self._bounded(task.advice))
        room = self._room(task)
        oversize = sum(self._count(message) > room.conversation for message in task.messages)
        failure: Exception = CompactionError("there is nothing to summarise")
        best: _PartialSummaryError | None = None
        for number in range(OVERFLOWS + 1):
            limit = max(SMALLEST_CHUNK, room.conversation >> number)
            try:
                text = await self._attempt(
                    task, evolve(room, conversation=limit), staged=number == 0
                )
                return SummaryText(text=text, oversize=oversize)
            except _PartialSummaryError as error:
                best = error if best is None or error.covered > best.covered else best
                failure = error.cause
            except (ModelError, CompactionError) as error:
                failure = error
            logger.warning("a summary failed (%s)", failure)
            if isinstance(failure, ModelAuthError | _SummaryTimeoutError):
                break
            if number > 0 and not isinstance(failure, ModelOverflowError):
                break
        if best is not None:
            left = len(task.messages) - best.covered
            note = f"[The last {left} of {len(task.messages)} messages could not be summarised.]"
            return SummaryText(text=best.summary, oversize=oversize, note=note)
        raise CompactionError(
            f"summarization_failed: {failure}",
            where=self._model.id,
            hint="The history is kept; the compaction is tried again when the context is measured next.",
        ) from failure

    def _bounded(self, advice: Advice) -> Advice:
        """The advice with its longer texts cut, so that they leave room for the conversation."""
        limit = self._window // _ADVICE_SHARE
        own = advice.identifier_instructions
        return evolve(
            advice,
            identifier_instructions=None if own is None else self._fit(own, limit),
            feedback=[self._fit("\n".join(advice.feedback), limit)] if advice.feedback else (),
        )

    def _room(self, task: SummaryTask) -> _Room:
        answer = max(1, min(task.max_tokens, self._window // 4))
        instructions = self._counter.text(self._system(task, update=True))
        free = self._window - answer - instructions - _FRAMING_TOKENS
        previous = self._counter.text(task.previous_summary or "")
        notes = min(max(previous, answer), free // 2)
        by_ratio = chunk_limit(task.messages, self._window, self._count)
        conversation = min(max(by_ratio, self._window // 8), free - notes)
        return _Room(answer, max(SMALLEST_CHUNK, notes), max(SMALLEST_CHUNK, conversation))

    def _count(self, message: Message) -> int:
        known = self._sizes.get(id(message))
        if known is None or known[0] is not message:
            known = (message, self._counter.text(serialise_message(message)) + 2)
            self._sizes[id(message)] = known
        return known[1]

    async def _attempt(self, task: SummaryTask, room: _Room, *, staged: bool) -> str:
        parts = self._parts(task, room.conversation) if staged else []
        if len(parts) < 2:
            return await self._fold(task, room)
        summaries = [task.previous_summary] if task.previous_summary else []
        covered = 0
        for part in parts:
            try:
                summary = await self._fold(evolve(task, messages=part, previous_summary=None), room)
            except (ModelError, CompactionError) as error:
                raise _after_others(error, summaries, covered) from error
            summaries.append(summary)
            covered += len(part)
        return await self._merge(task, summaries, room)

    def _parts(self, task: SummaryTask, limit: int) -> list[list[Message]]:
        total = sum(map(self._count, task.messages))
        if total <= limit or len(task.messages) < MINIMUM_MESSAGES_TO_SPLIT:
            return []
        return split_by_share(task.messages, DEFAULT_PARTS, self._count)

    async def _fold(self, task: SummaryTask, room: _Room) -> str:
        """Chunk after chunk, each with the summary of those before it."""
        running = task.previous_summary
        covered = 0
        for chunk in split_by_size(task.messages, room.conversation, self._count):
            try:
                running = await self._ask(
                    "summarise",
                    self._system(task, update=running is not None),
                    [user(self._record(chunk, running, room))],
                    room.answer,
                )
            except (ModelError, CompactionError) as error:
                if covered == 0 or running is None:
                    raise
                raise _PartialSummaryError(error, running, covered) from error
            covered += len(chunk)
        return running or ""

    async def _merge(self, task: SummaryTask, summaries: Sequence[str], room: _Room) -> str:
        system = f"{prompts.SYSTEM}\n\n{prompts.merge_prompt(task.advice)}"
        free = self._window - room.answer - self._counter.text(system) - _FRAMING_TOKENS
        share = max(SMALLEST_CHUNK, free // len(summaries) - _FRAMING_TOKENS // 4)
        messages = [
            user(f"[Chunk {number}/{len(summaries)}]\n{self._fit(quoted(summary), share)}")
            for number, summary in enumerate(summaries, 1)
        ]
        return await self._ask("merge", system, messages, room.answer)

    def _system(self, task: SummaryTask, *, update: bool) -> str:
        return f"{prompts.SYSTEM}\n\n{instructions_for(task, update=update)}"

    def _record(self, chunk: Sequence[Message], previous: str | None, room: _Room) -> str:
        record = self._fit(serialise(chunk), room.conversation)
        conversation = f"<conversation>\n{record}\n</conversation>"
        if not previous:
            return conversation
        notes = self._fit(quoted(previous), room.notes)
        return f"<previous-summary>\n{notes}\n</previous-summary>\n\n{conversation}"

    def _fit(self, text: str, limit: int) -> str:
        """Cut a text to ``limit`` tokens, so that no request can overflow the summariser's window."""
        tokens = self._counter.text(text)
        keep = len(text)
        fitting = text
        while tokens > limit and keep > MINIMUM_TEXT:
            keep = min(keep * 7 // 8, int(keep * limit / tokens))
            fitting = cut_text(text, keep, "record")
            tokens = self._counter.text(fitting)
        return fitting

    async def _ask(
        self, purpose: Purpose, system: str, messages: Sequence[Message], max_tokens: int
    ) -> str:
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

        request = ChatRequest(
            messages=messages, system=system, purpose=purpose, max_tokens=max_tokens
        )
        retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=_retry_wait_s,
            retry=retry_if_exception_type((ModelRateLimitError, ModelUnavailableError)),
            reraise=True,
        )
        text: str = await retrying(self._complete, request)
        if not text.strip():
            raise CompactionError("the model returned no summary text", where=self._model.id)
        return text.strip()

    async def _complete(self, request: ChatRequest) -> str:
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await self._model.complete(request)
        except TimeoutError:
            raise _SummaryTimeoutError(
                f"no summary within {self._timeout_s:g} s",
                where=self._model.id,
                hint="Raise agents.defaults.compaction.timeoutSeconds, or name a faster compaction.model.",
            ) from None
        except ModelError:
            raise
        except Exception as error:
            # A model that others wrote may raise anything; it must not end the turn.
            raise CompactionError(
                f"{type(error).__name__}: {error}", where=self._model.id
            ) from error
        return reply.text


def _after_others(
    error: ModelError | CompactionError, summaries: Sequence[str], covered: int
) -> Exception:
    """The failure of a later part, with the summaries of those before it."""
    cause: Exception = error
    if isinstance(error, _PartialSummaryError):
        summaries = [*summaries, error.summary]
        covered += error.covered
        cause = error.cause
    if covered == 0:
        return error
    return _PartialSummaryError(cause, "\n\n".join(summaries), covered)


def _retry_wait_s(state: RetryCallState) -> float:
    """Seconds before the next try: doubled each time, or what the provider asked for (context 4.1)."""
    from random import uniform

    wait_s = _RETRY_MINIMUM_S * 2.0 ** (state.attempt_number - 1)
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, ModelRateLimitError) and error.retry_after_s is not None:
        wait_s = max(wait_s, error.retry_after_s)
    jitter = 1 + uniform(0, _RETRY_JITTER)
    return float(min(wait_s * jitter, _RETRY_MAXIMUM_S))
