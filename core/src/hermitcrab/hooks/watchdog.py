"""Naming plain handlers that block the host. They cannot be cut, but somebody should know which one it is."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from attrs import define

from hermitcrab.hooks.reporter import logger

#: How often the running handlers are looked at, in seconds; more often where a handler may take less than that.
_PERIOD_S = 0.25
#: How long the thread stays without a call, in seconds: starting one costs more than most handlers.
_IDLE_S = 5.0


class Named(Protocol):
    """A handler, as far as it is named in the log."""

    @property
    def label(self) -> str: ...
    @property
    def overrun_s(self) -> float | None: ...


@define(eq=False)
class Watch:
    """What one thread is calling: ``handler`` since ``started`` (``time.perf_counter``), ``None`` between calls.

    ``outer`` is that of the handler that has fired this hook, where one has.
    """

    outer: Watch | None = None
    handler: Named | None = None
    started: float = 0.0
    named: float = -1.0


class Watchdog:
    """Says in the log that a handler is still running after its time.

    One thread looks after all calls. It begins with the first call and ends when there has been none for a while, so
    that neither a call nor an idle process pays for it.

    :param limit_s: how long a handler may take that has no limit of its own, in seconds.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._watches: dict[int, Watch] = {}
        self._lock = threading.Lock()
        self._awake = False
        self._calls = 0
        self._period_s = max(0.01, min(_PERIOD_S, limit_s / 2))

    def limit_of(self, handler: Named) -> float:
        """How long a handler may block the host, in seconds."""
        return self._limit_s if handler.overrun_s is None else handler.overrun_s

    def watch(self) -> Watch:
        """What the calling thread writes down its calls in."""
        thread = threading.get_ident()
        watch = self._watches.get(thread)
        while watch is not None and watch.outer is not None and watch.outer.handler is None:
            watch = watch.outer
        if watch is None or watch.handler is not None:
            watch = Watch(outer=watch)
        self._watches[thread] = watch
        self._calls += 1
        if not self._awake:
            self._wake()
        return watch

    def _wake(self) -> None:
        with self._lock:
            if self._awake:
                return
            self._awake = True
            threading.Thread(target=self._look, name="hermitcrab-watchdog", daemon=True).start()

    def _look(self) -> None:
        seen, quiet = self._calls, 0.0
        while True:
            period_s = self._period_s
            time.sleep(period_s)
            running = [self._name_if_late(each) for each in list(self._watches.values())]
            is_busy = seen != self._calls or any(running)
            quiet = 0.0 if is_busy else quiet + period_s
            if quiet >= _IDLE_S and self._may_end(seen):
                return
            seen = self._calls

    def _may_end(self, seen: int) -> bool:
        """Whether the thread may end: a call that comes now finds it asleep, or is seen here."""
        self._awake = False
        if self._calls == seen:
            self._watches.clear()
            return True
        with self._lock:
            if self._awake:  # that call has woken another one
                return True
            self._awake = True
        return False

    def _name_if_late(self, watch: Watch | None) -> bool:
        """Whether the thread of ``watch`` is in a handler; each one that is late is named once."""
        is_running = False
        while watch is not None:
            handler, started = watch.handler, watch.started
            if handler is not None:
                is_running = True
                limit_s = self.limit_of(handler)
                if watch.named != started and time.perf_counter() - started > limit_s:
                    watch.named = started
                    logger.warning("%s still blocks the host after %g s", handler.label, limit_s)
            watch = watch.outer
        return is_running
