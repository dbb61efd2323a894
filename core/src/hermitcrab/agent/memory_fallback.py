"""The memory that goes on answering while the selected backend cannot: keywords over the same files (memory 2.3)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from attrs import evolve

from hermitcrab.errors import MemoryBackendError, ToolError
from hermitcrab.memory.contract import (
    Explanation,
    MemoryBackend,
    MemoryStatus,
    ProbeResult,
    Progress,
    ReadResult,
    SearchResult,
    SyncReport,
)
from hermitcrab.memory.longterm.contract import LongTermStore
from hermitcrab.memory.tools import prompt_section

logger = logging.getLogger("hermitcrab.agent")

T = TypeVar("T")

#: How long a backend that failed is left alone before it is asked again, in seconds.
COOLDOWN_S = 60.0

#: How long a search or a read may take before the one in its place is asked, in seconds: less than the tools wait.
PATIENCE_S = 13.0

MakeBackend = Callable[[], Awaitable[MemoryBackend]]


class FallbackMemory(MemoryBackend):
    """The selected backend, and while it fails, another one.

    ``problem`` says why the selected one does not answer, ``None`` while it does. After a cooldown it is asked again,
    or made again if it could not be made, so that it comes back without a restart (#36685, #90336).

    :param name: the id of the selected backend.
    :param make: makes the selected backend.
    :param make_spare: makes the one that takes its place, when that is needed.
    :param monotonic: seconds of a clock that never goes back.
    :param patience_s: how long it may take to search or to read, in seconds.
    """

    def __init__(
        self,
        name: str,
        make: MakeBackend,
        make_spare: MakeBackend,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.problem: str | None = None
        self._name = name
        self._make = make
        self._make_spare = make_spare
        self._monotonic = monotonic
        self._patience_s = patience_s
        self._selected: MemoryBackend | None = None
        self._spare: MemoryBackend | None = None
        self._retry_at = 0.0
        self._making = asyncio.Lock()
        self._is_closed = False

    def __getattr__(self, name: str) -> Any:
        """What the selected backend offers beside the contract is reached as if it stood alone."""
        if name == "_selected":  # not set yet, such as in a copy that is being made
            raise AttributeError(name)
        return getattr(self._selected, name)

    @property
    def long_term(self) -> LongTermStore | None:  # type: ignore[override]
        """The store of single memories that the selected backend keeps, if it does."""
        return None if self._selected is None else self._selected.long_term

    async def start(self) -> None:
        """Make the selected backend; that it cannot be made is remembered, and no error."""
        try:
            await self._working()
        except Exception as error:  # noqa: BLE001 - logged with its cause
            self._note(error)

    async def search(
        self,
        query: str,
        *,
        max_results: int = 6,
        min_score: float | None = None,
        sources: Sequence[str] | None = None,
        session_key: str | None = None,
    ) -> SearchResult:
        """What the selected backend finds, else what keywords find, ``degraded`` and with the reason."""

        async def ask(backend: MemoryBackend) -> SearchResult:
            return await backend.search(
                query,
                max_results=max_results,
                min_score=min_score,
                sources=sources,
                session_key=session_key,
            )

        result, problem = await self._answer(ask, self._patience_s)
        if problem is None:
            return result
        reason = problem if result.reason is None else f"{problem}. {result.reason}"
        return evolve(result, degraded=True, reason=reason)

    async def read(self, path: str, *, start: int = 1, lines: int | None = None) -> ReadResult:
        """Lines of a memory file, from whichever backend works."""
        result, _ = await self._answer(
            lambda each: each.read(path, start=start, lines=lines), self._patience_s
        )
        return result

    async def sync(
        self, reason: str, *, force: bool = False, progress: Progress | None = None
    ) -> SyncReport:
        """Bring the index of the one that works up to date; the report has the problem of the selected one."""
        report, problem = await self._answer(
            lambda each: each.sync(reason, force=force, progress=progress)
        )
        return report if problem is None else evolve(report, problem=problem)

    async def explain(self, query: str, *, max_results: int = 6) -> tuple[Explanation, ...]:
        """Why hits rank as they do. Not every backend says it, so a refusal is no reason to fall back."""
        backend = self._selected if self.problem is None else await self._spare_backend()
        if backend is None:
            raise self._missing()
        return await backend.explain(query, max_results=max_results)

    async def status(self) -> MemoryStatus:
        """The state of the one that answers; ``details`` has ``fallback`` while that is not the selected one."""
        if self.problem is None and self._selected is not None:
            return await self._selected.status()
        problem = self.problem or f"memory backend '{self._name}' was not made"
        try:
            status = await (await self._spare_backend()).status()
        except Exception as error:
            logger.warning("the fallback of memory has no status", exc_info=True)
            problem = f"{problem}. The fallback does not work either: {error}"
            return MemoryStatus(backend=self._name, keyword_search=False, last_error=problem)
        details = dict(status.details) | {"fallback": {"from": self._name, "reason": problem}}
        return evolve(
            status,
            last_error=status.last_error or problem,
            notes=(*status.notes, f"'{self._name}' is replaced by '{status.backend}': {problem}"),
            details=details,
        )

    async def probe(self) -> ProbeResult:
        """Whether the selected backend can work right now."""
        if self._selected is None:
            return ProbeResult(ok=False, error=self.problem)
        return await self._selected.probe()

    async def store(self, text: str, *, category: str = "other", importance: float = 0.7) -> str:
        """As the selected backend does; the one in its place keeps no single memories."""
        return await self._existing().store(text, category=category, importance=importance)

    async def forget(self, memory_id: str) -> bool:
        """As the selected backend does."""
        return await self._existing().forget(memory_id)

    def prompt_section(self, tools: Sequence[str]) -> str | None:
        """As the selected backend does, or the one in its place."""
        backend = self._selected or self._spare
        return prompt_section(tools) if backend is None else backend.prompt_section(tools)

    async def close(self) -> None:
        """Close whatever was made; may be called more than once."""
        async with self._making:
            self._is_closed = True
        try:
            if self._selected is not None:
                await self._selected.close()
        finally:
            if self._spare is not None:
                await self._spare.close()

    async def _answer(
        self, ask: Callable[[MemoryBackend], Awaitable[T]], patience_s: float | None = None
    ) -> tuple[T, str | None]:
        """What the selected backend says, else the spare one, and then why it was not the selected one.

        :param patience_s: how long the selected one may take, in seconds; it has all the time without.
        """
        self._check_open()
        if self.problem is None or self._monotonic() >= self._retry_at:
            try:
                async with asyncio.timeout(patience_s):
                    answer = await ask(await self._working())
            except ToolError:  # the caller asked for what it may not have: no backend would answer
                raise
            except Exception as error:  # noqa: BLE001 - logged with its cause
                self._note(error)
            else:
                self._recover()
                return answer, None
        problem = self.problem
        try:
            return await ask(await self._spare_backend()), problem
        except ToolError:
            raise
        except Exception as error:
            raise MemoryBackendError(
                f"{problem}; and the keyword index in its place failed: {error}",
                where=self._name,
                hint="See `hermitcrab memory status`",
            ) from error

    async def _working(self) -> MemoryBackend:
        async with self._making:
            self._check_open()
            if self._selected is None:
                self._selected = await self._make()
            return self._selected

    async def _spare_backend(self) -> MemoryBackend:
        async with self._making:
            self._check_open()
            if self._spare is None:
                self._spare = await self._make_spare()
            return self._spare

    def _check_open(self) -> None:
        if self._is_closed:
            raise MemoryBackendError("the memory is closed", where=self._name)

    def _existing(self) -> MemoryBackend:
        if self._selected is None:
            raise self._missing()
        return self._selected

    def _missing(self) -> MemoryBackendError:
        return MemoryBackendError(
            self.problem or "the backend was not made",
            where=self._name,
            hint="See `hermitcrab memory status`",
        )

    def _note(self, error: Exception) -> None:
        verb = "failed to start" if self._selected is None else "failed"
        if isinstance(error, TimeoutError) and not str(error):
            self.problem = f"memory backend '{self._name}' did not answer in {self._patience_s:g} s"
        else:
            self.problem = f"memory backend '{self._name}' {verb}: {error}"
        self._retry_at = self._monotonic() + COOLDOWN_S
        logger.warning("%s", self.problem, exc_info=error, extra={"plugin_id": self._name})

    def _recover(self) -> None:
        if self.problem is not None:
            logger.info("memory backend '%s' works again", self._name)
        self.problem = None
