"""The tools ``memory_search`` and ``memory_get`` over any memory backend (memory 6)."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from attrs import define, field

from hermitcrab.errors import HermitcrabError, PathRefusedError, ToolError
from hermitcrab.memory.contract import Hit, MemoryBackend, ReadResult, SearchResult
from hermitcrab.memory.prompts import (
    MEMORY_GET_DESCRIPTION,
    MEMORY_SEARCH_DESCRIPTION,
    Citations,
    recall_section,
)
from hermitcrab.messages.text import scrub_text
from hermitcrab.models.contract import ToolSchema

#: How long a tool call waits for the backend, in seconds.
DEADLINE_S = 15.0

#: How long a failed backend is left alone, in seconds.
COOLDOWN_S = 60.0

_MOST_RESULTS = 50
_CORPORA: Mapping[str, tuple[str, ...] | None] = {
    "all": None,
    "memory": ("memory",),
    "sessions": ("sessions",),
}
_log = logging.getLogger("hermitcrab.memory")

MEMORY_SEARCH = ToolSchema(
    "memory_search",
    MEMORY_SEARCH_DESCRIPTION,
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "maxResults": {"type": "integer", "minimum": 1, "maximum": _MOST_RESULTS},
            "minScore": {"type": "number", "minimum": 0, "maximum": 1},
            "corpus": {"type": "string", "enum": ["memory", "sessions", "all"]},
        },
        "required": ["query"],
    },
)

MEMORY_GET = ToolSchema(
    "memory_get",
    MEMORY_GET_DESCRIPTION,
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "from": {"type": "integer", "minimum": 1},
            "lines": {"type": "integer", "minimum": 1},
        },
        "required": ["path"],
    },
)


@define
class Cooldown:
    """Remembers that a backend failed, so that calls answer at once for a while; one per agent."""

    seconds: float = COOLDOWN_S
    clock: Callable[[], float] = time.monotonic
    _until: float = field(default=-math.inf, init=False)
    _error: str | None = field(default=None, init=False)

    def start(self, error: str) -> None:
        self._until = self.clock() + self.seconds
        self._error = error

    def error(self) -> str | None:
        """The failure that is still cooling down, if any."""
        return self._error if self.clock() < self._until else None


async def run_memory_search(
    backend: MemoryBackend,
    arguments: Mapping[str, Any],
    *,
    session_key: str | None = None,
    citations: Citations = "auto",
    max_results: int = 6,
    cooldown: Cooldown | None = None,
    deadline_s: float = DEADLINE_S,
) -> str:
    """Run the tool and return its JSON payload (memory 6.2); ``max_results`` is what a call that names none gets.

    A failure is a payload that says ``unavailable``, why, and what to do; only ``CancelledError`` is raised.
    """
    cooling = None if cooldown is None else cooldown.error()
    if cooling is not None:
        return _dump(unavailable_payload(cooling))
    try:
        query = required_text(arguments, "query")
        limit = min(whole_number(arguments, "maxResults") or max_results, _MOST_RESULTS)
        min_score = _score(arguments)
        sources = _sources(arguments)
    except ToolError as error:
        return _dump({"results": [], "error": str(error)})
    try:
        async with asyncio.timeout(deadline_s):
            result = await backend.search(
                query,
                max_results=limit,
                min_score=min_score,
                sources=sources,
                session_key=session_key,
            )
    except Exception as error:  # noqa: BLE001 - the model gets every failure as a payload
        message = _message(error, deadline_s)
        _log.warning("memory_search failed: %s", message, exc_info=error)
        if cooldown is not None:
            cooldown.start(message)
        return _dump(unavailable_payload(message))
    return _dump(_search_payload(result, cites(citations, session_key)))


async def run_memory_get(
    backend: MemoryBackend,
    arguments: Mapping[str, Any],
    *,
    session_key: str | None = None,
    deadline_s: float = DEADLINE_S,
) -> str:
    """Run the tool and return its JSON payload (memory 6.5); only ``CancelledError`` is raised."""
    path = str(arguments.get("path", ""))
    try:
        path = required_text(arguments, "path")
        start = whole_number(arguments, "from") or 1
        lines = whole_number(arguments, "lines")
        async with asyncio.timeout(deadline_s):
            result = await backend.read_for(session_key, path, start=start, lines=lines)
    except (PathRefusedError, ToolError) as error:
        return _dump({"path": path, "text": "", "error": str(error)})
    except Exception as error:  # noqa: BLE001 - the model gets every failure as a payload
        message = _message(error, deadline_s)
        _log.warning("memory_get failed: %s", message, exc_info=error)
        return _dump({"path": path, "text": "", "disabled": True, "error": message})
    return _dump(_read_payload(result))


def prompt_section(tools: Collection[str], citations: Citations = "auto") -> str | None:
    """The section Memory Recall of the system prompt; ``None`` where no memory tool is on offer."""
    return recall_section(tools, citations)


def cites(citations: str, session_key: str | None) -> bool:
    """Whether hits name their source; ``auto`` (and any unknown word) does in direct chats only (memory 4.10)."""
    if citations in ("on", "off"):
        return citations == "on"
    return not {"channel", "group"}.intersection((session_key or "").split(":"))


def citation_of(hit: Hit) -> str:
    """``path#L3`` or ``path#L3-L9``."""
    lines = f"#L{hit.start_line}"
    return hit.path + (lines if hit.end_line == hit.start_line else f"{lines}-L{hit.end_line}")


