"""Keeping the table of passages in step with the files: adding one file costs that file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from hermitcrab.memory import Progress, SyncReport
from hermitcrab.memory.files import MemoryFile, discover, load, passages_of
from hermitcrab_memory_lancedb.locking import alone
from hermitcrab_memory_lancedb.passages import PassageTable
from hermitcrab_memory_lancedb.plan import CHUNKING, SyncPlan, batches, plan_sync, writes
from hermitcrab_memory_lancedb.rows import FileContent, StoredFile


@frozen
class _Read:
    """Files that were read: changed, only touched, vanished, and those that cannot be read."""

    changed: tuple[FileContent, ...] = ()
    touched: tuple[FileContent, ...] = ()
    vanished: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


class Indexer:
    """Reads what changed and writes it, in one process at a time."""

    def __init__(
        self, table: PassageTable, workspace: Path, extra_paths: Sequence[str], folder: Path
    ) -> None:
        self._table = table
        self._workspace = workspace
        self._extra_paths = tuple(extra_paths)
        self._folder = folder

    async def plan(self, *, force: bool = False) -> SyncPlan:
        """What there is to do."""
        discovery = await asyncio.to_thread(discover, self._workspace, self._extra_paths)
        return plan_sync(await self._table.files(), discovery, force=force)

    async def run(
        self, report: SyncReport, *, force: bool, progress: Progress | None
    ) -> SyncReport:
        """Do it, and count it in ``report``."""
        async with alone(self._folder, "files"):
            plan = await self.plan(force=force)
            report = evolve(report, unchanged=plan.unchanged, skipped=plan.skipped)
            stored = await self._table.files()
            done = 0
            for files in batches(plan.suspects):
                read = await asyncio.to_thread(_read, files, stored, force)
                report = await self._write(report, read)
                done += len(files)
                if progress is not None:
                    progress(done, len(plan.suspects), files[-1].path)
            await self._table.remove(plan.vanished)
            await self._table.finished()
        return evolve(report, removed=report.removed + len(plan.vanished))

    async def _write(self, report: SyncReport, read: _Read) -> SyncReport:
        for contents in writes(read.changed):
            await self._table.replace(contents)
        for content in read.touched:
            await self._table.touch(content.file.path, content.stored)
        await self._table.remove(read.vanished)
        return evolve(
            report,
            indexed=report.indexed + len(read.changed),
            unchanged=report.unchanged + len(read.touched),
            removed=report.removed + len(read.vanished),
            skipped=(*report.skipped, *read.skipped),
        )


def _read(files: Sequence[MemoryFile], stored: Mapping[str, StoredFile], force: bool) -> _Read:
    changed: list[FileContent] = []
    touched: list[FileContent] = []
    vanished: list[str] = []
    skipped: list[str] = []
    for file in files:
        read_at_ns = time.time_ns()
        try:
            text, digest = load(file)
        except FileNotFoundError:
            vanished.append(file.path)
            continue
        except OSError as error:
            skipped.append(f"{file.path}: cannot be read ({error.strerror})")
            continue
        known = stored.get(file.path)
        is_known = known is not None and (known.hash, known.chunking) == (digest, CHUNKING)
        state = StoredFile(
            mtime_ns=file.mtime_ns,
            size=file.size,
            hash=digest,
            chunking=CHUNKING,
            read_at_ns=read_at_ns,
        )
        if is_known and not force:
            touched.append(FileContent(file=file, passages=(), stored=state))
        else:
            passages = tuple(passages_of(text))
            changed.append(FileContent(file=file, passages=passages, stored=state))
    return _Read(tuple(changed), tuple(touched), tuple(vanished), tuple(skipped))
