"""The vectors of passages: made when they are missing, shared by passages with the same text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from hermitcrab.errors import EmbeddingError
from hermitcrab.memory.files import MemoryFile, load
from hermitcrab_memory_chroma.connection import CollectionSpec, Connection
from hermitcrab_memory_chroma.embedder import Embedder
from hermitcrab_memory_chroma.file_index import FileIndex
from hermitcrab_memory_chroma.file_rows import file_rows
from hermitcrab_memory_chroma.names import digest
from hermitcrab_memory_chroma.rows import Row, by_id, delete, every, write

_BATCH = 64


@frozen(kw_only=True)
class Survey:
    """How vectors stand: ``paused`` says why missing ones are not made, if they are not."""

    wanted: int = 0
    vectors: int = 0
    paused: str | None = None

    @property
    def pending(self) -> int:
        return self.wanted - self.vectors

    def explained(self) -> str | None:
        """Why a search by meaning will miss something, if it will."""
        if self.pending == 0:
            return None
        return self.paused or f"{self.pending:,} of {self.wanted:,} passages have no vectors yet"


class FileVectors:
    """One collection for each model, so that vectors of two models are never compared (C83).

    A model that runs on this machine makes its vectors by itself; where asking costs money, a change of the model
    waits for ``hermitcrab memory index --force``.
    """

    def __init__(
        self, connection: Connection, index: FileIndex, embedder: Embedder, prefix: str
    ) -> None:
        self._connection = connection
        self._index = index
        self.embedder = embedder
        self._family = f"{prefix}-vectors-{index.scope.agent_key}-"
        self._there: set[str] | None = None
        self._there_of: tuple[str, int] | None = None
        self._previous: str | None = None
        self._used: set[str] = set()
        self._surveyed: tuple[tuple[int, int, str, int], Survey] | None = None

    @property
    def spec(self) -> CollectionSpec:
        """The collection of the present model."""
        return self.spec_of(self._index.scope.key)

    def spec_of(self, key: str) -> CollectionSpec:
        """The collection of the present model for one of this agent's workspaces."""
        fingerprint = self.embedder.fingerprint()
        metadata = {"fingerprint": fingerprint, "model": self.embedder.name}
        return CollectionSpec(
            name=f"{self._family}{key}-{digest(fingerprint, length=10)}",
            metadata=self._index.scope.metadata | metadata,
        )

    async def survey(self) -> Survey:
        """How many vectors are wanted and there; counted again only after a change, for a search asks each time."""
        await self._index.indexed()
        there = await self._vectors()
        state = (self._index.revision, self._connection.generation, self.spec.name, len(there))
        if self._surveyed is None or self._surveyed[0] != state:
            wanted = await self._wanted()
            survey = Survey(
                wanted=len(wanted), vectors=len(wanted & there), paused=self._pause(wanted - there)
            )
            self._surveyed = (state, survey)
        return self._surveyed[1]

    async def build(
        self, files: Sequence[MemoryFile], *, force: bool, progress: Callable[[int, int], None]
    ) -> tuple[int, Survey]:
        """Make what vectors are missing, and forget those that nobody has use for; how many, and how they stand then.

        :raises EmbeddingError: the provider failed; what was made before is kept.
        """
        wanted, there = await self._wanted(), await self._vectors()
        missing = wanted - there
        if missing and self._pause(missing) is not None and not force:
            return 0, await self.survey()
        spec, made = self.spec, 0
        for texts in await asyncio.to_thread(lambda: list(self._missing_texts(files, missing))):
            vectors = await self.embedder.documents(list(texts.values()))
            if self.spec.name != spec.name:
                raise EmbeddingError(
                    "the embedding provider changed meanwhile",
                    kind="switched",
                    where=self.embedder.name,
                )
            rows = [
                Row(id=vector_id, metadata=self._index.scope.metadata, vector=vector)
                for vector_id, vector in zip(texts, vectors, strict=True)
            ]
            await write(self._connection, spec, rows)
            there.update(texts)
            made += len(rows)
            progress(made, len(missing))
        # Only what this process has seen in use: another one may be about to record what it made.
        unused = sorted(self._used & there - wanted)
        self._used = set(wanted)
        await delete(self._connection, spec, unused)
        there.difference_update(unused)
        self._surveyed = None
        if wanted <= there:
            await self._settle(spec)
        return made, await self.survey()

    def _missing_texts(
        self, files: Sequence[MemoryFile], missing: set[str]
    ) -> Iterator[Mapping[str, str]]:
        """The texts to embed by the ids of their vectors, in batches."""
        batch: dict[str, str] = {}
        left = set(missing)
        known = self._index.known
        for file in files:
            record = known.get(file.path)
            if record is None or left.isdisjoint(record.vector_ids):
                continue
            try:
                text, file_hash = load(file)
            except OSError:  # the next sync finds out what became of it
                continue
            for vector_id, each in file_rows(
                self._index.scope, file.path, text, file_hash
            ).texts.items():
                if vector_id in left:
                    left.discard(vector_id)
                    batch[vector_id] = each
                if len(batch) >= _BATCH:
                    yield batch
                    batch = {}
        if batch:
            yield batch

    async def _wanted(self) -> set[str]:
        records = await self._index.indexed()
        return {vector_id for record in records.values() for vector_id in record.vector_ids}

    async def _vectors(self) -> set[str]:
        """The ids of the vectors that are there, read once for each generation and model."""
        spec = self.spec
        if self._there is None or self._there_of != (spec.name, self._connection.generation):
            rows = await every(self._connection, spec, None, include=())
            self._there = {row.id for row in rows}
            self._previous = await self._settled()
            self._there_of = (spec.name, self._connection.generation)
        return self._there

    def _pause(self, missing: set[str]) -> str | None:
        is_changed = self._previous is not None and self._previous != self.spec.name
        if not (missing and is_changed and self.embedder.is_remote):
            return None
        return (
            f"The embedding model changed to {self.embedder.name}: vectors of {len(missing):,} texts would have to be"
            " made, which may cost money. Run `hermitcrab memory index --force` to make them"
        )

    @property
    def _settled_id(self) -> str:
        return f"{self._index.scope.key}:vectors"

    async def _settled(self) -> str | None:
        """The collection whose vectors were last complete."""
        rows = await by_id(self._connection, self._index.records, [self._settled_id])
        return str(rows[0].metadata.get("collection")) if rows else None

    async def _settle(self, spec: CollectionSpec) -> None:
        """Remember that the vectors of this model are complete, and delete those of the one before."""
        previous = self._previous
        if previous == spec.name:
            return
        metadata: dict[str, Any] = {
            **self._index.scope.metadata,
            "kind": "vectors",
            "collection": spec.name,
        }
        await write(
            self._connection, self._index.records, [Row(id=self._settled_id, metadata=metadata)]
        )
        self._previous = spec.name
        if previous is not None:
            await self._connection.drop(previous)
