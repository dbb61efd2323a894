"""The backend: keeps the index up to date, and finds passages by their words."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from attrs import frozen

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import (
    MemoryBackend,
    MemoryContext,
    MemoryStatus,
    Progress,
    ReadResult,
    SearchResult,
    SyncReport,
    prompt_section,
)
from hermitcrab.memory.files import (
    Discovery,
    Keywords,
    discover,
    index_terms,
    keywords,
    read_memory,
)
from hermitcrab.memory.ranking import (
    FusionSettings,
    Place,
    StoredPassage,
    Unit,
    choose,
    fuse,
    note_day,
)
from hermitcrab_notes_memory.index import Note, read_index, read_note, write_index


@frozen
class Pass:
    """What became of the notes in one sync."""

    notes: Mapping[str, Note]
    indexed: int
    removed: int
    unchanged: int
    skipped: tuple[str, ...]


class NotesMemory(MemoryBackend):
    """Searches the Markdown files of one agent by their words."""

    def __init__(self, context: MemoryContext) -> None:
        self._workspace = context.workspace
        self._extra_paths = () if context.config is None else context.config.extra_paths
        self._file = context.index_path.with_suffix(".json")
        self._missing = context.embeddings_problem
        self._lock = asyncio.Lock()

    async def search(
        self,
        query: str,
        *,
        max_results: int = 6,
        min_score: float | None = None,
        sources: Sequence[str] | None = None,
        session_key: str | None = None,
    ) -> SearchResult:
        """The passages with most of the query's terms; what has changed is indexed first."""
        wanted = keywords(query)
        if not wanted or max_results < 1 or (sources is not None and "memory" not in sources):
            return SearchResult()
        notes = (await self._refreshed()).notes
        passages = await asyncio.to_thread(_passages, notes)
        units = await asyncio.to_thread(_units, passages, wanted)
        ranked = fuse(units, FusionSettings(), today=date.today())
        hits = choose(ranked, lambda number: _around(passages, number), max_results)
        floor = 0.0 if min_score is None else min_score
        return SearchResult(
            hits=tuple(hit for hit in hits if hit.score >= floor),
            degraded=self._missing is not None,
            reason=self._missing,
        )

    async def read(self, path: str, *, start: int = 1, lines: int | None = None) -> ReadResult:
        """Lines of a note."""
        reading: Any = {"start": start, "lines": lines, "extra_paths": self._extra_paths}
        return await asyncio.to_thread(read_memory, self._workspace, path, **reading)

    async def sync(
        self, reason: str, *, force: bool = False, progress: Progress | None = None
    ) -> SyncReport:
        """Index what has changed; ``force`` reads every note again."""
        done = await self._refreshed(force=force)
        return SyncReport(
            reason=reason,
            indexed=done.indexed,
            removed=done.removed,
            unchanged=done.unchanged,
            chunks=sum(len(note.pieces) for note in done.notes.values()),
            skipped=done.skipped,
        )

    async def status(self) -> MemoryStatus:
        """What the index has, and whether the notes have changed since."""
        notes = await asyncio.to_thread(read_index, self._file)
        found = await asyncio.to_thread(discover, self._workspace, self._extra_paths)
        return MemoryStatus(
            backend="notes-memory",
            files=len(notes),
            chunks=sum(len(note.pieces) for note in notes.values()),
            index_path=self._file,
            dirty=_is_behind(notes, found),
            skipped=tuple(str(each) for each in found.skipped),
        )

    def prompt_section(self, tools: Sequence[str]) -> str | None:
        """What the model is told about memory: the same as with the built-in one."""
        return prompt_section(tools)

    async def _refreshed(self, *, force: bool = False) -> Pass:
        """One at a time; another process that does the same writes the same."""
        async with self._lock:
            return await asyncio.to_thread(self._refresh, force)

    def _refresh(self, force: bool) -> Pass:
        known = read_index(self._file)
        found = discover(self._workspace, self._extra_paths)
        skipped = [str(each) for each in found.skipped]
        notes: dict[str, Note] = {}
        indexed = 0
        for file in found.files:
            note = known.get(file.path)
            if force or note is None or not note.is_of(file):
                try:
                    note = read_note(file)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    skipped.append(f"{file.path}: cannot be read ({error.strerror})")
                    continue
                indexed += 1
            notes[file.path] = note
        if notes != known:
            self._write(notes)
        removed = len(known.keys() - notes.keys())
        return Pass(notes, indexed, removed, len(notes) - indexed, tuple(skipped))

    def _write(self, notes: Mapping[str, Note]) -> None:
        try:
            write_index(self._file, notes)
        except OSError as error:
            raise MemoryBackendError(
                f"the index cannot be written: {error.strerror}",
                where=self._file,
                hint="Check who owns the folder and whether the disk is full",
            ) from error


def _is_behind(notes: Mapping[str, Note], found: Discovery) -> bool:
    present = {file.path: file for file in found.files}
    return notes.keys() != present.keys() or any(
        not notes[path].is_of(file) for path, file in present.items()
    )


def _passages(notes: Mapping[str, Note]) -> list[StoredPassage]:
    """All passages, numbered in the order in which they stand."""
    pieces = [(path, piece) for path in sorted(notes) for piece in notes[path].pieces]
    return [
        StoredPassage(number, path, piece.start_line, piece.end_line, piece.text)
        for number, (path, piece) in enumerate(pieces)
    ]


def _units(passages: Sequence[StoredPassage], wanted: Keywords) -> list[Unit]:
    """The passages that have a term of the query; a term that few have counts for more."""
    terms = {*wanted.words, *wanted.pairs, *wanted.characters}
    found = [terms & _terms(passage) for passage in passages]
    common = Counter(term for each in found for term in each)
    return [
        Unit(
            place=Place(passage.id, passage.path, passage.start_line, passage.end_line),
            keyword=sum(1 / common[term] for term in each),
            day=note_day(passage.path),
        )
        for passage, each in zip(passages, found, strict=True)
        if each
    ]


def _terms(passage: StoredPassage) -> set[str]:
    terms = index_terms(f"{passage.path}\n{passage.text}")
    return {*terms.words, *terms.pairs, *terms.characters}


def _around(passages: Sequence[StoredPassage], number: int) -> list[StoredPassage]:
    """A passage and its neighbours in the same file."""
    path = passages[number].path
    return [each for each in passages[max(0, number - 2) : number + 3] if each.path == path]
