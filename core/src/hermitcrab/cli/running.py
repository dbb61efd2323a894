"""Running commands: coroutines, Ctrl-C, and the log on stderr."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

T = TypeVar("T")

#: What these loggers say of plugins and engines, the commands say themselves.
_REPORTED_ELSEWHERE = frozenset({"hermitcrab.plugins", "hermitcrab.context"})


class Interrupted(Exception):  # noqa: N818 - no error, a wish of the user
    """The user pressed Ctrl-C."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; Ctrl-C cancels it and is raised as ``KeyboardInterrupt``."""
    import asyncio

    return asyncio.run(work)


async def interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work``; Ctrl-C cancels it alone.

    :raises Interrupted: if the user pressed Ctrl-C; what ``work`` does when cancelled is done by then.
    """
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    pressed = False

    def on_signal(number: int, frame: object) -> None:
        nonlocal pressed
        pressed = True
        loop.call_soon_threadsafe(task.cancel)

    previous = signal.signal(signal.SIGINT, on_signal)
    try:
        return await task
    except asyncio.CancelledError:
        if pressed:
            raise Interrupted from None
        raise
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def logging_to_stderr(*, debug: bool) -> Iterator[None]:
    """Show warnings of the log as single lines on stderr; with ``debug`` everything, tracebacks included."""
    root = logging.getLogger()
    handler = _StderrHandler(debug=debug)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


class _StderrHandler(logging.Handler):
    def __init__(self, *, debug: bool) -> None:
        super().__init__(logging.DEBUG if debug else logging.WARNING)
        self._debug = debug

    def emit(self, record: logging.LogRecord) -> None:
        if record.name in _REPORTED_ELSEWHERE and not self._debug:
            return
        try:
            click.echo(self._text(record), err=True)
        except Exception:  # noqa: BLE001 - logging must not fail what logs
            self.handleError(record)

    def _text(self, record: logging.LogRecord) -> str:
        from hermitcrab.cli.output import printable

        if self._debug:
            return self.format(record)
        text = " ".join(printable(record.getMessage()).split())
        return f"{click.style(f'{record.levelname.lower()}:', fg='yellow')} {text}"
