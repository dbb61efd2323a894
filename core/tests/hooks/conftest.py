"""A host of hooks in miniature: handlers are added as functions, and what is reported is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import field, frozen

from hermitcrab.hooks import HookContext, HookEvent
from hermitcrab.hooks.dispatcher import DispatchPolicy, HookDispatcher
from hermitcrab.hooks.implementations import HookImplementation, HookImplementations
from hermitcrab.hooks.signatures import accepted_arguments
from hermitcrab.hooks.specifications import HANDLER_ARGUMENTS


@frozen
class Reports:
    failures: list[tuple[str, str, BaseException]] = field(factory=list)
    timings: list[tuple[str, str]] = field(factory=list)

    def hook_failed(self, plugin_id: str, hook: str, error: BaseException, seconds: float) -> None:
        self.failures.append((plugin_id, hook, error))

    def hook_timed(
        self, plugin_id: str, hook: str, calls: int, seconds: float, slowest: float
    ) -> None:
        self.timings.extend([(plugin_id, hook)] * calls)

    @property
    def failed_plugins(self) -> list[str]:
        return [plugin_id for plugin_id, _, _ in self.failures]


class Hooks:
    """``add`` handlers, then ``fire`` events."""

    def __init__(self) -> None:
        self.reports = Reports()
        self.implementations = HookImplementations()
        self.dispatcher = HookDispatcher(
            self.implementations, self.reports, DispatchPolicy(overrun_ms=50)
        )
        self.ctx = HookContext(agent_id="main", session_key="agent:main:main")
        self._order = 0

    def add(
        self, hook: str, function: Callable[..., Any], *, plugin: str = "plugin", **more: Any
    ) -> None:
        self._order += 1
        self.implementations.add(
            [
                HookImplementation(
                    plugin_id=plugin,
                    hook=hook,
                    function=function,
                    order=self._order,
                    argnames=accepted_arguments(function, HANDLER_ARGUMENTS),
                    **more,
                )
            ]
        )

    def answers(self, hook: str, *results: Any) -> None:
        """Handlers ``p0``, ``p1`` and so on, in this order, each of which returns one of ``results``."""
        for number, result in enumerate(results):
            self.add(hook, lambda result=result: result, plugin=f"p{number}")

    async def fire(self, event: HookEvent[Any]) -> Any:
        return await self.dispatcher.fire(event, self.ctx)

    def fire_sync(self, event: HookEvent[Any]) -> Any:
        return self.dispatcher.fire_sync(event, self.ctx)

    def fire_background(self, event: HookEvent[Any]) -> None:
        self.dispatcher.fire_background(event, self.ctx)


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()
