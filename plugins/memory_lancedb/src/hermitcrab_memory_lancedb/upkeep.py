"""Upkeep of tables in the background: small pieces are joined, indexes brought up to date, old versions dropped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import timedelta
from logging import Logger
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lancedb import AsyncTable

#: A table is tidied each time that its version passes a multiple of this; every write makes a version.
VERSIONS_BETWEEN = 50
#: And when one process has written so many rows: those that no index has yet are searched one by one.
ROWS_BETWEEN = 500
#: Versions stay this long, because another process may still be reading one.
KEPT = timedelta(minutes=10)

_PATIENCE_S = 10.0
_ATTEMPTS = 4
_PAUSE_S = 0.25


class Upkeep:
    """Tidies tables when they need it. Nobody waits for it but :meth:`close`."""

    def __init__(
        self, logger: Logger, *, versions_between: int = VERSIONS_BETWEEN, kept: timedelta = KEPT
    ) -> None:
        self._logger = logger
        self._versions_between = versions_between
        self._kept = kept
        self._seen: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        self._due: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._runs = 0
        self._last_s: float | None = None
        self._last_error: str | None = None

    def written(self, name: str, table: AsyncTable, version: int) -> None:
        """One row was written, which made ``version``: tidy if it is time."""
        self.counted(name, version, 1)
        if self._is_due(name):
            self._start(name, table)

    def counted(self, name: str, version: int, rows: int) -> None:
        """One of many writes: tidying at the same time would only get in their way.

        All processes count versions alike, so that one of them tidies. The first write of a process counts as if
        nothing was known of the versions before it.
        """
        before = self._seen.get(name, version - 1)
        self._seen[name] = version
        self._rows[name] = self._rows.get(name, 0) + rows
        if version // self._versions_between > before // self._versions_between:
            self._due.add(name)

    async def between(self, name: str, table: AsyncTable) -> None:
        """Between two of many writes: tidy and wait for it, if so much was written that searches suffer."""
        # Tidying a large table takes long, so it may have more that is not.
        if self._rows.get(name, 0) >= max(4 * ROWS_BETWEEN, self._sizes.get(name, 0) // 4):
            await asyncio.wait([self._start(name, table)])

    def finished(self, name: str, table: AsyncTable) -> None:
        """Many writes are over: tidy if it is time."""
        if self._is_due(name):
            self._start(name, table)

    def _is_due(self, name: str) -> bool:
        return name in self._due or self._rows.get(name, 0) >= ROWS_BETWEEN

    def _start(self, name: str, table: AsyncTable) -> asyncio.Task[None]:
        running = self._running.get(name)
        if running is None or running.done():
            self._rows[name] = 0
            self._due.discard(name)
            running = asyncio.get_running_loop().create_task(self._tidy(name, table))
            self._running[name] = running
        return running

    def report(self) -> Mapping[str, Any]:
        """For the status: how often tables were tidied by this process, how long it took, and what failed last."""
        report: dict[str, Any] = {
            "runs": self._runs,
            "running": any(not task.done() for task in self._running.values()),
        }
        if self._last_s is not None:
            report["lastSeconds"] = round(self._last_s, 3)
        if self._last_error is not None:
            report["lastError"] = self._last_error
        return report

    async def settled(self) -> None:
        """Wait for what is running."""
        if self._running:
            await asyncio.wait(self._running.values())

    async def close(self) -> None:
        """Wait a while for what is running, then give it up: the next process tidies."""
        if self._running:
            _, late = await asyncio.wait(self._running.values(), timeout=_PATIENCE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _tidy(self, name: str, table: AsyncTable) -> None:
        """Tidy; a write at the same moment, here or in another process, comes first, so it may take attempts."""
        for attempt in range(_ATTEMPTS):
            started = time.monotonic()
            try:
                await table.optimize(cleanup_older_than=self._kept)
                self._sizes[name] = await table.count_rows()
            except Exception as error:  # noqa: BLE001 - said in the log and the status
                self._last_error = f"{name}: {error}".splitlines()[0]
                self._logger.info("the table %s could not be tidied: %s", name, error)
                await asyncio.sleep(_PAUSE_S * 2**attempt)
            else:
                self._runs += 1
                self._last_s = time.monotonic() - started
                self._last_error = None
                return
        self._due.add(name)
