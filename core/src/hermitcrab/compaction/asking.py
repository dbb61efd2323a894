"""One request for a summary: how long it may take, when it is tried again, and how much of the answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermitcrab.compaction.structure import cut_answer
from hermitcrab.errors import (
    CompactionError,
    ModelError,
    ModelRateLimitError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel, ChatRequest, Purpose

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

ATTEMPTS = 3
_RETRY_MINIMUM_S = 0.5
_RETRY_MAXIMUM_S = 5.0
_RETRY_JITTER = 0.2


class SummaryTimeoutError(CompactionError):
    """The model took too long; it is not asked again (context 4.6)."""


class SummaryRequests:
    """Asks one model, each time for at most ``timeout_s`` seconds. Cancelling the task cancels the request."""

    def __init__(self, model: ChatModel, *, timeout_s: float, thinking: str | None = None) -> None:
        self._model = model
        self._timeout_s = timeout_s
        self._thinking = thinking

    async def ask(
        self, purpose: Purpose, system: str, messages: Sequence[Message], max_tokens: int
    ) -> str:
        """The model's answer, without white space around it; of one that is far too long its beginning.

        :raises ModelError: from the model.
        :raises CompactionError: for an empty answer, one that does not come in time, and whatever else a model raises.
        """
        request = ChatRequest(
            messages=messages,
            system=system,
            purpose=purpose,
            max_tokens=max_tokens,
            thinking=self._thinking,
        )
        # In a thread, because loading the library takes a while the first time.
        retrying = await asyncio.to_thread(_retrying)
        answer: str = await retrying(self._complete, request)
        text = cut_answer(answer, max_tokens)
        if not text:
            raise CompactionError("the model returned no summary text", where=self._model.id)
        return text

    async def _complete(self, request: ChatRequest) -> str:
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await self._model.complete(request)
        except TimeoutError:
            raise SummaryTimeoutError(
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


def _retrying() -> AsyncRetrying:
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

    return AsyncRetrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=_retry_wait_s,
        retry=retry_if_exception(_may_pass),
        reraise=True,
    )


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, ModelTimeoutError):
        return False
    return isinstance(error, ModelRateLimitError | ModelUnavailableError)


def _retry_wait_s(state: RetryCallState) -> float:
    """Seconds before the next try: doubled each time, or what the provider asked for (context 4.1)."""
    from random import uniform

    wait_s = _RETRY_MINIMUM_S * 2.0 ** (state.attempt_number - 1)
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, ModelRateLimitError) and error.retry_after_s is not None:
        wait_s = max(wait_s, error.retry_after_s)
    jitter = 1 + uniform(0, _RETRY_JITTER)
    return float(min(wait_s * jitter, _RETRY_MAXIMUM_S))
