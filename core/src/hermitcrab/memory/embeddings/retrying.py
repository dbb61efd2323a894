"""Asking again after a failure that may pass (memory 5.5)."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from attrs import frozen

from hermitcrab.memory.embeddings.failures import Failure

if TYPE_CHECKING:
    from tenacity import RetryCallState

_LONGEST_BACKOFF_S = 8.0
#: How much longer a pause may be, so that many clients do not come back at once.
_JITTER = 0.2

logger = logging.getLogger("hermitcrab.memory")
_T = TypeVar("_T")


@frozen(kw_only=True)
class RetryPolicy:
    """How often and after which pauses a failed attempt is repeated.

    ``backoff_s`` is the first pause in seconds; it doubles up to 8 s. A provider that asks for a longer pause than
    ``longest_wait_s`` seconds is not asked again.
    """

    max_retries: int = 3
    backoff_s: float = 0.5
    longest_wait_s: float = 60.0


class AttemptFailedError(Exception):
    """One attempt failed; carries what that means. Never leaves this room."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


async def with_retries(policy: RetryPolicy, attempt: Callable[[], Awaitable[_T]]) -> _T:
    """The result of ``attempt``, repeated as the policy says.

    :raises AttemptFailedError: the last failure.
    """
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

    async def once() -> _T:
        # The retrying object awaits only what it can tell to be a coroutine function.
        return await attempt()

    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda error: _can_be_repeated(policy, error)),
        stop=stop_after_attempt(policy.max_retries + 1),
        wait=lambda state: _pause_s(policy, state),
        before_sleep=_log_retry,
        reraise=True,
    )
    return await retrying(once)


def _can_be_repeated(policy: RetryPolicy, error: BaseException) -> bool:
    if not isinstance(error, AttemptFailedError) or not error.failure.retryable:
        return False
    return (error.failure.error.retry_after_s or 0.0) <= policy.longest_wait_s


def _failure_of(state: RetryCallState) -> Failure | None:
    error = state.outcome.exception() if state.outcome else None
    return error.failure if isinstance(error, AttemptFailedError) else None


def _pause_s(policy: RetryPolicy, state: RetryCallState) -> float:
    failure = _failure_of(state)
    if failure is not None and failure.error.retry_after_s is not None:
        return failure.error.retry_after_s
    pause_s = min(policy.backoff_s * 2.0 ** (state.attempt_number - 1), _LONGEST_BACKOFF_S)
    return pause_s * random.uniform(1.0, 1.0 + _JITTER)


def _log_retry(state: RetryCallState) -> None:
    failure = _failure_of(state)
    pause_s = state.next_action.sleep if state.next_action else 0.0
    if failure is not None:
        error = failure.error
        attempt = state.attempt_number + 1
        # What comes of it is told by whoever asked.
        logger.info(
            "%s: %s; attempt %d follows in %.1f s", error.where, error.message, attempt, pause_s
        )
