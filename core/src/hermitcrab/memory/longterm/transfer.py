"""Single memories as lines of JSON, out of one store and into another (memory 7.6).

A line is an object with ``id``, ``text``, ``category``, ``importance``, ``createdAt`` (ms), ``scope``, ``sessionKey``
and ``source``; vectors are made anew by the store that takes it in.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import AsyncIterator, Container, Iterable
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory.longterm.contract import (
    LongTermStore,
    Memory,
    category_of,
    checked_scope,
    is_memory_id,
    source_of,
)
from hermitcrab.memory.longterm.filtering import MemoryFilter, MemoryOrder

if TYPE_CHECKING:
    from hermitcrab.memory.contract import Progress

_PAGE = 500
_DEFAULT_IMPORTANCE = 0.7
#: What ids that are no UUIDs are derived from, so that the same line always gets the same id.
_NAMESPACE = uuid.UUID("6f6c8a7e-9f0e-5d0c-8a55-3c1f5a0f4b1d")


@frozen(kw_only=True)
class TransferReport:
    """What an import did, in memories; ``problems`` says of lines that were left out where they are and why."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    problems: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.added + self.replaced + self.unchanged


@frozen(kw_only=True)
class ReadMemories:
    """What stands in lines of JSON: the memories, and what is wrong with the other lines.

    ``undated`` are the ids of those that do not say when they were created.
    """

    memories: tuple[Memory, ...] = ()
    undated: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


async def all_memories(
    store: LongTermStore,
    *,
    order_by: MemoryOrder | None = None,
    where: MemoryFilter | None = None,
) -> AsyncIterator[Memory]:
    """All memories of a store, fetched in pages."""
    offset = 0
    while True:
        page = await store.listed(limit=_PAGE, offset=offset, order_by=order_by, where=where)
        for memory in page:
            yield memory
        if len(page) < _PAGE:
            return
        offset += len(page)


async def take_in(
    store: LongTermStore,
    memories: Iterable[Memory],
    *,
    undated: Container[str] = frozenset(),
    progress: Progress | None = None,
) -> TransferReport:
    """Put memories into a store under their ids; those that it has already stay, so it can be broken off and repeated.

    :param undated: ids of memories whose time is only that of their import: one that is there already keeps its own.
    :raises MemoryBackendError: the store failed; what came before is kept.
    """
    listed = list(memories)
    report = TransferReport()
    for done, memory in enumerate(listed):
        if progress is not None:
            progress(done, len(listed), memory.text)
        present = await store.get(memory.id)
        if present is not None and memory.id in undated:
            memory = evolve(memory, created_at_ms=present.created_at_ms)
        if present is not None and _same(present, memory):
            report = evolve(report, unchanged=report.unchanged + 1)
            continue
        await store.add(
            memory.text,
            category=memory.category,
            importance=memory.importance,
            scope=memory.scope,
            session_key=memory.session_key,
            source=memory.source,
            memory_id=memory.id,
            created_at_ms=memory.created_at_ms,
        )
        if present is None:
            report = evolve(report, added=report.added + 1)
        else:
            report = evolve(report, replaced=report.replaced + 1)
    if progress is not None:
        progress(len(listed), len(listed), "")
    return report


def memory_data(memory: Memory) -> dict[str, Any]:
    """A memory as JSON data."""
    return {
        "id": memory.id,
        "text": memory.text,
        "category": memory.category,
        "importance": memory.importance,
        "createdAt": memory.created_at_ms,
        "scope": memory.scope,
        "sessionKey": memory.session_key,
        "source": memory.source,
    }


def read_memories(lines: Iterable[str], *, now_ms: int) -> ReadMemories:
    """The memories in lines of JSON; a line that holds none is a problem that names its number.

    :param now_ms: when those were created that do not say it.
    """
    memories: list[Memory] = []
    undated: set[str] = set()
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            memories.append(_memory_of(data, now_ms))
            if "createdAt" not in data:
                undated.add(memories[-1].id)
        except (ValueError, RecursionError, MemoryBackendError) as error:
            problems.append(f"line {number}: {error}")
    return ReadMemories(
        memories=tuple(memories), undated=frozenset(undated), problems=tuple(problems)
    )


def _memory_of(data: Any, now_ms: int) -> Memory:
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    text = data.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("'text' is missing")
    created = data.get("createdAt")
    importance = data.get("importance")
    session_key = data.get("sessionKey")
    return Memory(
        id=_id_of(data.get("id"), text),
        text=text,
        category=category_of(data.get("category")),
        importance=min(max(_number(importance, _DEFAULT_IMPORTANCE), 0.0), 1.0),
        created_at_ms=int(_number(created, now_ms)),
        scope=checked_scope(str(data.get("scope") or "")),
        session_key=session_key if isinstance(session_key, str) else None,
        source=source_of(data.get("source")),
    )


def _id_of(given: Any, text: str) -> str:
    if is_memory_id(given):
        return str(given).lower()
    return str(uuid.uuid5(_NAMESPACE, repr(given) if given else text))


def _number(value: Any, default: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return default
    return value


def _same(present: Memory, memory: Memory) -> bool:
    return evolve(present, score=None) == evolve(memory, score=None)
