"""Running one handler: its arguments, its time, its answer and its failures."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable
from typing import Any, Generic, TypeVar

from attrs import frozen

from hermitcrab.errors import HookError
from hermitcrab.hooks.context import HookContext
from hermitcrab.hooks.events import HookEvent
from hermitcrab.hooks.implementations import HookImplementation
from hermitcrab.hooks.policy import permitted, timeout_ms
from hermitcrab.hooks.reporter import LoggingReporter
from hermitcrab.hooks.results import to_result
from hermitcrab.hooks.specifications import HookSpecification
from hermitcrab.hooks.waiting import Strays, in_thread, within
from hermitcrab.hooks.watchdog import Watch, Watchdog

R = TypeVar("R")


@frozen
class Outcome(Generic[R]):
    """What became of one handler: a result, an error, or neither."""

    result: R | None = None
    error: BaseException | None = None


@frozen
class Pending:
    """A plain function has answered with an awaitable; ``started`` is of ``time.perf_counter``."""

    awaitable: Awaitable[Any]
    started: float


#: What a handler answers that has no opinion.
NOTHING: Outcome[Any] = Outcome()
# How often the times of a handler are reported at most, in seconds; what is reported adds up all the same.
_REPORT_EVERY_S = 1.0


class HandlerRunner:
    """Runs handlers one at a time; failures, timeouts and overruns are reported and returned, never raised.

    :param overrun_ms: how long a plain function may block the host before it is named, in milliseconds.
    """

    def __init__(self, reporter: LoggingReporter, strays: Strays, overrun_ms: int) -> None:
        self._reporter = reporter
        self._strays = strays
        self._overrun_s = overrun_ms / 1000
        self._watchdog = Watchdog(self._overrun_s)
        self._unreported: dict[int, HookImplementation] = {}

    def watch(self) -> Watch:
        """What the plain handlers of one call of a hook are watched with."""
        return self._watchdog.watch()

    async def run(
        self,
        specification: HookSpecification,
        implementation: HookImplementation,
        event: HookEvent[R],
        ctx: HookContext,
    ) -> Outcome[R]:
        """Call the handler and wait for it, within its time."""
        if implementation.is_inline:
            answer = self.run_inline(specification, implementation, event, ctx, self.watch())
            if isinstance(answer, Outcome):
                return answer
        else:
            started = time.perf_counter()
            call = functools.partial(implementation.call, event, ctx)
            awaitable = call() if implementation.is_coroutine_function else in_thread(call)
            answer = Pending(awaitable, started)
        return await self.finish(specification, implementation, answer, ctx)

    def run_inline(
        self,
        specification: HookSpecification,
        implementation: HookImplementation,
        event: HookEvent[R],
        ctx: HookContext,
        watch: Watch,
    ) -> Outcome[R] | Pending:
        """Call a plain function here and now; an awaitable that it answers with is left to :meth:`finish`."""
        started = time.perf_counter()
        watch.started = started
        watch.handler = implementation
        try:
            value = implementation.call(event, ctx)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - reported below
            watch.handler = None
            return self._failed(implementation, error, started, ctx)
        except asyncio.CancelledError as error:
            watch.handler = None
            inside = HookError("the handler was cancelled from inside")
            inside.__cause__ = error
            return self._failed(implementation, inside, started, ctx)
        except BaseException:
            watch.handler = None
            raise
        watch.handler = None
        ended = time.perf_counter()
        limit_s = implementation.overrun_s
        if ended - started > (self._overrun_s if limit_s is None else limit_s):
            self._overran(implementation, ended - started, ctx)
        if value is None and not specification.answer_required:
            self._took(implementation, ended - started, ended)
            return NOTHING
        if inspect.isawaitable(value):
            return Pending(value, started)
        return self._answered(specification, implementation, value, started, ctx)

    def run_sync(
        self,
        specification: HookSpecification,
        implementation: HookImplementation,
        event: HookEvent[R],
        ctx: HookContext,
        watch: Watch,
    ) -> Outcome[R]:
        """Call the handler of a synchronous hook; an awaitable answer is an error of the handler."""
        answer = self.run_inline(specification, implementation, event, ctx, watch)
        if isinstance(answer, Outcome):
            return answer
        if inspect.iscoroutine(answer.awaitable):
            answer.awaitable.close()
        error = HookError("the handler is asynchronous, and this hook is synchronous")
        return self._failed(implementation, error, answer.started, ctx)

    def report_times(self) -> None:
        """Report what has not been reported yet of how long handlers took."""
        waiting, self._unreported = self._unreported, {}
        for implementation in waiting.values():
            self._report_times(implementation, time.perf_counter())

    async def finish(
        self,
        specification: HookSpecification,
        implementation: HookImplementation,
        answer: Pending,
        ctx: HookContext,
    ) -> Outcome[R]:
        """Wait for an answer, within the handler's time."""
        limit_ms = timeout_ms(specification, implementation.policy, implementation.timeout_ms)
        seconds = None if limit_ms is None else limit_ms / 1000
        try:
            value = await within(
                answer.awaitable, seconds, name=implementation.label, strays=self._strays
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - reported below
            return self._failed(implementation, error, answer.started, ctx)
        return self._answered(specification, implementation, value, answer.started, ctx)

    def _answered(
        self,
        specification: HookSpecification,
        implementation: HookImplementation,
        value: Any,
        started: float,
        ctx: HookContext,
    ) -> Outcome[R]:
        try:
            outcome: Outcome[R] = Outcome(_result(specification, implementation, value))
        except Exception as error:  # noqa: BLE001 - reported below
            return self._failed(implementation, error, started, ctx)
        now = time.perf_counter()
        self._took(implementation, now - started, now)
        return outcome

    def _overran(
        self, implementation: HookImplementation, seconds: float, ctx: HookContext
    ) -> None:
        limit_s = self._watchdog.limit_of(implementation)
        overrun = HookError(f"blocked the host for {seconds:.2f} s, {limit_s:g} s is allowed")
        self._reporter.failed(implementation, overrun, seconds, ctx)

    def _failed(
        self,
        implementation: HookImplementation,
        error: BaseException,
        started: float,
        ctx: HookContext,
    ) -> Outcome[R]:
        now = time.perf_counter()
        self._took(implementation, now - started, now)
        self._reporter.failed(implementation, error, now - started, ctx)
        return Outcome(error=error)

    def _took(self, implementation: HookImplementation, seconds: float, now: float) -> None:
        """Count a call; what many calls took is reported together."""
        times = implementation.times
        times.calls += 1
        times.seconds += seconds
        if seconds > times.slowest:
            times.slowest = seconds
        if now - times.reported_at >= _REPORT_EVERY_S:
            self._report_times(implementation, now)
        elif times.calls == 1:
            self._unreported[id(implementation)] = implementation

    def _report_times(self, implementation: HookImplementation, now: float) -> None:
        times = implementation.times
        calls, seconds, slowest = times.calls, times.seconds, times.slowest
        times.calls, times.seconds, times.slowest, times.reported_at = 0, 0.0, 0.0, now
        self._reporter.timed(implementation, calls, seconds, slowest)


def _result(
    specification: HookSpecification, implementation: HookImplementation, value: Any
) -> Any:
    if value is None or specification.result is None:
        if specification.answer_required:
            raise HookError("the handler gave no answer, and this gate needs one")
        return None
    return permitted(to_result(specification.result, value), implementation.policy)
