"""What a store of single memories is, and the values that pass between it and the host (memory 7.1)."""

from __future__ import annotations

import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from attrs import evolve, field, frozen

from hermitcrab.errors import MemoryBackendError

if TYPE_CHECKING:
    from hermitcrab.memory.contract import Progress, SearchMode
    from hermitcrab.memory.longterm.filtering import MemoryFilter, MemoryOrder

#: What a memory is about.
Category = Literal["preference", "fact", "decision", "entity", "other"]

#: Who said it: a user, the model through a tool, or an import. What a model stores is its own note, not a user's word.
MemorySource = Literal["user", "tool", "import"]

CATEGORIES: tuple[Category, ...] = get_args(Category)
SOURCES: tuple[MemorySource, ...] = get_args(MemorySource)

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_SCOPE = re.compile(r"[A-Za-z0-9_-]{0,64}")


@frozen(kw_only=True)
class Memory:
    """One memory of one agent.

    ``id`` is a UUID in lower case; ``importance`` is between 0 and 1; ``created_at_ms`` counts milliseconds since 1970;
    ``scope`` is ``""`` (everywhere) or a name of letters, digits, ``_`` and ``-``; ``session_key`` says where it was
    said. ``score`` is the cosine with what was asked, ``None`` where nothing was asked or words alone found it.
    """

    id: str
    text: str
    category: Category = "other"
    importance: float = 0.7
    created_at_ms: int
    scope: str = ""
    session_key: str | None = None
    source: MemorySource = "user"
    score: float | None = None

    def scored(self, score: float | None) -> Memory:
        """The same memory with another score."""
        return evolve(self, score=score)


@frozen(kw_only=True)
class RecallResult:
    """Memories, best first, and how they were found.

    ``degraded`` says that a better answer was not available, such as by words alone where vectors failed; ``reason``
    says why and what to do.
    """

    memories: tuple[Memory, ...] = ()
    mode: SearchMode = "keyword"
    degraded: bool = False
    reason: str | None = None


@frozen(kw_only=True)
class StoreStats:
    """What a store holds of its agent; ``size_bytes`` is that of the whole store where it is known.

    ``location`` is a folder or an address without secrets; ``model`` and ``dims`` say what made the vectors; ``notes``
    are sentences for the user, such as that a migration is due; ``details`` is what else the store wants to show.
    """

    count: int = 0
    by_category: Mapping[str, int] = field(factory=dict)
    location: str | None = None
    model: str | None = None
    dims: int | None = None
    size_bytes: int | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class MigrationReport:
    """What a migration did; ``changed`` is false where the vectors already were what they should be."""

    changed: bool
    memories: int = 0
    before: str | None = None
    after: str | None = None


class LongTermStore(ABC):
    """The single memories of one agent. Made for one agent: every verb sees that agent's memories and no others.

    What belongs to another agent does not exist, whether it is searched, read, replaced or deleted by its id; the
    agent's filter comes before ranking. Times are the store's: ``add`` stamps what comes without one.
    Every vector is checked for its length before it is written or searched.

    A store raises :class:`~hermitcrab.errors.MemoryBackendError` when it fails. ``CancelledError`` propagates.
    """

    @abstractmethod
    async def add(
        self,
        text: str,
        *,
        category: Category = "other",
        importance: float = 0.7,
        scope: str = "",
        session_key: str | None = None,
        source: MemorySource = "user",
        memory_id: str | None = None,
        created_at_ms: int | None = None,
    ) -> Memory:
        """Keep one memory and return it as stored; once it returns, another process can find it.

        It decides nothing about duplicates. Without ``memory_id`` the id is new; with one, a memory of this agent that
        has it is replaced in one step, so that doing the same twice leaves one.
        """

    @abstractmethod
    async def nearest(
        self, text: str, *, limit: int = 5, min_score: float = -1.0, scope: str | None = None
    ) -> tuple[Memory, ...]:
        """The memories whose vectors are nearest to that of ``text``, best first, with ``score`` the cosine, -1 to 1.

        Only those of ``scope``; ``None`` means of all scopes.
        """

    @abstractmethod
    async def recall(
        self, query: str, *, limit: int = 5, min_score: float = 0.0, scope: str | None = None
    ) -> RecallResult:
        """The memories that answer ``query``, by meaning and by words, best first; a blank query has none.

        ``min_score`` is a cosine and cuts what only meaning found: what has a word of the query that is no stop word
        is never cut by it. ``scope`` is that of :meth:`nearest`.
        """

    @abstractmethod
    async def get(self, memory_id: str) -> Memory | None:
        """The memory with this id, without a score; ``None`` where this agent has none."""

    @abstractmethod
    async def delete(self, memory_id: str) -> bool:
        """Delete the memory with this id; whether this agent had one."""

    @abstractmethod
    async def listed(
        self,
        *,
        limit: int,
        offset: int = 0,
        order_by: MemoryOrder | None = None,
        where: MemoryFilter | None = None,
    ) -> tuple[Memory, ...]:
        """Some of the memories that ``where`` lets through, after leaving out ``offset`` of them, without scores.

        Without ``order_by`` they come by id, so that paging sees each one once.
        """

    @abstractmethod
    async def count(self) -> int:
        """How many memories this agent has."""

    @abstractmethod
    async def stats(self) -> StoreStats:
        """What the store holds; never an exception because its vectors are of another model."""

    @abstractmethod
    async def migrate(self, *, progress: Progress | None = None) -> MigrationReport:
        """Embed all memories again with the present model into a new table, then swap; nothing to do is fine.

        Fails without changing anything: the old table stays until the new one is complete. It may concern the
        memories of all agents, where one table holds them.
        """


def new_memory_id() -> str:
    """A new id: a random UUID in lower case."""
    return str(uuid.uuid4())


def is_memory_id(text: object) -> bool:
    """Whether ``text`` has the shape of an id."""
    return isinstance(text, str) and _UUID.fullmatch(text) is not None


def checked_scope(scope: str) -> str:
    """``scope`` itself.

    :raises MemoryBackendError: it is not a slug of at most 64 letters, digits, ``_`` and ``-``.
    """
    if _SCOPE.fullmatch(scope) is None:
        raise MemoryBackendError(
            f"{scope!r} is not a scope",
            hint="A scope has at most 64 characters: letters, digits, _ and -; the empty one is global",
        )
    return scope


def category_of(text: object) -> Category:
    """``text`` if it is a category, else ``other``."""
    return text if text in CATEGORIES else "other"


def source_of(text: object) -> MemorySource:
    """``text`` if it is a source, else ``import``."""
    return text if text in SOURCES else "import"
