"""The tools ``memory_store``, ``memory_recall`` and ``memory_forget`` over a store of single memories (memory 7.3)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import field, frozen

from hermitcrab.errors import MemoryBackendError, ToolError
from hermitcrab.memory.longterm.contract import (
    CATEGORIES,
    LongTermStore,
    Memory,
    category_of,
    checked_scope,
    is_memory_id,
)
from hermitcrab.memory.longterm.recalling import clean, failure_text
from hermitcrab.memory.longterm.remembering import remember
from hermitcrab.memory.prompts import (
    MEMORY_FORGET_DESCRIPTION,
    MEMORY_RECALL_DESCRIPTION,
    MEMORY_STORE_DESCRIPTION,
    RECALLED_NOTICE,
)
from hermitcrab.memory.tools import (
    COOLDOWN_S,
    DEADLINE_S,
    Cooldown,
    finite_number,
    required_text,
    unavailable_payload,
    whole_number,
)
from hermitcrab.models.contract import ToolSchema

#: The least cosine of a recalled memory that shares no word with the query.
RECALL_MIN_SCORE = 0.33
#: The least cosine of a candidate for forgetting, and the one from which a single match is clear enough to delete.
FORGET_MIN_SCORE = 0.4
FORGET_SURE_SCORE = 0.9

_DEFAULT_RESULTS = 5
_MOST_RESULTS = 50
_OVERFETCH = 10
_LONGEST_QUERY = 1_000
_LONGEST_MEMORY = 10_000
_SHOWN_CHARACTERS = 100
_DEFAULT_IMPORTANCE = 0.7
_log = logging.getLogger("hermitcrab.memory")

_SCOPE = {
    "type": "string",
    "description": "A named part of memory: letters, digits, _ and -. Leave out for all of it.",
}

MEMORY_STORE = ToolSchema(
    "memory_store",
    MEMORY_STORE_DESCRIPTION,
    {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "category": {"type": "string", "enum": list(CATEGORIES)},
            "importance": {"type": "number", "minimum": 0, "maximum": 1},
            "scope": _SCOPE,
        },
        "required": ["text"],
    },
)

MEMORY_RECALL = ToolSchema(
    "memory_recall",
    MEMORY_RECALL_DESCRIPTION,
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": _MOST_RESULTS},
            "scope": _SCOPE,
        },
        "required": ["query"],
    },
)

MEMORY_FORGET = ToolSchema(
    "memory_forget",
    MEMORY_FORGET_DESCRIPTION,
    {
        "type": "object",
        "properties": {"memoryId": {"type": "string"}, "query": {"type": "string"}},
    },
)


@frozen(kw_only=True)
class LongTermTools:
    """Runs the three tools of one agent; each returns the JSON payload for the model.

    A failure is a payload that says ``unavailable``, why, and what to do, and the store is left alone for a while;
    only ``CancelledError`` is raised.
    """

    store: LongTermStore
    cooldown: Cooldown = field(factory=lambda: Cooldown(COOLDOWN_S))
    deadline_s: float = DEADLINE_S

    async def remember(
        self, arguments: Mapping[str, Any], *, session_key: str | None = None
    ) -> str:
        """``memory_store``: ``created``, ``duplicate`` of one that is there, or ``rejected``."""
        return await self._run("memory_store", lambda: self._remember(arguments, session_key))

    async def recall(self, arguments: Mapping[str, Any]) -> str:
        """``memory_recall``: memories with their full ids, behind a notice that they are data."""
        return await self._run("memory_recall", lambda: self._recall(arguments))

    async def forget(self, arguments: Mapping[str, Any]) -> str:
        """``memory_forget``: ``deleted``, ``not_found``, ``candidates`` to choose from, or ``missing_param``."""
        return await self._run("memory_forget", lambda: self._forget(arguments))

    async def _run(self, name: str, work: Callable[[], Awaitable[dict[str, Any]]]) -> str:
        cooling = self.cooldown.error()
        if cooling is not None:
            return _dump(_unavailable(cooling))
        try:
            async with asyncio.timeout(self.deadline_s):
                return _dump(await work())
        except ToolError as error:
            return _dump({"error": str(error)})
        except Exception as error:  # noqa: BLE001 - the model gets every failure as a payload
            message = failure_text(error, self.deadline_s)
            _log.warning("%s failed: %s", name, message, exc_info=error)
            self.cooldown.start(message)
            return _dump(_unavailable(message))

    async def _remember(
        self, arguments: Mapping[str, Any], session_key: str | None
    ) -> dict[str, Any]:
        text = required_text(arguments, "text").strip()
        if len(text) > _LONGEST_MEMORY:
            raise ToolError(f"'text' has at most {_LONGEST_MEMORY} characters; keep the essence")
        outcome = await remember(
            self.store,
            text,
            category=category_of(arguments.get("category")),
            importance=_importance(arguments),
            scope=_scope(arguments) or "",
            session_key=session_key,
            source="tool",
        )
        if outcome.memory is None:
            return {
                "action": "rejected",
                "reason": outcome.reason,
                "error": "This reads like an order to a model or a wrapper, not like a memory.",
            }
        # What is new is known to the model; of a duplicate it needs the whole text.
        whole = outcome.memory.text
        shown = whole[:_SHOWN_CHARACTERS] if outcome.action == "created" else whole
        return {"action": outcome.action, "id": outcome.memory.id, "text": shown}

    async def _recall(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        query = _query(required_text(arguments, "query"))
        limit = min(whole_number(arguments, "limit") or _DEFAULT_RESULTS, _MOST_RESULTS)
        found = await self.store.recall(
            query, limit=limit + _OVERFETCH, min_score=RECALL_MIN_SCORE, scope=_scope(arguments)
        )
        shown = [_payload(each) for each in clean(found.memories)[:limit]]
        return {
            "count": len(shown),
            "notice": RECALLED_NOTICE if shown else "No relevant memories.",
            "memories": shown,
            "mode": found.mode,
            "degraded": found.degraded,
            "reason": found.reason,
        }

    async def _forget(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        memory_id, query = arguments.get("memoryId"), arguments.get("query")
        if memory_id:
            return await self._forget_by_id(memory_id)
        if not isinstance(query, str) or not query.strip():
            return {"action": "missing_param", "error": "'memoryId' or 'query' is required"}
        found = await self.store.nearest(
            _query(query), limit=_DEFAULT_RESULTS, min_score=FORGET_MIN_SCORE
        )
        if not found:
            return {"action": "not_found", "found": 0}
        sure = [each for each in found if (each.score or 0) >= FORGET_SURE_SCORE]
        if len(sure) == 1:
            return await self._forget_by_id(sure[0].id) | {"text": sure[0].text}
        return {
            "action": "candidates",
            "found": len(found),
            "memories": [_payload(each) for each in found],
        }

    async def _forget_by_id(self, memory_id: object) -> dict[str, Any]:
        if not isinstance(memory_id, str) or not is_memory_id(memory_id.strip()):
            raise ToolError(
                "'memoryId' must be the whole id of a memory, as memory_recall shows it"
            )
        memory_id = memory_id.strip().lower()
        deleted = await self.store.delete(memory_id)
        return {"action": "deleted" if deleted else "not_found", "id": memory_id}


def _payload(memory: Memory) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "id": memory.id,
        "text": memory.text,
        "category": memory.category,
        "importance": memory.importance,
        "source": memory.source,
    }
    if memory.score is not None:
        payload["score"] = round(memory.score, 4)
    if memory.scope:
        payload["scope"] = memory.scope
    return payload


def _query(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_QUERY]


def _importance(arguments: Mapping[str, Any]) -> float:
    value = arguments.get("importance")
    number = _DEFAULT_IMPORTANCE if value is None else finite_number(value, "importance")
    if not 0 <= number <= 1:
        raise ToolError("'importance' must be between 0 and 1")
    return number


def _scope(arguments: Mapping[str, Any]) -> str | None:
    value = arguments.get("scope")
    if value is None or value == "":
        return None
    try:
        return checked_scope(str(value))
    except MemoryBackendError as error:
        raise ToolError(str(error)) from error


def _unavailable(error: str) -> dict[str, Any]:
    payload = unavailable_payload(error)
    return {"memories": payload.pop("results")} | payload


def _dump(payload: Mapping[str, Any]) -> str:
    # The escapes are JSON still, and nothing in a memory can look like markup (C75).
    text = json.dumps(payload, ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
