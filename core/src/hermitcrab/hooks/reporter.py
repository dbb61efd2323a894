"""Who is told how handlers did."""

from __future__ import annotations

import logging
from typing import Protocol

from hermitcrab.hooks.context import HookContext
from hermitcrab.hooks.implementations import HookImplementation

logger = logging.getLogger("hermitcrab.hooks")


class HookReporter(Protocol):
    """Keeps failures and timings; its methods must be quick and must not raise.

    ``hook_timed`` adds to what was told before: how many more calls there were, the seconds that they took together,
    and the slowest of them.
    """

    def hook_failed(
        self, plugin_id: str, hook: str, error: BaseException, seconds: float
    ) -> None: ...

    def hook_timed(
        self, plugin_id: str, hook: str, calls: int, seconds: float, slowest: float
    ) -> None: ...


class SilentReporter:
    """Keeps nothing; failures still go to the log."""

    def hook_failed(self, plugin_id: str, hook: str, error: BaseException, seconds: float) -> None:
        return None

    def hook_timed(
        self, plugin_id: str, hook: str, calls: int, seconds: float, slowest: float
    ) -> None:
        return None


class LoggingReporter:
    """Writes every failure to the log and passes all on to ``reporter``, whose own failures harm nobody."""

    def __init__(self, reporter: HookReporter) -> None:
        self._reporter = reporter

    def failed(
        self,
        implementation: HookImplementation,
        error: BaseException,
        seconds: float,
        ctx: HookContext,
    ) -> None:
        logger.warning(
            "%s handler of plugin %s failed after %.2f s: %s",
            implementation.hook,
            implementation.plugin_id,
            seconds,
            describe(error),
            exc_info=error if error.__traceback__ else None,
            extra={"plugin_id": implementation.plugin_id, "session_key": ctx.session_key},
        )
        try:
            self._reporter.hook_failed(
                implementation.plugin_id, implementation.hook, error, seconds
            )
        except Exception:
            logger.exception("the hook reporter failed")

    def timed(
        self, implementation: HookImplementation, calls: int, seconds: float, slowest: float
    ) -> None:
        try:
            self._reporter.hook_timed(
                implementation.plugin_id, implementation.hook, calls, seconds, slowest
            )
        except Exception:
            logger.exception("the hook reporter failed")


def describe(error: BaseException) -> str:
    """The error's class and text, in one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
