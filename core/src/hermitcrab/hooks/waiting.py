"""Waiting for a handler no longer than it may take, whatever it does."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from hermitcrab.errors import HookError
from hermitcrab.hooks.reporter import logger

#: How long a cancelled handler may tidy up before it is left behind, in seconds.
TIDY_UP_S = 1.0


class Strays:
    """Tasks that run on beside the host, each with the name to call it by in the log."""

    def __init__(self) -> None:
        self._names: dict[asyncio.Task[Any], str] = {}

    def keep(self, task: asyncio.Task[Any], name: str) -> None:
        """Hold on to ``task`` until it is done."""
        self._names[task] = name
        task.add_done_callback(self._forget)

    def of_this_loop(self) -> dict[asyncio.Task[Any], str]:
        """The tasks that are still running in the current event loop."""
        loop = asyncio.get_running_loop()
        return {task: name for task, name in self._names.items() if task.get_loop() is loop}

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._names.pop(task, None)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not complain about it later


async def within(
    awaitable: Awaitable[Any], seconds: float | None, *, name: str, strays: Strays
) -> Any:
    """What ``awaitable`` yields, if it does so within ``seconds``; otherwise it is cancelled.

    A handler that ignores its cancelling is left behind in ``strays``. Cancelling the caller cancels the handler.

    :raises TimeoutError: at the end of the time.
    :raises HookError: if the handler cancelled itself or tried to end the process.
    """
    task = asyncio.ensure_future(_without_exit(awaitable))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _cancel(task, name, strays)
        raise
    if not done:
        await _cancel(task, name, strays)
        raise TimeoutError(f"no answer within {seconds:g} s")
    if task.cancelled():
        raise HookError("the handler was cancelled from inside")
    return task.result()


async def _without_exit(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except SystemExit as error:
        raise HookError(f"the handler tried to end the process: {error!r}") from error


async def _cancel(task: asyncio.Task[Any], name: str, strays: Strays) -> None:
    task.cancel()
    strays.keep(task, name)
    await asyncio.wait({task}, timeout=TIDY_UP_S)
    if not task.done():
        logger.warning("%s was cancelled and goes on all the same", name)


async def in_thread(function: Callable[[], Any]) -> Any:
    """What ``function`` returns, from a thread of its own.

    The thread is a daemon: one that hangs keeps neither the event loop nor the process from closing.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(value: Any, error: BaseException | None) -> None:
        if future.done():  # given up in the meantime
            if inspect.iscoroutine(value):
                value.close()
        elif error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(function)
        except (Exception, SystemExit) as raised:  # noqa: BLE001 - it is raised where it is awaited
            error = HookError(f"the handler raised {raised!r}") if _unsendable(raised) else raised
        with suppress(RuntimeError):  # the loop has closed: nobody is waiting any more
            loop.call_soon_threadsafe(deliver, value, error)

    threading.Thread(target=work, name="hermitcrab-hook", daemon=True).start()
    return await future


def _unsendable(error: BaseException) -> bool:
    # A future refuses the first, and the loop ends on the second.
    return isinstance(error, StopIteration | SystemExit)
