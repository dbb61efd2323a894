"""The live list of hook implementations that the dispatcher reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
from attrs import define, field, frozen

from hermitcrab.hooks.context import HookContext
from hermitcrab.hooks.policy import HookPolicy, chosen_timeout_ms
from hermitcrab.hooks.specifications import HANDLER_ARGUMENTS


@define(eq=False)
class HandlerTimes:
    """What the calls of one handler took since that was last reported, in seconds."""

    calls: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    reported_at: float = float("-inf")


@frozen(kw_only=True, eq=False)
class HookImplementation:
    """One handler of one plugin.

    :param order: the position of its registration; decides between equal priorities.
    :param timeout_ms: the handler's own wish, in milliseconds.
    :param argnames: which of ``event`` and ``ctx`` it takes.
    """

    plugin_id: str
    hook: str
    function: Callable[..., Any]
    priority: float = 0
    order: int = 0
    blocking: bool = False
    timeout_ms: int | None = None
    argnames: tuple[str, ...] = HANDLER_ARGUMENTS
    plugin_config: Any = field(factory=dict)
    policy: HookPolicy = field(factory=HookPolicy)
    times: HandlerTimes = field(factory=HandlerTimes, init=False, repr=False)
    is_coroutine_function: bool = field(init=False, repr=False)
    is_inline: bool = field(init=False, repr=False)
    call: Callable[[Any, HookContext], Any] = field(init=False, repr=False)
    overrun_s: float | None = field(init=False, repr=False)

    @is_coroutine_function.default
    def _find_out(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @overrun_s.default
    def _own_limit(self) -> float | None:
        """How long it may block the host where config or the handler itself says so, in seconds."""
        chosen = chosen_timeout_ms(self.hook, self.policy, self.timeout_ms)
        return None if chosen is None else chosen / 1000

    @property
    def label(self) -> str:
        """How the log calls the handler."""
        return f"{self.hook} handler of plugin {self.plugin_id}"

    @is_inline.default
    def _runs_here(self) -> bool:
        """Whether it runs in the host's own thread, uninterrupted."""
        return not (self.blocking or self.is_coroutine_function)

    @call.default
    def _make_call(self) -> Callable[[Any, HookContext], Any]:
        """Calls the function with what it takes of an event and a context, by name; its ctx names the plugin."""
        function, plugin_id, plugin_config = self.function, self.plugin_id, self.plugin_config
        if "ctx" not in self.argnames:
            takes_event = "event" in self.argnames
            return lambda event, ctx: function(event=event) if takes_event else function()
        with_event = "event" in self.argnames
        last: tuple[HookContext | None, HookContext | None] = (None, None)

        def call(event: Any, ctx: HookContext) -> Any:
            nonlocal last  # a session keeps its context, so that of the last call is mostly that of the next
            of, own = last
            if of is not ctx:
                own = attrs.evolve(ctx, plugin_id=plugin_id, plugin_config=plugin_config)
                last = (ctx, own)
            return function(event=event, ctx=own) if with_event else function(ctx=own)

        return call


class HookImplementations:
    """All implementations, by hook, in the order in which they run.

    Each change replaces the tuples, so that a call under way keeps the handlers it began with.
    """

    def __init__(self, implementations: Iterable[HookImplementation] = ()) -> None:
        self._by_hook: dict[str, tuple[HookImplementation, ...]] = {}
        self.add(implementations)

    def of(self, hook: str) -> Sequence[HookImplementation]:
        """The handlers of ``hook``: priority descending, then registration order."""
        return self._by_hook.get(hook, ())

    def of_plugin(self, plugin_id: str) -> Sequence[HookImplementation]:
        """Every handler of one plugin."""
        everything = [each for handlers in self._by_hook.values() for each in handlers]
        return [each for each in everything if each.plugin_id == plugin_id]

    def add(self, implementations: Iterable[HookImplementation]) -> None:
        """Make ``implementations`` count from the next call on."""
        for implementation in implementations:
            handlers = (*self.of(implementation.hook), implementation)
            self._by_hook[implementation.hook] = tuple(sorted(handlers, key=_running_order))

    def remove(self, plugin_id: str) -> None:
        """Forget every handler of a plugin."""
        for hook, handlers in self._by_hook.items():
            self._by_hook[hook] = tuple(each for each in handlers if each.plugin_id != plugin_id)


def _running_order(implementation: HookImplementation) -> tuple[float, int]:
    return (-implementation.priority, implementation.order)
