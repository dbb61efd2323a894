"""Keeping a turn alive when an engine fails: it is set aside and the default engine answers (context 2.4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from hermitcrab.context.causes import causes
from hermitcrab.context.compatibility import CompatibleEngine
from hermitcrab.context.contract import (
    DEFAULT_ENGINE_ID,
    REQUIRED_METHODS,
    ContextEngineInfo,
    has_method,
)
from hermitcrab.context.delegation import is_host_failure
from hermitcrab.context.proxy import EngineProxy
from hermitcrab.context.registry import HostEngineRegistry, QuarantineRecord, Registration
from hermitcrab.context.results import neutral_result

logger = logging.getLogger("hermitcrab.context")

#: Their failure has to be seen by the caller; the default engine's answer would hide it.
_RAISING = frozenset({"compact", "prepare_subagent_spawn"})
_DOWNGRADED = "context engine downgraded to legacy"
_UNRESOLVED_DEFAULT = ContextEngineInfo(id=DEFAULT_ENGINE_ID, name="Pass-through context engine")


class GuardedEngine(EngineProxy):
    """A non-default engine whose first failure sets it aside, for every session of the host.

    An instance that was set aside once stays so, even when its id is registered anew: the next resolution makes a new
    instance. While it is set aside, ``info`` and the methods are those of the default engine.
    """

    def __init__(
        self,
        engine: CompatibleEngine,
        *,
        registry: HostEngineRegistry,
        registration: Registration,
        make_default: Callable[[], Awaitable[CompatibleEngine]],
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._registration = registration
        self._make_default = make_default
        self._default: CompatibleEngine | None = None
        self._default_lock = asyncio.Lock()
        self._record: QuarantineRecord | None = None

    @property
    def info(self) -> ContextEngineInfo:
        """The info of the engine that answers now."""
        if self.quarantine is None:
            return self._engine.info
        return _UNRESOLVED_DEFAULT if self._default is None else self._default.info

    @property
    def quarantine(self) -> QuarantineRecord | None:
        """Why the engine is set aside, or None while it answers."""
        if self._record is None:
            self._record = self._registry.quarantine_of(self._engine.engine_id)
        return self._record

    def offers_method(self, name: str) -> bool:
        if self.quarantine is None:
            return self._engine.offers_method(name)
        return (
            name in REQUIRED_METHODS if self._default is None else has_method(self._default, name)
        )

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        if self.quarantine is not None:
            return await self._ask_default(method, params)
        try:
            return await self._engine.call(method, _own_list(params))
        except Exception as error:
            if _is_cancellation(error):
                raise
            if not is_host_failure(error):
                self._set_aside(method, error)
            if method in _RAISING:
                raise
            return await self._answer_instead(method, params, error)

    async def dispose(self) -> None:
        """Dispose both the engine and the default one, where that one was needed; not guarded."""
        try:
            await self._engine.dispose()
        finally:
            if self._default is not None:
                await self._default.dispose()

    def _set_aside(self, method: str, error: Exception) -> None:
        logger.warning(
            "context engine '%s' failed in %s", self._engine.engine_id, method, exc_info=True
        )
        self._record = self._registry.quarantine(
            self._engine.engine_id,
            method,
            str(error) or type(error).__name__,
            registration=self._registration,
        )

    async def _answer_instead(self, method: str, params: dict[str, Any], error: Exception) -> Any:
        try:
            return await self._ask_default(method, params)
        except Exception as second:
            error.add_note(f"the default engine failed too: {type(second).__name__}: {second}")
            logger.exception("the default context engine failed in %s", method)
        raise error

    async def _ask_default(self, method: str, params: dict[str, Any]) -> Any:
        async with self._default_lock:
            if self._default is None:
                self._default = await self._make_default()
        if not self._default.offers_method(method):
            return neutral_result(method, _DOWNGRADED)
        return await self._default.call(method, params)


def _own_list(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with a list of messages of the engine's own: what it does to it must not reach the default."""
    messages = params.get("messages")
    return {**params, "messages": list(messages)} if isinstance(messages, list) else params


def _is_cancellation(error: BaseException) -> bool:
    """Whether the task is being cancelled and ``error`` is what an engine made of it."""
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        return False
    return any(isinstance(cause, asyncio.CancelledError) for cause in causes(error))
