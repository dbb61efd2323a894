"""One Chroma for a backend: a folder or a server behind the same three calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

#: How Chroma links vectors. Its defaults miss one of twenty nearest neighbours among texts that are much alike.
GRAPH = {"ef_construction": 200, "ef_search": 200, "max_neighbors": 32}

#: What Chroma's own client allows in one request, where the server does not say (field notes 4).
DEFAULT_BATCH = 5_461


@frozen(kw_only=True)
class CollectionSpec:
    """A collection by name, and how it is made where it is missing: ``metadata`` is written then and never again."""

    name: str
    space: str = "cosine"
    metadata: Mapping[str, Any] = field(factory=dict)

    @property
    def configuration(self) -> dict[str, Any]:
        """What Chroma is to make of it."""
        return {"hnsw": {"space": self.space, **GRAPH}}


@frozen(kw_only=True)
class ConnectionStatus:
    """What is known of the other side without asking it."""

    mode: str
    address: str
    version: str | None = None
    last_error: str | None = None
    reconnects: int = 0


class Connection(ABC):
    """Calls to Chroma within deadlines; it connects when it is first used, and again after a failure.

    All calls may be repeated without harm: rows are written by id. They raise
    :class:`~hermitcrab.errors.MemoryBackendError`.
    """

    #: Rows in one request at most; known once connected.
    max_batch: int = DEFAULT_BATCH
    #: Another number means that what was read before may be gone: the server is another one, or has lost a collection.
    generation: int = 0

    @abstractmethod
    async def call(
        self, spec: CollectionSpec, verb: str, *, create: bool = True, **arguments: Any
    ) -> Any:
        """The answer of a collection's ``verb``: ``get``, ``query``, ``upsert``, ``delete``, ``count`` or ``modify``.

        A missing collection is made first, or, unless ``create``, the answer is None.
        """

    @abstractmethod
    async def metadata(self, spec: CollectionSpec) -> Mapping[str, Any] | None:
        """The metadata of a collection as it stands now; None if there is none."""

    @abstractmethod
    async def names(self) -> tuple[str, ...]:
        """The names of all collections."""

    @abstractmethod
    async def drop(self, name: str) -> bool:
        """Delete a collection; whether there was one."""

    @abstractmethod
    def status(self) -> ConnectionStatus:
        """How the connection stands; does not connect."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the folder or the server; may be called more than once."""
