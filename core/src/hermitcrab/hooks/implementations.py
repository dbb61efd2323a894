"""The live list of hook implementations that the dispatcher reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import field, frozen

from hermitcrab.hooks.policy import HookPolicy
from hermitcrab.hooks.specifications import HANDLER_ARGUMENTS


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
