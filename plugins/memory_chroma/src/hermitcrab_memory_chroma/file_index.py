"""The passages of one agent's files in Chroma, and the record of what is indexed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from attrs import evolve, field, frozen

from hermitcrab.memory import SyncReport
from hermitcrab.memory.files import MemoryFile, load
from hermitcrab_memory_chroma.connection import CollectionSpec, Connection
from hermitcrab_memory_chroma.file_plan import IndexedFile, SyncPlan, indexed_file
from hermitcrab_memory_chroma.file_rows import (
    RULES,
    FileRows,
    Scope,
    cut_of,
    file_rows,
    passage_id,
)
from hermitcrab_memory_chroma.rows import (
    WRITE_ROWS,
    Row,
    all_of,
    by_id,
    delete,
    every,
    pages,
    write,
)


@frozen(kw_only=True)
class _Read:
    """A file as it was read: the record to keep and, unless its content is known, its passages."""

    record: IndexedFile
    cut: FileRows | None = None


@frozen(kw_only=True)
class _Outcome:
    """What came of some files."""

    read: tuple[_Read, ...] = ()
    gone: tuple[str, ...] = ()
    skipped: tuple[str, ...] = field(default=())


class FileIndex:
    """Keeps passages with placeholder vectors: words find them whether or not there is an embedding provider.

    Each agent and workspace has a collection of its own: nobody else's passages can be found in it, and Chroma needs
    no filter, which takes it twenty times as long as the search itself.

    A file's record is written after its passages: whatever is cut short is done again.
    """

    def __init__(self, connection: Connection, scope: Scope, prefix: str) -> None:
        self._connection = connection
        self.scope = scope
        #: The beginning of the names of this agent's collections, whoever's workspace they are of.
        self.family = f"{prefix}-files-{scope.agent_key}-"
        self.passages = CollectionSpec(
            name=f"{self.family}{scope.key}",
            space="l2",
            metadata=scope.metadata,
        )
        self.records = CollectionSpec(name=f"{prefix}-indexed", space="l2")
        #: What the check at opening found and repaired.
        self.notes: list[str] = []
        #: Another number means that :attr:`known` changed.
        self.revision = 0
        self._indexed: dict[str, IndexedFile] | None = None
        self._generation = 0

    @property
    def known(self) -> Mapping[str, IndexedFile]:
        """What was indexed when it was last looked at; empty before that."""
        return self._indexed or {}

    async def indexed(self) -> Mapping[str, IndexedFile]:
        """What is indexed of each file, read once for each generation and checked against the passages (C91)."""
        if self._indexed is None or self._connection.generation != self._generation:
            self._indexed = await self._checked()
            self.revision += 1
            self._generation = self._connection.generation
        return self._indexed

    async def others(self) -> list[str]:
        """The keys of this agent's other workspaces."""
        names = [name for name in await self._connection.names() if name.startswith(self.family)]
        return [
            name.removeprefix(self.family) for name in sorted(names) if name != self.passages.name
        ]

    async def update(
        self,
        plan: SyncPlan,
        report: SyncReport,
        *,
        force: bool,
        progress: Callable[[int, str], None],
    ) -> SyncReport:
        """Carry out ``plan``, and return ``report`` with it counted."""
        done = 0
        for files in _batches(plan.suspects):
            outcome = await asyncio.to_thread(self._read, files, force)
            await self._keep(outcome.read)
            await self._forget(outcome.gone)
            fresh = sum(each.cut is not None for each in outcome.read)
            report = evolve(
                report,
                indexed=report.indexed + fresh,
                unchanged=report.unchanged + len(outcome.read) - fresh,
                removed=report.removed + len(outcome.gone),
                skipped=(*report.skipped, *outcome.skipped),
            )
            done += len(files)
            progress(done, files[-1].path)
        await self._forget(plan.vanished)
        return evolve(report, removed=report.removed + len(plan.vanished))

    def _read(self, files: Sequence[MemoryFile], force: bool) -> _Outcome:
        read: list[_Read] = []
        gone: list[str] = []
        skipped: list[str] = []
        for file in files:
            read_at_ns = time.time_ns()
            try:
                text, file_hash = load(file)
            except FileNotFoundError:
                gone.append(file.path)
            except OSError as error:
                skipped.append(f"{file.path}: cannot be read ({error.strerror})")
            else:
                read.append(self._compared(file, text, file_hash, read_at_ns, force))
        return _Outcome(read=tuple(read), gone=tuple(gone), skipped=tuple(skipped))

    def _compared(
        self, file: MemoryFile, text: str, file_hash: str, read_at_ns: int, force: bool
    ) -> _Read:
        before = self.known.get(file.path)
        if before is not None and (before.hash, before.rules) == (file_hash, RULES) and not force:
            record = evolve(before, mtime_ns=file.mtime_ns, size=file.size, read_at_ns=read_at_ns)
            return _Read(record=record)
        cut = file_rows(self.scope, file.path, text, file_hash)
        record = IndexedFile(
            path=file.path,
            mtime_ns=file.mtime_ns,
            size=file.size,
            read_at_ns=read_at_ns,
            hash=file_hash,
            rules=RULES,
            vector_ids=tuple(str(row.metadata["vector"]) for row in cut.rows),
        )
        return _Read(record=record, cut=cut)

    async def _keep(self, read: Sequence[_Read]) -> None:
        cut = [each for each in read if each.cut is not None]
        rows = [row for each in cut if each.cut is not None for row in each.cut.rows]
        await write(self._connection, self.passages, rows)
        await self._delete_passages(
            [each.record.path for each in cut], [cut_of(each.record.hash) for each in cut]
        )
        await write(self._connection, self.records, [each.record.row(self.scope) for each in read])
        self.revision += 1
        if self._indexed is not None:
            self._indexed.update({each.record.path: each.record for each in read})

    async def _forget(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), WRITE_ROWS):
            await self._delete_passages(paths[start : start + WRITE_ROWS], ())
        await delete(self._connection, self.records, [self.scope.file_id(path) for path in paths])
        self.revision += 1
        for path in paths:
            if self._indexed is not None:
                self._indexed.pop(path, None)

    async def _delete_passages(self, paths: Sequence[str], but: Sequence[str]) -> None:
        """Delete the passages of some files, except those of the present cuts.

        By what Chroma has, not by what this process knows: another one may have indexed other versions.
        """
        if not paths:
            return
        where: dict[str, Any] = {"path": {"$in": list(paths)}}
        if but:
            where["cut"] = {"$nin": list(but)}
        await self._connection.call(self.passages, "delete", create=False, where=all_of(where))

    async def _checked(self) -> dict[str, IndexedFile]:
        """The records; files of which there are more or fewer passages than recorded are marked as broken.

        Nothing is deleted here: another process may be in the middle of writing.
        """
        records = await self._records()
        there: Counter[str] = Counter()
        async for page in pages(self._connection, self.passages, None, include=()):
            there.update(row.id.rpartition(":")[0] for row in page)
        recorded = {self.scope.file_id(path): record for path, record in records.items()}
        lost = [
            record.path for file_id, record in recorded.items() if there[file_id] != record.passages
        ]
        strangers = await self._paths_of(there.keys() - recorded.keys())
        if lost:
            self.notes.append(
                f"Chroma had other passages of {len(lost)} files than recorded; they are indexed again"
            )
        return records | {path: IndexedFile.broken(path) for path in (*lost, *strangers)}

    async def _paths_of(self, file_ids: Set[str]) -> list[str]:
        first = [passage_id(file_id, 0) for file_id in sorted(file_ids)]
        rows = await by_id(self._connection, self.passages, first)
        return [str(row.metadata["path"]) for row in rows]

    async def _records(self) -> dict[str, IndexedFile]:
        where = {**self.scope.metadata, "kind": "file"}
        rows: list[Row] = await every(self._connection, self.records, where)
        found = (indexed_file(self.scope, row.metadata) for row in rows)
        return {record.path: record for record in found if record is not None}


def _batches(files: Sequence[MemoryFile]) -> list[Sequence[MemoryFile]]:
    """Files that are written together: about as many bytes as fill one request."""
    groups: list[list[MemoryFile]] = [[]]
    size = 0
    for file in files:
        if groups[-1] and (size + file.size > WRITE_ROWS * 200 or len(groups[-1]) >= WRITE_ROWS):
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return [group for group in groups if group]
