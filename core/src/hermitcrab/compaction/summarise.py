"""Having a model summarise a conversation: in chunks, in stages, with a ladder of fallbacks (context 4.6-4.8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from attrs import evolve, frozen

from hermitcrab.compaction.asking import SummaryRequests, SummaryTimeoutError
from hermitcrab.compaction.composing import (
    PartNotes,
    RequestComposer,
    Room,
    SummaryTask,
)
from hermitcrab.compaction.oversize import without_oversize
from hermitcrab.compaction.reading import MessageReader
from hermitcrab.errors import (
    CompactionError,
    ModelAuthError,
    ModelError,
    ModelOverflowError,
    ModelTimeoutError,
)
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.models.contract import ChatModel

logger = logging.getLogger("hermitcrab.compaction")

#: How often chunks are made smaller where a provider says that a request overflows (C32).
OVERFLOWS = 4
#: Failures after which the model is not asked for the same again.
_FINAL = (ModelAuthError, ModelTimeoutError, SummaryTimeoutError)


@frozen(kw_only=True)
class SummaryText:
    """A summary; ``oversize`` messages were cut to fit, ``note`` says what could not be summarised.

    ``provider`` names the compaction provider that wrote it; ``remark`` says why the one that config names did not, or
    the model that it names. ``failure`` is why some of it is missing.
    """

    text: str
    oversize: int = 0
    note: str = ""
    provider: str | None = None
    remark: str = ""
    failure: Exception | None = None

    @property
    def partial(self) -> bool:
        return bool(self.note)


class SummarySource(Protocol):
    """Whatever turns messages into a summary."""

    async def summarise(self, task: SummaryTask) -> SummaryText: ...


class _PartialSummaryError(CompactionError):
    """Some messages could not be summarised after others had been; ``covered`` counts the others."""

    def __init__(self, cause: Exception, summary: str, covered: int) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.summary = summary
        self.covered = covered


class Summariser:
    """Summarises with one model.

    No request is larger than ``window`` tokens, its answer included, for windows of 4,000 tokens and more; each has
    ``timeout_s`` seconds. Cancelling the task cancels the request. What takes time by itself is done in threads (P24).

    :param thinking: how much the model is told to think, a level that it knows.
    :param reader: shared with others that read the same messages.
    """

    def __init__(
        self,
        model: ChatModel,
        counter: TokenCounter,
        *,
        window: int,
        timeout_s: float,
        thinking: str | None = None,
        reader: MessageReader | None = None,
    ) -> None:
        self.model_id = model.id
        self._requests = SummaryRequests(model, timeout_s=timeout_s, thinking=thinking)
        self._window = window
        self._reader = reader or MessageReader(counter)
        self._composer = RequestComposer(self._reader, counter, window)

    async def summarise(self, task: SummaryTask) -> SummaryText:
        """Summarise, first in stages, then in smaller chunks and without what is too large, then as far as it goes.

        A model that refuses the credentials or takes too long is not asked again.

        :raises CompactionError: if nothing could be summarised, from the last failure; the history is untouched.
        """
        task, room, oversize = await asyncio.to_thread(self._prepared, task)
        failure: Exception = CompactionError("there is nothing to summarise")
        best: _PartialSummaryError | None = None
        best_notes: Sequence[str] = ()
        notes: Sequence[str] = ()
        for number in range(OVERFLOWS + 1):
            if number == 1:
                task, notes = await asyncio.to_thread(self._without_oversize, task)
            try:
                text = await self._attempt(task, room.smaller(number), staged=number == 0)
                return SummaryText(
                    text=text,
                    oversize=oversize,
                    note="\n".join(notes),
                    failure=failure if notes else None,
                )
            except _PartialSummaryError as error:
                if best is None or error.covered > best.covered:
                    best, best_notes = error, [*notes, _left_out(error, task)]
                failure = error.cause
            except (ModelError, CompactionError) as error:
                failure = error
            logger.warning("a summary failed (%s)", failure)
            if isinstance(failure, _FINAL):
                break
            if number > 0 and not isinstance(failure, ModelOverflowError):
                break
        if best is not None:
            return SummaryText(
                text=best.summary, oversize=oversize, note="\n".join(best_notes), failure=best.cause
            )
        raise CompactionError(
            f"summarization_failed: {failure}",
            where=self.model_id,
            hint="The history is kept; the compaction is tried again when the context is measured next.",
        ) from failure

    def _prepared(self, task: SummaryTask) -> tuple[SummaryTask, Room, int]:
        """The task with bounded advice, the room in each request, and how many messages are too large for it."""
        task = self._composer.bounded(task)
        room = self._composer.room(task)
        return task, room, self._composer.oversize(task, room)

    def _without_oversize(self, task: SummaryTask) -> tuple[SummaryTask, Sequence[str]]:
        """The task without messages that may have been too large, and notes on them; as it is if none is left."""
        kept, notes = without_oversize(task.messages, self._window, self._reader.tokens)
        return (evolve(task, messages=kept), notes) if kept and notes else (task, ())

    async def _attempt(self, task: SummaryTask, room: Room, *, staged: bool) -> str:
        parts = await asyncio.to_thread(self._composer.parts, task, room) if staged else []
        if not parts:
            return await self._fold(task, room)
        done = [PartNotes((), task.previous_summary)] if task.previous_summary else []
        covered = 0
        for part in parts:
            try:
                text = await self._fold(evolve(task, messages=part, previous_summary=None), room)
            except (ModelError, CompactionError) as error:
                raise _after_others(error, done, covered) from error
            done.append(PartNotes(part, text))
            covered += len(part)
        system, messages = await asyncio.to_thread(self._composer.merge, task, done, room)
        return await self._requests.ask("merge", system, messages, room.answer)

    async def _fold(self, task: SummaryTask, room: Room) -> str:
        """Chunk after chunk, each with the summary of those before it."""
        running = task.previous_summary
        covered = 0
        for chunk in await asyncio.to_thread(self._composer.chunks, task.messages, room):
            system = self._composer.system(task, update=running is not None)
            message = await asyncio.to_thread(self._composer.conversation, chunk, running, room)
            try:
                running = await self._requests.ask("summarise", system, [message], room.answer)
            except (ModelError, CompactionError) as error:
                if covered == 0 or running is None:
                    raise
                raise _PartialSummaryError(error, running, covered) from error
            covered += len(chunk)
        return running or ""


def _left_out(error: _PartialSummaryError, task: SummaryTask) -> str:
    total = len(task.messages)
    return f"[The last {total - error.covered} of {total} messages could not be summarised.]"


def _after_others(
    error: ModelError | CompactionError, done: Sequence[PartNotes], covered: int
) -> Exception:
    """The failure of a later part, with the summaries of those before it."""
    cause: Exception = error
    texts = [part.text for part in done]
    if isinstance(error, _PartialSummaryError):
        texts.append(error.summary)
        covered += error.covered
        cause = error.cause
    if covered == 0:
        return error
    return _PartialSummaryError(cause, "\n\n".join(texts), covered)
