"""Giving passages the vectors that they lack: what is made stays, whatever happens to the rest."""

from __future__ import annotations

from logging import Logger
from pathlib import Path

from attrs import frozen

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab.memory import Progress
from hermitcrab.memory.files import weighted_length
from hermitcrab_memory_lancedb.embedder import Embedder, Vector
from hermitcrab_memory_lancedb.locking import alone
from hermitcrab_memory_lancedb.passages import PassageTable
from hermitcrab_memory_lancedb.rows import Pending, vector_column

#: Vectors are searched once this share of the passages has one: ranked by half of them, the other half would sink.
LEAST_COVERAGE = 0.9
#: A remote provider makes the first vectors of an index unasked up to this many tokens.
FREE_TOKENS = 200_000

_BATCH = 256
_CHARACTERS_PER_TOKEN = 4


@frozen
class FillReport:
    """How many texts were embedded, and why there are passages without a vector, if there are."""

    embedded: int = 0
    problem: str | None = None


@frozen(kw_only=True)
class VectorState:
    """The column of the provider at hand, if there is one; and how many passages have a vector in it.

    ``others`` are columns of other models.
    """

    column: str | None = None
    dims: int = 0
    vectors: int = 0
    passages: int = 0
    others: tuple[str, ...] = ()

    @property
    def pending(self) -> int:
        return self.passages - self.vectors

    @property
    def is_ready(self) -> bool:
        """Whether vectors may take part in a search."""
        return self.vectors > 0 and self.vectors >= LEAST_COVERAGE * self.passages


class Filler:
    """Makes vectors, in one process at a time."""

    def __init__(
        self, table: PassageTable, embedder: Embedder, folder: Path, logger: Logger
    ) -> None:
        self.embedder = embedder
        #: Why there are passages without a vector, if the last run left any.
        self.problem: str | None = None
        self._table = table
        self._folder = folder
        self._logger = logger
        self._dims: dict[str, int] = {}

    async def state(self, dims: int = 0) -> VectorState:
        """How the vectors stand; ``dims`` is how many numbers the provider's have, where the caller knows it."""
        fingerprint = self.embedder.fingerprint()
        dims = dims or self.embedder.provider.dims or self._dims.get(fingerprint, 0)
        columns = await self._table.vector_columns()
        column = _column_of(columns, fingerprint, dims)
        counts = await self._table.counts(column)
        return VectorState(
            column=column,
            dims=dims if column is None else int(column.rpartition("_")[2]),
            vectors=counts.vectors,
            passages=counts.passages,
            others=tuple(name for name in columns if name != column),
        )

    def explained(self, state: VectorState) -> str:
        """Why vectors take no part in a search, or miss some passages."""
        if self.problem is not None:
            return self.problem
        if self.embedder.error is not None:
            return f"Vectors could not be made: {self.embedder.error}"
        missing = f"{state.pending:,} of {state.passages:,} passages have no vector yet"
        return f"Vectors are being made ({missing}); search again in a while"

    async def fill(self, *, force: bool = False, progress: Progress | None = None) -> FillReport:
        """Make the missing vectors; with ``force`` also those that cost money and were not asked for.

        A failure is the report's ``problem``: what was made until then stays, and the next run goes on from there.
        """
        if self.embedder.is_resting and not force:
            self.problem = self.problem or f"Vectors could not be made: {self.embedder.error}"
            return FillReport(problem=self.problem)
        made: list[int] = []
        self.problem = None
        try:
            async with alone(self._folder, "vectors"):
                self.problem = await self._run(force, progress, made)
        except MemoryBackendError as error:
            self._logger.warning("vectors could not be made: %s", error)
            self.problem = await self._partly(error)
        return FillReport(embedded=sum(made), problem=self.problem)

    async def _run(self, force: bool, progress: Progress | None, made: list[int]) -> str | None:
        state = await self.state()
        refusal = None if force else await self._refusal(state)
        if refusal is not None:
            return refusal
        done, total = 0, state.pending
        column, dims = state.column, state.dims
        while batch := await self._table.pending(column, limit=_BATCH):
            vectors = await self._vectors(batch)
            made.append(len(vectors))
            dims = len(next(iter(vectors.values())))
            fingerprint = self.embedder.fingerprint()
            self._dims[fingerprint] = dims
            column = vector_column(fingerprint, dims)
            rows = [(item, vectors[item.key]) for item in batch]
            await self._table.put_vectors(column, dims, rows)
            done += len(batch)
            if progress is not None:
                progress(done, max(total, done), "vectors")
        await self._table.finished()
        for other in (await self.state()).others:
            await self._table.drop_vectors(other)
        return None

    async def _vectors(self, batch: list[Pending]) -> dict[str, Vector]:
        fingerprint = self.embedder.fingerprint()
        texts = {item.key: item.text for item in batch}
        vectors = await self.embedder.documents(list(texts.values()))
        if self.embedder.fingerprint() != fingerprint:
            raise EmbeddingError("the provider was replaced by its fallback", kind="switched")
        return dict(zip(texts, vectors, strict=True))

    async def _refusal(self, state: VectorState) -> str | None:
        """Nothing that costs money is made in silence: not after a change of the model, and not very much at once."""
        if not self.embedder.provider.remote or state.vectors > 0 or state.pending == 0:
            return None
        changed = any([(await self._table.counts(name)).vectors for name in state.others])
        pending = await self._table.pending(None)
        tokens = sum(weighted_length(item.text) for item in pending) // _CHARACTERS_PER_TOKEN
        if not changed and tokens <= FREE_TOKENS:
            return None
        why = "the vectors are of another model" if changed else "there are no vectors yet"
        return (
            f"Only keywords are searched: {why}, and making them takes {len(pending):,} texts, about {tokens:,} "
            f"tokens, by {self.embedder.name}. Run `hermitcrab memory index --force` to make them"
        )

    async def _partly(self, error: MemoryBackendError) -> str:
        problem = f"Vectors could not be made: {error}"
        try:
            state = await self.state()
        except MemoryBackendError:  # said already
            return problem
        return f"{problem}. {state.vectors:,} of {state.passages:,} passages have one, the next sync goes on from there"


def _column_of(columns: tuple[str, ...], fingerprint: str, dims: int) -> str | None:
    if dims:
        column = vector_column(fingerprint, dims)
        return column if column in columns else None
    prefix = vector_column(fingerprint, 0)[:-1]
    return next((column for column in columns if column.startswith(prefix)), None)
