"""The HTTP side of remote models: one client, bounded retries, transport errors in our words."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from attrs import frozen

from hermitcrab.errors import HermitcrabError
from hermitcrab.models.errors_map import Failure, Origin, timed_out, unreachable

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

#: Seconds that a server may be silent before a request fails.
DEFAULT_TIMEOUT_S = 120.0
_CONNECT_TIMEOUT_S = 10.0
_LONGEST_BACKOFF_S = 8.0

_log = logging.getLogger("hermitcrab.models")
_T = TypeVar("_T")


@frozen(kw_only=True)
class RetryPolicy:
    """How often and after which pauses a failed attempt is repeated.

    ``backoff_s`` is the first pause in seconds; it doubles up to 8 s. A provider that asks for a longer pause than
    ``longest_wait_s`` seconds is not asked again. ``jitter`` is by how much of itself a pause may be longer, so that
    many clients do not come back at once.
    """

    max_retries: int = 3
    backoff_s: float = 0.5
    longest_wait_s: float = 60.0
    jitter: float = 0.0


class RepeatableFailure(Protocol):
    """What a failed attempt means: the error to raise, and whether another attempt can succeed."""

    @property
    def error(self) -> HermitcrabError: ...
    @property
    def retryable(self) -> bool: ...


_Failure = TypeVar("_Failure", bound=RepeatableFailure)


class AttemptFailedError(Exception, Generic[_Failure]):
    """One attempt failed; carries what that means. Never leaves the room that asked."""

    def __init__(self, failure: _Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


def new_client(timeout_s: float) -> httpx.AsyncClient:
    """A client whose requests fail after ``timeout_s`` seconds without a byte from the server."""
    import httpx

    connect_s = min(timeout_s, _CONNECT_TIMEOUT_S)
    return httpx.AsyncClient(timeout=httpx.Timeout(timeout_s, connect=connect_s))


async def with_retries(policy: RetryPolicy, attempt: Callable[[], Awaitable[_T]]) -> _T:
    """The result of ``attempt``, repeated as the policy says. Raises the typed error of the last failure."""
    try:
        return await repeated(policy, attempt)
    except AttemptFailedError as failed:
        raise failed.failure.error from failed.__cause__


async def repeated(
    policy: RetryPolicy,
    attempt: Callable[[], Awaitable[_T]],
    *,
    logger: logging.Logger = _log,
    level: int = logging.WARNING,
) -> _T:
    """The result of ``attempt``, repeated as the policy says.

    :param logger: is told of each repetition, at ``level``.
    :raises AttemptFailedError: the last failure.
    """
    from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda error: _can_be_repeated(policy, error)),
        stop=stop_after_attempt(policy.max_retries + 1),
        wait=lambda state: _pause_s(policy, state),
        before_sleep=lambda state: _log_retry(logger, level, state),
        reraise=True,
    )

    async def once() -> _T:
        # The retrying object awaits only what it can tell to be a coroutine function.
        return await attempt()

    return await retrying(once)


def _can_be_repeated(policy: RetryPolicy, error: BaseException) -> bool:
    if not isinstance(error, AttemptFailedError) or not error.failure.retryable:
        return False
    return (_asked_pause_s(error.failure) or 0.0) <= policy.longest_wait_s


def _asked_pause_s(failure: RepeatableFailure) -> float | None:
    """The pause that the provider asked for, where the error has one."""
    asked: float | None = getattr(failure.error, "retry_after_s", None)
    return asked


def _failure_of(state: RetryCallState) -> Any:
    error = state.outcome.exception() if state.outcome else None
    return error.failure if isinstance(error, AttemptFailedError) else None


def _pause_s(policy: RetryPolicy, state: RetryCallState) -> float:
    failure = _failure_of(state)
    asked = _asked_pause_s(failure) if failure else None
    if asked is not None:
        return asked
    pause_s = min(policy.backoff_s * 2.0 ** (state.attempt_number - 1), _LONGEST_BACKOFF_S)
    return pause_s * random.uniform(1.0, 1.0 + policy.jitter)


def _log_retry(logger: logging.Logger, level: int, state: RetryCallState) -> None:
    failure = _failure_of(state)
    pause_s = state.next_action.sleep if state.next_action else 0.0
    if failure:
        logger.log(
            level,
            "%s; attempt %d follows in %.1f s",
            failure.error,
            state.attempt_number + 1,
            pause_s,
        )


def failure_of_transport(origin: Origin, error: Exception, timeout_s: float) -> Failure:
    """The failure that an exception of httpx stands for.

    A server that took a request and stayed silent is not asked again: it would be kept waiting once more.
    """
    import httpx

    if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
        return timed_out(origin, timeout_s)
    if isinstance(error, httpx.TimeoutException):
        return unreachable(origin, "the connection could not be made in time")
    reason = str(error) or type(error).__name__
    retryable = not isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL)
    return unreachable(origin, reason, retryable=retryable)
