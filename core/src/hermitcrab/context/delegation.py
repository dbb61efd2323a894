"""How an engine hands a compaction to the host's own runtime (context 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from hermitcrab.config.names import camel_case
from hermitcrab.context.causes import causes
from hermitcrab.context.results import CompactResult, convert_result
from hermitcrab.errors import ContextEngineError

_HOST_FAILURE = "raised by the host's own compaction"


class CompactionRuntime(Protocol):
    """The host's compaction of one session. It is called while the caller holds the session, so it must not queue."""

    async def compact(
        self,
        *,
        session_id: str | None,
        session_key: str | None,
        session_file: str | None,
        token_budget: int | None,
        force: bool,
        current_token_count: int | None,
        custom_instructions: str | None,
        runtime_context: Mapping[str, Any],
    ) -> CompactResult:
        """Compact the session that this runtime belongs to."""


#: The runtime of the session whose engine is being called; the host sets it around engine calls.
compaction_runtime: ContextVar[CompactionRuntime | None] = ContextVar(
    "hermitcrab_compaction_runtime", default=None
)


@contextmanager
def using_compaction_runtime(runtime: CompactionRuntime | None) -> Iterator[None]:
    """Make ``runtime`` the one that :func:`delegate_compaction` finds, for the calls inside."""
    token = compaction_runtime.set(runtime)
    try:
        yield
    finally:
        compaction_runtime.reset(token)


async def delegate_compaction(**params: Any) -> CompactResult:
    """Have the host compact the session, for an engine that does not own compaction.

    Pass on what ``compact`` was called with; ``compaction_target`` and unknown parameters are ignored.

    :raises ContextEngineError: called outside a call of the host. What the runtime raises goes through.
    """
    runtime = compaction_runtime.get()
    if runtime is None:
        raise ContextEngineError(
            "delegate_compaction was called outside an engine call of the host",
            hint="Call it from compact() of a context engine, in the same task or in one that compact() started",
        )
    try:
        result = await runtime.compact(**runtime_parameters(params))
    except Exception as error:
        error.add_note(_HOST_FAILURE)
        raise
    delegated: CompactResult = convert_result("compact", result, engine_id="compaction runtime")
    return delegated


def is_host_failure(error: BaseException) -> bool:
    """Whether an engine failed because the host's own compaction did, which is no fault of the engine."""
    return any(_HOST_FAILURE in getattr(cause, "__notes__", ()) for cause in causes(error))


def runtime_parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    """What the runtime is called with: explicit parameters win over the runtime context (context 3)."""
    given = params.get("runtime_context")
    context: Mapping[str, Any] = given if isinstance(given, Mapping) else {}

    def pick(name: str) -> Any:
        for value in (params.get(name), context.get(name), context.get(camel_case(name))):
            if value is not None:
                return value
        return None

    return {
        "session_id": pick("session_id"),
        "session_key": pick("session_key"),
        "session_file": pick("session_file"),
        "token_budget": pick("token_budget"),
        "force": bool(pick("force")),
        "current_token_count": _token_count(pick("current_token_count")),
        "custom_instructions": pick("custom_instructions"),
        "runtime_context": context,
    }


def _token_count(value: object) -> int | None:
    """A finite positive number, floored; anything else is unknown."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return math.floor(value) if math.isfinite(value) and value >= 1 else None
