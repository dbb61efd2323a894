"""Which collection holds the memories, whose vectors are in it, and whether someone is moving them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from hermitcrab.errors import MemoryBackendError
from hermitcrab_memory_chroma.connection import CollectionSpec, Connection
from hermitcrab_memory_chroma.failures import DimensionsError
from hermitcrab_memory_chroma.names import digest
from hermitcrab_memory_chroma.rows import READ_ROWS

_LEASE_MS = 60_000
_FOUND_SHARE = 0.9
_MIGRATE = "Run `hermitcrab ltm migrate`, which embeds all memories again"


@frozen(kw_only=True)
class Identity:
    """Whose vectors they are; vectors of two fingerprints cannot be compared."""

    fingerprint: str
    model: str
    dims: int

    @property
    def metadata(self) -> dict[str, Any]:
        return {"fingerprint": self.fingerprint, "model": self.model, "dims": self.dims}


@frozen(kw_only=True)
class Table:
    """A collection of memories; ``identity`` is None where there is no collection yet."""

    spec: CollectionSpec
    identity: Identity | None = None
    lease: Mapping[str, Any] = field(factory=dict)

    def refusal(self, fingerprint: str, model: str, dims: int) -> DimensionsError | None:
        """Why vectors of ``fingerprint`` may not be written here or compared with these; None if they may."""
        own = self.identity
        if own is None:
            return None
        if own.fingerprint != fingerprint:
            problem = f"the memories were embedded by {own.model}, and the model now is {model}"
        elif dims and own.dims != dims:
            problem = (
                f"the memories have vectors of {own.dims} numbers, and the model now makes {dims}"
            )
        else:
            return None
        return DimensionsError(problem, where=self.spec.name, hint=_MIGRATE)


class MemoryTables:
    """The memories' collection by its present name, which a migration changes.

    The name stands in the metadata of a collection without rows, together with the lease of a migration under way: one
    request changes both, so that a crash leaves the old table or the new one, never half of each.
    """

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._first = f"{prefix}-memories"
        self._pointer = CollectionSpec(name=f"{prefix}-current")

    async def current(self) -> Table:
        """The table as it stands now."""
        pointer = await self._connection.metadata(self._pointer) or {}
        name = str(pointer.get("memories") or self._first)
        stored = await self._connection.metadata(CollectionSpec(name=name))
        return Table(
            spec=CollectionSpec(name=name, metadata=stored or {}),
            identity=_identity_of(stored),
            lease=pointer,
        )

    async def for_writing(self, identity: Identity) -> Table:
        """The table, made if it is missing.

        :raises DimensionsError: its vectors are of another model.
        :raises MemoryBackendError: a migration is under way.
        """
        table = await self.current()
        _refuse_during_migration(table)
        if table.identity is None:
            spec = CollectionSpec(name=table.spec.name, metadata=identity.metadata)
            await self._connection.call(spec, "count")
            table = await self.current()
        refusal = table.refusal(identity.fingerprint, identity.model, identity.dims)
        if refusal is not None:
            raise refusal
        return table

    def next(self, identity: Identity) -> CollectionSpec:
        """The collection to move to; the same one again after a migration that was cut short."""
        name = f"{self._first}-{digest(identity.fingerprint, str(identity.dims), length=10)}"
        return CollectionSpec(name=name, metadata=identity.metadata)

    async def take_lease(self, table: Table, holder: str) -> None:
        """Keep others from writing for a minute; take it again before that is over.

        :raises MemoryBackendError: another migration is under way.
        """
        pointer = await self._connection.metadata(self._pointer) or {}
        if pointer.get("leaseHolder") != holder:
            _refuse_during_migration(Table(spec=table.spec, lease=pointer))
        await self._point(
            table.spec.name, {"leaseHolder": holder, "leaseUntilMs": _now_ms() + _LEASE_MS}
        )

    async def end_lease(self, table: Table) -> None:
        """Let others write to ``table`` again, which is the current one from now on."""
        await self._point(table.spec.name, {"leaseHolder": "", "leaseUntilMs": 0})

    async def _point(self, name: str, lease: Mapping[str, Any]) -> None:
        metadata = {"memories": name, **lease}
        spec = CollectionSpec(name=self._pointer.name, metadata=metadata)
        await self._connection.call(spec, "modify", metadata=metadata)


async def lost_vectors(connection: Connection, table: Table) -> int:
    """How many rows a search by vectors cannot find although they are there: Chroma lost its graph of them (C91)."""
    if table.identity is None:
        return 0
    rows = int(await connection.call(table.spec, "count", create=False) or 0)
    wanted = min(rows, READ_ROWS)
    if wanted == 0:
        return 0
    probe = [1.0, *[0.0] * (table.identity.dims - 1)]
    answer = await connection.call(
        table.spec, "query", create=False, query_embeddings=[probe], n_results=wanted, include=[]
    )
    found = 0 if answer is None else len(answer["ids"][0])
    # The search is approximate: a few are missed in a graph that is whole.
    return wanted - found if found < wanted * _FOUND_SHARE else 0


def _identity_of(stored: Mapping[str, Any] | None) -> Identity | None:
    if not stored or "fingerprint" not in stored:
        return None
    return Identity(
        fingerprint=str(stored["fingerprint"]),
        model=str(stored.get("model", "")),
        dims=int(stored.get("dims", 0)),
    )


def _refuse_during_migration(table: Table) -> None:
    if int(table.lease.get("leaseUntilMs", 0)) > _now_ms():
        raise MemoryBackendError(
            "the memories are being embedded again, nothing can be written meanwhile",
            where=table.spec.name,
            hint="Try again when `hermitcrab ltm migrate` has ended",
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
