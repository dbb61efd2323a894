"""Having a model summarise a conversation: in chunks, in stages, with a ladder of fallbacks (context 4.6-4.8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from attrs import evolve, frozen

from hermitcrab.compaction import prompts
from hermitcrab.compaction.chunks import (
    DEFAULT_PARTS,
    MINIMUM_MESSAGES_TO_SPLIT,
    chunk_limit,
    split_by_share,
    split_by_size,
)
from hermitcrab.compaction.serialise import quoted, serialise, serialise_message
from hermitcrab.errors import (
    CompactionError,
    ModelError,
    ModelRateLimitError,
    ModelUnavailableError,
)
from hermitcrab.messages.build import user
from hermitcrab.messages.caps import cut_text
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel, ChatRequest, Purpose

logger = logging.getLogger("hermitcrab.compaction")

ATTEMPTS = 3
_RETRY_MINIMUM_S = 0.5
_RETRY_MAXIMUM_S = 5.0


@frozen(kw_only=True)
class SummaryTask:
    """What to summarise and how. Sizes are tokens."""

    messages: Sequence[Message]
    previous_summary: str | None = None
    focus: str | None = None
    keep_identifiers: bool = True
    is_turn_prefix: bool = False
    max_tokens: int = 4_000


@frozen(kw_only=True)
class SummaryText:
    """A model's summary; ``oversize`` messages were cut to fit, ``partial`` says that some could not be summarised."""

    text: str
    oversize: int = 0
    partial: bool = False


class _PartialSummaryError(CompactionError):
    """Some chunk failed after others had succeeded."""

    def __init__(self, message: str, summary: str) -> None:
        super().__init__(message)
        self.summary = summary


class Summariser:
    """Summarises with one model.

    No request is larger than ``window`` tokens; each has ``timeout_s`` seconds. Cancelling the task cancels the
    request.
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

        :raises CompactionError: if nothing could be summarised; the history is untouched.
        """
        limit = self._limit(task)
        oversize = sum(self._count(message) > limit for message in task.messages)
        failure: Exception
        partial: str | None = None
        for attempt_limit, staged in ((limit, True), (max(1, limit // 2), False)):
            try:
                text = await self._attempt(task, attempt_limit, staged=staged)
                return SummaryText(text=text, oversize=oversize)
            except _PartialSummaryError as error:
                partial, failure = error.summary, error
            except (ModelError, CompactionError) as error:
                failure = error
            logger.warning("a summary failed (%s)", failure)
        if partial is not None:
            return SummaryText(text=partial, oversize=oversize, partial=True)
        raise CompactionError(
            f"summarization_failed: {failure}",
            where=self._model.id,
            hint="The history is kept; the compaction is tried again when the context is measured next.",
        ) from failure

    def _limit(self, task: SummaryTask) -> int:
        """The most tokens of conversation in one request."""
        by_ratio = chunk_limit(task.messages, self._window, self._count)
        previous = self._counter.text(task.previous_summary or "")
        instructions = self._counter.text(self._system(task, update=True))
        free = self._window - task.max_tokens - max(previous, task.max_tokens) - instructions - 64
        return max(64, min(max(by_ratio, self._window // 8), free))

    def _count(self, message: Message) -> int:
        known = self._sizes.get(id(message))
        if known is None or known[0] is not message:
            known = (message, self._counter.text(serialise_message(message)) + 2)
            self._sizes[id(message)] = known
        return known[1]

    async def _attempt(self, task: SummaryTask, limit: int, *, staged: bool) -> str:
        total = sum(map(self._count, task.messages))
        if not staged or total <= limit or len(task.messages) < MINIMUM_MESSAGES_TO_SPLIT:
            return await self._fold(task, limit)
        parts = split_by_share(task.messages, DEFAULT_PARTS, self._count)
        if len(parts) < 2:
            return await self._fold(task, limit)
        summaries = [
            await self._fold(evolve(task, messages=part, previous_summary=None), limit)
            for part in parts
        ]
        if task.previous_summary:
            summaries.insert(0, task.previous_summary)
        return await self._merge(task, summaries)

    async def _fold(self, task: SummaryTask, limit: int) -> str:
        """Chunk after chunk, each with the summary of those before it."""
        chunks = split_by_size(task.messages, limit, self._count)
        running = task.previous_summary
        for number, chunk in enumerate(chunks, 1):
            try:
                running = await self._ask(
                    "summarise",
                    self._system(task, update=running is not None),
                    [user(self._record(chunk, running, limit))],
                    task.max_tokens,
                )
            except (ModelError, CompactionError) as error:
                if number == 1 or running is None:
                    raise
                note = (
                    f"[Parts {number} to {len(chunks)} of {len(chunks)} could not be summarised.]"
                )
                raise _PartialSummaryError(str(error), f"{running}\n\n{note}") from error
        return running or ""

    async def _merge(self, task: SummaryTask, summaries: Sequence[str]) -> str:
        system = prompts.merge_prompt(keep_identifiers=task.keep_identifiers, focus=task.focus)
        room = (self._window - task.max_tokens - self._counter.text(system)) // (len(summaries) + 1)
        messages = [
            user(f"[Chunk {number}/{len(summaries)}]\n{self._fit(quoted_summary, room)}")
            for number, quoted_summary in enumerate(map(quoted, summaries), 1)
        ]
        return await self._ask("merge", f"{prompts.SYSTEM}\n\n{system}", messages, task.max_tokens)

    def _system(self, task: SummaryTask, *, update: bool) -> str:
        if task.is_turn_prefix:
            text = prompts.prefix_prompt(keep_identifiers=task.keep_identifiers, focus=task.focus)
        else:
            text = prompts.summarise_prompt(
                update=update, keep_identifiers=task.keep_identifiers, focus=task.focus
            )
        return f"{prompts.SYSTEM}\n\n{text}"

    def _record(self, chunk: Sequence[Message], previous: str | None, limit: int) -> str:
        before = (
            f"<previous-summary>\n{quoted(previous)}\n</previous-summary>\n\n" if previous else ""
        )
        return f"{before}<conversation>\n{self._fit(serialise(chunk), limit)}\n</conversation>"

    def _fit(self, text: str, limit: int) -> str:
        """Cut a text to ``limit`` tokens, so that no request can overflow the summariser's window."""
        tokens = self._counter.text(text)
        while tokens > limit and len(text) > 400:
            text = cut_text(text, int(len(text) * limit / tokens * 0.95) - 80, "record")
            tokens = self._counter.text(text)
        return text

    async def _ask(
        self, purpose: Purpose, system: str, messages: Sequence[Message], max_tokens: int
    ) -> str:
        from tenacity import (
            AsyncRetrying,
            retry_if_exception_type,
            stop_after_attempt,
            wait_exponential_jitter,
        )

        request = ChatRequest(
            messages=messages, system=system, purpose=purpose, max_tokens=max_tokens
        )
        retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential_jitter(initial=_RETRY_MINIMUM_S, max=_RETRY_MAXIMUM_S),
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
            raise CompactionError(
                f"no summary within {self._timeout_s:g} s",
                where=self._model.id,
                hint="Raise agents.defaults.compaction.timeoutSeconds, or name a faster compaction.model.",
            ) from None
        return reply.text
