"""The handlers of one plugin, and how they did in all processes on this home."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from hermitcrab.cli.inspection import LoadedPlugins
    from hermitcrab.plugins.health import HookHealth


@frozen(kw_only=True)
class HookRow:
    """One handler; ``timeout_ms`` is in milliseconds, ``None`` where nothing limits it."""

    hook: str
    priority: float
    timeout_ms: int | None
    health: HookHealth | None

    def as_json(self) -> dict[str, Any]:
        """The handler as JSON data; times in milliseconds, moments in milliseconds since the epoch."""
        health = self.health
        return {
            "hook": self.hook,
            "priority": self.priority,
            "timeoutMs": self.timeout_ms,
            "calls": 0 if health is None else health.calls,
            "failures": 0 if health is None else health.failures,
            "totalMs": 0.0 if health is None else round(health.seconds * 1000, 3),
            "slowestMs": 0.0 if health is None else round(health.slowest_seconds * 1000, 3),
            "lastCallAt": None if health is None else health.called_at,
            "lastError": None if health is None else health.last_error,
            "lastErrorAt": None if health is None else health.last_at,
        }

    def cells(self) -> tuple[str, ...]:
        """The handler as a row of a table."""
        from hermitcrab.cli.output import show_time

        health = self.health
        timeout = "-" if self.timeout_ms is None else f"{self.timeout_ms / 1000:g} s"
        if health is None:
            return (self.hook, f"{self.priority:g}", timeout, "0", "-", "-", "-", "-")
        return (
            self.hook,
            f"{self.priority:g}",
            timeout,
            str(health.calls),
            f"{health.seconds * 1000:.1f} ms",
            f"{health.slowest_seconds * 1000:.1f} ms",
            "-" if health.called_at is None else show_time(health.called_at),
            health.last_error or "-",
        )


def hook_rows(loaded: LoadedPlugins, plugin_id: str) -> list[HookRow]:
    """The handlers that run, in the order of the table of hooks."""
    from hermitcrab.hooks.policy import timeout_ms
    from hermitcrab.hooks.specifications import HOOKS
    from hermitcrab.plugins.health import read_health

    report = read_health(loaded.home / "health.sqlite")
    health = {each.hook: each for each in report.hooks if each.plugin_id == plugin_id}
    handlers = loaded.plugins.implementations.of_plugin(plugin_id)
    rows = [
        HookRow(
            hook=each.hook,
            priority=each.priority,
            timeout_ms=timeout_ms(HOOKS[each.hook], each.policy, each.timeout_ms),
            health=health.get(each.hook),
        )
        for each in handlers
    ]
    order = list(HOOKS)
    return sorted(rows, key=lambda row: order.index(row.hook))
