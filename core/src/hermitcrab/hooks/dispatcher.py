"""Firing hooks: who is called, in which order, and what becomes of the answers (sessions 6.2, 6.3)."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import attrs
from attrs import frozen

from hermitcrab.errors import HookError
from hermitcrab.hooks.context import HookContext
from hermitcrab.hooks.events import HookEvent
from hermitcrab.hooks.implementations import HookImplementation
from hermitcrab.hooks.merge import Answer, ends_the_call, merge_answers
from hermitcrab.hooks.reporter import (
    HookReporter,
    LoggingReporter,
    SilentReporter,
    describe,
    logger,
)
from hermitcrab.hooks.runner import NOTHING, HandlerRunner, Outcome, Pending
from hermitcrab.hooks.specifications import HOOKS, HookSpecification
from hermitcrab.hooks.turn import RunDecision
from hermitcrab.hooks.waiting import Strays

R = TypeVar("R")


class ImplementationSource(Protocol):
    """Where the dispatcher reads the handlers, anew at each call."""

    def of(self, hook: str) -> Sequence[HookImplementation]: ...


@frozen(kw_only=True)
class DispatchPolicy:
    """``overrun_ms``: how long a plain function may block the host before it is named, in milliseconds."""

    overrun_ms: int = 1000


class HookDispatcher:
    """Calls the handlers of hooks.

    A handler that fails or runs out of time is reported with its plugin id and otherwise ignored, unless the hook is a
    gate: then :class:`~hermitcrab.errors.HookError` is raised and the caller refuses what the gate guards.
    """

    def __init__(
        self,
        implementations: ImplementationSource,
        reporter: HookReporter | None = None,
        policy: DispatchPolicy | None = None,
    ) -> None:
        self._implementations = implementations
        self._strays = Strays()
        self._runner = HandlerRunner(
            LoggingReporter(reporter or SilentReporter()),
            self._strays,
            (policy or DispatchPolicy()).overrun_ms,
        )

    def has(self, hook: str) -> bool:
        """Whether anybody implements ``hook``."""
        return bool(self._implementations.of(hook))

    async def fire(self, event: HookEvent[R], ctx: HookContext) -> R | None:
        """Call every handler of the event's hook and wait for them; None if there is no answer.

        :raises HookError: if the hook is a gate and a handler failed, or if the hook is a synchronous one.
        """
        specification = _specification(event, synchronous=False)
        handlers = self._implementations.of(specification.name)
        if not handlers:
            return None
        if specification.mode == "void":
            await self._observe(specification, handlers, event, ctx)
            return None
        return await self._ask(specification, handlers, event, ctx)

    def fire_background(self, event: HookEvent[None], ctx: HookContext) -> None:
        """Start every handler of an observing hook and return at once; :meth:`close` waits for them.

        :raises HookError: if the hook's answers matter.
        """
        specification = _specification(event, synchronous=False)
        if specification.mode != "void":
            raise HookError(f"{specification.name} has answers: use fire")
        for implementation in self._implementations.of(specification.name):
            task = asyncio.ensure_future(
                self._runner.run(specification, implementation, event, ctx)
            )
            self._strays.keep(task, implementation.label)

    def fire_sync(self, event: HookEvent[R], ctx: HookContext) -> R | None:
        """Call the handlers of a synchronous hook one after another, each with a copy of the message so far.

        The result carries the message only if it changed; None if nothing was decided. A block ends the chain.

        :raises HookError: if the hook is not a synchronous one.
        """
        specification = _specification(event, synchronous=True)
        answers: list[Answer[R]] = []
        current = event
        watch = self._runner.watch()
        for implementation in self._implementations.of(specification.name):
            copied = _with_own_copy(specification, current)
            outcome = self._runner.run_sync(specification, implementation, copied, ctx, watch)
            if outcome.result is None:
                continue
            answers.append(Answer(implementation.plugin_id, outcome.result))
            if ends_the_call(outcome.result):
                break
            current = _chained(specification, current, outcome.result)
        return _unless_unchanged(specification, event, _merged(specification, answers))

    async def close(self, grace_s: float = 5.0) -> None:
        """Wait up to ``grace_s`` seconds for handlers that run in the background, then cancel and name the rest."""
        running = self._strays.of_this_loop()
        if running:
            await self._end(running, grace_s)
        self._runner.report_times()

    async def _end(self, running: Mapping[asyncio.Task[Any], str], grace_s: float) -> None:
        _, late = await asyncio.wait(running, timeout=grace_s)
        for task in late:
            logger.warning("%s was still running at close and is cancelled", running[task])
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=1.0)

    async def _observe(
        self,
        specification: HookSpecification,
        handlers: Sequence[HookImplementation],
        event: HookEvent[Any],
        ctx: HookContext,
    ) -> None:
        if any(not each.is_inline for each in handlers):
            await asyncio.gather(
                *(self._runner.run(specification, each, event, ctx) for each in handlers)
            )
            return
        later: list[Coroutine[Any, Any, Outcome[Any]]] = []
        watch, run_inline = self._runner.watch(), self._runner.run_inline
        for each in handlers:
            answer = run_inline(specification, each, event, ctx, watch)
            if answer is not NOTHING and isinstance(answer, Pending):
                later.append(self._runner.finish(specification, each, answer, ctx))
        if later:
            await asyncio.gather(*later)

    async def _ask(
        self,
        specification: HookSpecification,
        handlers: Sequence[HookImplementation],
        event: HookEvent[R],
        ctx: HookContext,
    ) -> R | None:
        answers: list[Answer[R]] = []
        current = event
        for implementation in handlers:
            copied = _with_own_copy(specification, current)
            outcome = await self._runner.run(specification, implementation, copied, ctx)
            result = _accepted(specification, implementation, outcome)
            if result is None:
                continue
            answers.append(Answer(implementation.plugin_id, result))
            if ends_the_call(result):
                break
            current = _chained(specification, current, result)
        return _merged(specification, answers)


def _specification(event: HookEvent[Any], *, synchronous: bool) -> HookSpecification:
    specification = HOOKS.get(event.hook)
    if specification is None:
        raise HookError(f"{type(event).__name__} belongs to no hook")
    if (specification.mode == "sync") is not synchronous:
        other = "fire" if synchronous else "fire_sync"
        raise HookError(f"{specification.name} must be fired with {other}")
    return specification


def _accepted(
    specification: HookSpecification, implementation: HookImplementation, outcome: Outcome[R]
) -> R | None:
    """The handler's result; at a gate, a failure is raised, or is a block where an answer is required."""
    error = outcome.error
    if error is None or not specification.gate:
        return outcome.result
    if specification.answer_required and isinstance(error, HookError):
        reason = f"invalid answer of plugin {implementation.plugin_id}: {error.message}"
        blocked: Any = RunDecision(outcome="block", reason=reason)
        return blocked  # type: ignore[no-any-return]
    raise HookError(
        f"the gate {specification.name} failed: {describe(error)}",
        where=f"plugin {implementation.plugin_id}",
        hint=f"Repair it, or set plugins.entries.{implementation.plugin_id}.enabled to false",
    ) from error


def _merged(specification: HookSpecification, answers: Sequence[Answer[R]]) -> R | None:
    if not answers:
        return None
    # A claiming hook has one winner: who declines is not heard.
    if specification.mode == "claiming" and not ends_the_call(answers[-1].result):
        return None
    return merge_answers(type(answers[0].result), answers)


def _with_own_copy(specification: HookSpecification, event: HookEvent[R]) -> HookEvent[R]:
    name = specification.chained
    if name is None:
        return event
    return attrs.evolve(event, **{name: copy.deepcopy(getattr(event, name))})


def _chained(specification: HookSpecification, event: HookEvent[R], result: R) -> HookEvent[R]:
    """The event as the next handler sees it."""
    name = specification.chained
    value = None if name is None else getattr(result, name)
    if name is None or value is None:
        return event
    return attrs.evolve(event, **{name: value})


def _unless_unchanged(
    specification: HookSpecification, event: HookEvent[R], result: R | None
) -> R | None:
    name = specification.chained
    if result is None or name is None:
        return result
    decided: Any = result
    if getattr(result, name) == getattr(event, name):
        decided = attrs.evolve(decided, **{name: None})
    return None if decided == type(decided)() else decided
