"""Keeping one memory, unless it is kept already or is none (memory 7.1, 7.3)."""

from __future__ import annotations

import re
from typing import Literal

from attrs import frozen

from hermitcrab.memory.longterm.contract import Category, LongTermStore, Memory, MemorySource
from hermitcrab.memory.longterm.screening import contamination

#: From which cosine on two texts say the same, if their numbers and denials agree (see :func:`says_the_same`).
DUPLICATE_MIN_SCORE = 0.97

#: How many neighbours are looked at, so that contaminated ones cannot hide a real one.
_NEIGHBOURS = 5

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_DENIAL = re.compile(
    r"\b(?:not|no|never|without|stopped|nechci|nemam|neni)\b|n't\b|\bdislikes?\b|\bhates?\b"
    r"|不|没|沒|别|別|ない|ません|嫌い|않|안 |싫",
    re.IGNORECASE,
)


@frozen(kw_only=True)
class Remembered:
    """What became of a text: ``memory`` is the new one or the one that says the same, ``reason`` why it was rejected.

    ``confirmed`` says that a user has now said what only the model had noted.
    """

    action: Literal["created", "duplicate", "rejected"]
    memory: Memory | None = None
    reason: str | None = None
    confirmed: bool = False


async def remember(
    store: LongTermStore,
    text: str,
    *,
    category: Category = "other",
    importance: float = 0.7,
    scope: str = "",
    session_key: str | None = None,
    source: MemorySource = "user",
    duplicate_min_score: float = DUPLICATE_MIN_SCORE,
) -> Remembered:
    """Keep ``text``, unless it reads like an order or a wrapper, or a memory of its scope says the same.

    A note of the model that a user repeats becomes the user's word, under its old id (C81).

    :raises MemoryBackendError: the store failed; nothing is kept then.
    """
    problem = contamination(text)
    if problem is not None:
        return Remembered(action="rejected", reason=problem)
    same = await _same(store, text, scope, duplicate_min_score)
    if same is None:
        kept = await store.add(
            text,
            category=category,
            importance=importance,
            scope=scope,
            session_key=session_key,
            source=source,
        )
        return Remembered(action="created", memory=kept)
    if source != "user" or same.source != "tool":
        return Remembered(action="duplicate", memory=same)
    kept = await store.add(
        text,
        category=category,
        importance=max(importance, same.importance),
        scope=same.scope,
        session_key=session_key,
        source="user",
        memory_id=same.id,
        created_at_ms=same.created_at_ms,
    )
    return Remembered(action="duplicate", memory=kept, confirmed=True)


def says_the_same(text: str, other: str) -> bool:
    """Whether two texts whose vectors agree may be one: the same numbers, and both deny or neither does.

    Vectors hardly tell "port 8080" from "port 8081", or "I eat meat" from "I don't eat meat".
    """
    return sorted(_NUMBER.findall(text)) == sorted(_NUMBER.findall(other)) and (
        _DENIAL.search(text) is None
    ) == (_DENIAL.search(other) is None)


async def _same(store: LongTermStore, text: str, scope: str, min_score: float) -> Memory | None:
    neighbours = await store.nearest(text, limit=_NEIGHBOURS, min_score=min_score, scope=scope)
    return next(
        (
            each
            for each in neighbours
            if contamination(each.text) is None and says_the_same(text, each.text)
        ),
        None,
    )
