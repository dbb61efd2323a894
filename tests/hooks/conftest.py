"""A plugin that writes down every hook that is fired, and hosts with a few handlers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hermitcrab import hookimpl
from hermitcrab.hooks import RunDecision
from hermitcrab.hooks.specifications import HOOKS


class Recorder:
    """Implements every hook; ``events`` holds what was fired, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any, Any]] = []
        for name, specification in HOOKS.items():
            handler = self._handler(name, specification.mode == "sync")
            setattr(self, name, hookimpl(specname=name)(handler))

    def _handler(self, name: str, synchronous: bool) -> Any:
        def record(event: Any, ctx: Any) -> Any:
            self.events.append((name, event, ctx))
            return RunDecision() if name == "before_agent_run" else None

        async def record_async(event: Any, ctx: Any) -> Any:
            return record(event, ctx)

        return record if synchronous else record_async

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.events]

    def of(self, hook: str) -> list[Any]:
        """The events of one hook."""
        return [event for name, event, _ in self.events if name == hook]

    def contexts_of(self, hook: str) -> list[Any]:
        return [ctx for name, _, ctx in self.events if name == hook]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def handlers():
    """Makes (id, plugin) pairs out of functions, each named after the hook that it implements."""

    def make(plugin_id: str = "tester", **functions: Any) -> tuple[str, Any]:
        marked = {
            name: function if hasattr(function, "hermitcrab_impl") else hookimpl(function)
            for name, function in functions.items()
        }
        return plugin_id, SimpleNamespace(**marked)

    return make