def _search_payload(result: SearchResult, with_citations: bool) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "results": [_hit_payload(hit, with_citations) for hit in result.hits],
        "mode": result.mode,
        "degraded": result.degraded,
        "reason": result.reason,
    }
    # What the one who asks may not see is not named, but counted (#53550).
    counts = {"filtered": result.filtered, "hiddenSessions": result.hidden_sessions}
    return payload | {name: count for name, count in counts.items() if count}


def _hit_payload(hit: Hit, with_citations: bool) -> dict[str, Any]:
    payload = {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": round(hit.score, 4),
        "snippet": hit.snippet,
        "source": hit.source,
    }
    if with_citations:
        citation = hit.citation or citation_of(hit)
        payload["snippet"] = f"{hit.snippet.strip()}\n\nSource: {citation}"
        payload["citation"] = citation
    return payload


def _read_payload(result: ReadResult) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "path": result.path,
        "text": result.text,
        "from": result.start,
        "lines": result.lines,
    }
    if result.status != "ok":
        payload["status"] = result.status
    if result.truncated:
        payload["truncated"] = True
    if result.next_start is not None:
        payload["nextFrom"] = result.next_start
        payload["text"] += f"\n\n[The file goes on: read from line {result.next_start}.]"
    return payload


def unavailable_payload(error: str) -> dict[str, Any]:
    lowered = error.lower()
    if "quota" in lowered or "429" in lowered:
        warning = "Memory search is unavailable: the embedding provider's quota is used up."
        action = "Top up or change the embedding provider, then search again."
    else:
        warning = "Memory search is unavailable; no results does not mean that nothing is stored."
        action = "Run `hermitcrab memory status` to see what is wrong, then search again."
    return {
        "results": [],
        "disabled": True,
        "unavailable": True,
        "error": error,
        "warning": warning,
        "action": action,
    }


def _message(error: Exception, deadline_s: float) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"memory did not answer within {deadline_s:g} s"
    return str(error) if isinstance(error, HermitcrabError) else f"{type(error).__name__}: {error}"


def required_text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"{name!r} is required and must be a text")
    return scrub_text(value)


def whole_number(arguments: Mapping[str, Any], name: str) -> int | None:
    value = arguments.get(name)
    if value is None:
        return None
    number = finite_number(value, name)
    if number < 1 or number != int(number):
        raise ToolError(f"{name!r} must be a whole number of at least 1")
    return int(number)


def _sources(arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Where to search; an unknown corpus is an error, because it must not widen a search (memory 6.1)."""
    corpus = arguments.get("corpus")
    if corpus is None:
        return None
    if not isinstance(corpus, str) or corpus not in _CORPORA:
        known = ", ".join(sorted(_CORPORA))
        raise ToolError(f"'corpus' must be one of {known}; there is no {corpus!r} here")
    return _CORPORA[corpus]


def _score(arguments: Mapping[str, Any]) -> float | None:
    value = arguments.get("minScore")
    return None if value is None else finite_number(value, "minScore")


def finite_number(value: Any, name: str) -> float:
    """Models send numbers as text at times; anything that is not finite is refused."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ToolError(f"{name!r} must be a number")
    return number


def _dump(payload: Mapping[str, Any]) -> str:
    return json.dumps(payload, ensure_ascii=False)
