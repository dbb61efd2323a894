"""What plugins are told of model calls."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from hermitcrab.agent.session import SessionContext
from hermitcrab.hooks import ModelCallEnded, ModelCallStarted


class CallReport:
    """Tells plugins that a model call begins and ends; never its content."""

    def __init__(self, session: SessionContext, run_id: str, window: int) -> None:
        self._session = session
        self._started = time.monotonic()
        provider, _, model = session.model.id.partition("/")
        self._fields: dict[str, Any] = {
            "run_id": run_id,
            "call_id": uuid.uuid4().hex,
            "session_key": session.log.key,
            "session_id": session.log.session_id,
            "provider": provider,
            "model": model,
            "context_token_budget": window,
        }
        self._open = True
        session.fire_background(ModelCallStarted(**self._fields))

    def ended(self, error: BaseException | None = None) -> None:
        if not self._open:
            return
        self._open = False
        aborted = isinstance(error, asyncio.CancelledError)
        self._session.fire_background(
            ModelCallEnded(
                **self._fields,
                outcome="completed" if error is None else "error",
                duration_ms=round((time.monotonic() - self._started) * 1000),
                error_category=None if error is None else type(error).__name__,
                failure_kind="aborted" if aborted else None,
            )
        )
