"""A single memory as a row and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermitcrab.memory.longterm import Memory, category_of, source_of
from hermitcrab_memory_chroma.names import digest
from hermitcrab_memory_chroma.rows import Row
from hermitcrab_memory_chroma.words import folded


def row_id(agent_id: str, memory_id: str) -> str:
    """The id of the row: two agents may have memories of one id."""
    return f"{digest(agent_id)}:{memory_id.lower()}"


def of_agent(agent_id: str, scope: str | None = None) -> dict[str, Any]:
    """The filter that every request carries."""
    return {"agent": agent_id} if scope is None else {"agent": agent_id, "scope": scope}


def row_of(agent_id: str, memory: Memory, vector: Any) -> Row:
    """The row that holds ``memory``; its document is what is searched, not what is shown."""
    metadata: dict[str, Any] = {
        "agent": agent_id,
        "memory": memory.id,
        "text": memory.text,
        "category": memory.category,
        "importance": float(memory.importance),
        "createdAtMs": memory.created_at_ms,
        "scope": memory.scope,
        "source": memory.source,
    }
    if memory.session_key is not None:
        metadata["session"] = memory.session_key
    return Row(
        id=row_id(agent_id, memory.id),
        metadata=metadata,
        document=folded(memory.text),
        vector=vector,
    )


def memory_of(row: Row) -> Memory:
    """The memory in a row, with the cosine as its score where a vector was searched for."""
    data: Mapping[str, Any] = row.metadata
    session = data.get("session")
    return Memory(
        id=str(data.get("memory", "")),
        text=str(data.get("text", row.document or "")),
        category=category_of(data.get("category")),
        importance=float(data.get("importance", 0.7)),
        created_at_ms=int(data.get("createdAtMs", 0)),
        scope=str(data.get("scope", "")),
        session_key=None if session is None else str(session),
        source=source_of(data.get("source")),
        score=None if row.distance is None else cosine(row.distance),
    )


def cosine(distance: float) -> float:
    """The cosine from Chroma's cosine distance, within what rounding leaves of -1 to 1."""
    return max(-1.0, min(1.0, 1.0 - float(distance)))
