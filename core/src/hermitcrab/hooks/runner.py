"""Running one handler: its arguments, its time, its answer and its failures."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable
from typing import Any, Generic, TypeVar

import attrs
from attrs import frozen

from hermitcrab.errors import HookError
from hermitcrab.hooks.context import HookContext
from hermitcrab.hooks.events import HookEvent
from hermitcrab.hooks.implementations import HookImplementation
from hermitcrab.hooks.policy import chosen_timeout_ms, permitted, timeout_ms
from hermitcrab.hooks.reporter import LoggingReporter
from hermitcrab.hooks.results import to_result
from hermitcrab.hooks.specifications import HookSpecification
from hermitcrab.hooks.waiting import Strays, in_thread, watchdog, within

R = TypeVar("R")


@frozen
class Outcome(Generic[R]):
    """What became of one handler: a result, an error, or neither."""

    result: R | None = None
    error: BaseException | None = None


class HandlerRunner:
    """Runs handlers one at a time; failures, timeouts and overruns are reported and returned, never raised.

    :param overrun_ms: how long a plain function may block the host before it is named, in milliseconds.
    """

    def __init__(self, reporter: LoggingReporter, strays: Strays, overrun_ms: int) -> None:
        self._reporter = reporter
        self._strays = strays
        self._overrun_ms = overrun_ms

    async def run(
        self,
        specification: HookSpecification,
        implementation: HookImplementation,
        event: HookEvent[R],
        ctx: HookContext,
    ) -> Outcome[R]:
        """Call the handler and wait for it, within its time."""
        started = time.perf_counter()
        arguments = _arguments(implementation, event, ctx)
        try:
            value = await self._value(specification, implementation, arguments, ctx)
            outcome = Outcome(_result(specification, implementation, value))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - reported below
            outcome = Outcome(error=error)
        self._report(implementation, outcome, time.perf_counter() - started, ctx)
        return outcome

    def run_sync(
        self,
        specification: HookSpecification,
        implementation: HookImplementation,
        event: HookEvent[R],
        ctx: HookContext,
    ) -> Outcome[R]:
        """Call the handler of a synchronous hook; an awaitable answer is an error of the handler."""
        started = time.perf_counter()
        arguments = _arguments(implementation, event, ctx)
        try:
            value = self._call_inline(implementation, arguments, ctx)
            if inspect.isawaitable(value):
                _discard(value)
                raise HookError("the handler is asynchronous, and this hook is synchronous")
            outcome = Outcome(_result(specification, implementation, value))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - reported below
            outcome = Outcome(error=error)
        self._report(implementation, outcome, time.perf_counter() - started, ctx)
        return outcome

    async def _value(
        self,
        specification: HookSpecification,
        implementation: HookImplementation,
        arguments: dict[str, Any],
        ctx: HookContext,
    ) -> Any:
        function = implementation.function
        awaitable: Awaitable[Any]
        if inspect.iscoroutinefunction(function):
            awaitable = function(**arguments)
        elif implementation.blocking:
            awaitable = in_thread(functools.partial(function, **arguments))
        else:
            value = self._call_inline(implementation, arguments, ctx)
            if not inspect.isawaitable(value):
                return value
            awaitable = value
        limit_ms = timeout_ms(specification, implementation.policy, implementation.timeout_ms)
        seconds = None if limit_ms is None else limit_ms / 1000
        return await within(awaitable, seconds, name=label(implementation), strays=self._strays)

    def _call_inline(
        self, implementation: HookImplementation, arguments: dict[str, Any], ctx: HookContext
    ) -> Any:
        """Call a plain function; it cannot be cut, so one that blocks the host too long is named."""
        limit = self._overrun_limit(implementation)
        started = time.perf_counter()
        try:
            with watchdog(limit, label(implementation)):
                value = implementation.function(**arguments)
        except asyncio.CancelledError as error:
            raise HookError("the handler was cancelled from inside") from error
        seconds = time.perf_counter() - started
        if seconds > limit:
            overrun = HookError(f"blocked the host for {seconds:.2f} s, {limit:g} s is allowed")
            self._reporter.failed(implementation, overrun, seconds, ctx)
        return value

    def _overrun_limit(self, implementation: HookImplementation) -> float:
        chosen = chosen_timeout_ms(
            implementation.hook, implementation.policy, implementation.timeout_ms
        )
        return (self._overrun_ms if chosen is None else chosen) / 1000

    def _report(
        self,
        implementation: HookImplementation,
        outcome: Outcome[Any],
        seconds: float,
        ctx: HookContext,
    ) -> None:
        self._reporter.timed(implementation, seconds)
        if outcome.error is not None:
            self._reporter.failed(implementation, outcome.error, seconds, ctx)


def label(implementation: HookImplementation) -> str:
    """How the log calls a handler."""
    return f"{implementation.hook} handler of plugin {implementation.plugin_id}"


def _arguments(
    implementation: HookImplementation, event: HookEvent[Any], ctx: HookContext
) -> dict[str, Any]:
    own_ctx = attrs.evolve(
        ctx, plugin_id=implementation.plugin_id, plugin_config=implementation.plugin_config
    )
    offered = {"event": event, "ctx": own_ctx}
    return {name: offered[name] for name in implementation.argnames}


def _result(
    specification: HookSpecification, implementation: HookImplementation, value: Any
) -> Any:
    if value is None or specification.result is None:
        if specification.answer_required:
            raise HookError("the handler gave no answer, and this gate needs one")
        return None
    return permitted(to_result(specification.result, value), implementation.policy)


def _discard(value: Any) -> None:
    if inspect.iscoroutine(value):
        value.close()
