"""Taking the memories of one backend to another: what is there already stays, so it can be done again after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from attrs import frozen

from hermitcrab.agent.memory_copy.notes import PATH, ids_in, with_memories
from hermitcrab.agent.replacing import replace_file
from hermitcrab.errors import MemoryBackendError, PathRefusedError
from hermitcrab.memory.contract import MemoryBackend, Progress, SyncReport
from hermitcrab.memory.files import safe_path
from hermitcrab.memory.longterm import LongTermStore, Memory

_PAGE = 500
# So many refusals one after another are not about the memories any more.
_MOST_REFUSALS = 5


@frozen
class Refusal:
    """A memory that the new backend does not take, and why."""

    memory_id: str
    reason: str


@frozen(kw_only=True)
class CopyReport:
    """What a copy did.

    ``files`` says how the new backend indexed the files of the agent. Of ``memories`` single ones in the old backend,
    ``moved`` are new in the other one, ``already`` were there; ``found`` were seen there afterwards. ``notes`` is the
    file that they were written to where the new backend keeps no single memories.
    """

    agent_id: str
    source: str
    target: str
    files: SyncReport
    files_found: int = 0
    memories: int = 0
    moved: int = 0
    already: int = 0
    found: int = 0
    refused: tuple[Refusal, ...] = ()
    notes: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all memories were seen in the new backend."""
        return self.found == self.memories


@frozen(kw_only=True)
class _Moved:
    moved: int = 0
    already: int = 0
    refused: tuple[Refusal, ...] = ()
    notes: str | None = None


@frozen(kw_only=True)
class Move:
    """A copy of one agent's memory from ``source`` to ``target``, which are named by their ids."""

    agent_id: str
    workspace: Path
    source_id: str
    source: MemoryBackend
    target_id: str
    target: MemoryBackend

    async def run(self, progress: Progress | None = None) -> CopyReport:
        """Move single memories, then index the files, then count what the new backend has.

        :raises MemoryBackendError: a backend fails; what was moved so far stays, and running again goes on.
        """
        store = self.source.long_term
        done = _Moved() if store is None else await self._memories(store, progress)
        files = await self.target.sync("copy", progress=progress)
        expected = frozenset() if store is None else await _ids(store)
        there = await self._ids_there()
        return CopyReport(
            agent_id=self.agent_id,
            source=self.source_id,
            target=self.target_id,
            files=files,
            files_found=(await self.target.status()).files,
            memories=len(expected),
            found=len(expected & there),
            moved=done.moved,
            already=done.already,
            refused=done.refused,
            notes=done.notes,
        )

    async def _memories(self, store: LongTermStore, progress: Progress | None) -> _Moved:
        if self.target.long_term is None:
            return await self._write_notes(store)
        return await _add_missing(store, self.target.long_term, progress)

    async def _write_notes(self, store: LongTermStore) -> _Moved:
        path = PATH.format(backend=self.source_id)
        file = safe_path(self.workspace, path)
        text = await asyncio.to_thread(_read, file)
        known = ids_in(text)
        memories = [memory async for memory in _pages(store)]
        missing = [memory for memory in memories if memory.id not in known]
        if missing:
            data = with_memories(text, missing, self.source_id).encode(errors="replace")
            await asyncio.to_thread(_replace, file, data)
        already = len(memories) - len(missing)
        return _Moved(moved=len(missing), already=already, notes=path if memories else None)

    async def _ids_there(self) -> frozenset[str]:
        if self.target.long_term is not None:
            return await _ids(self.target.long_term)
        try:
            file = safe_path(self.workspace, PATH.format(backend=self.source_id))
        except PathRefusedError:  # nothing was written there either
            return frozenset()
        return ids_in(await asyncio.to_thread(_read, file))


async def _add_missing(
    source: LongTermStore, target: LongTermStore, progress: Progress | None
) -> _Moved:
    known, total = await _ids(target), await source.count()
    moved = already = in_a_row = 0
    refused: list[Refusal] = []
    async for memory in _pages(source):
        if memory.id in known:
            already += 1
        else:
            reason = await _add(target, memory)
            moved, in_a_row = (moved + 1, 0) if reason is None else (moved, in_a_row + 1)
            refused += [] if reason is None else [Refusal(memory.id, reason)]
            if in_a_row == _MOST_REFUSALS:
                raise _stopped(moved, already, str(reason))
        if progress is not None:
            progress(moved + already + len(refused), total, memory.text)
    return _Moved(moved=moved, already=already, refused=tuple(refused))


async def _add(target: LongTermStore, memory: Memory) -> str | None:
    """Add one memory as it is; why not, if it is refused."""
    try:
        await target.add(
            memory.text,
            category=memory.category,
            importance=memory.importance,
            scope=memory.scope,
            session_key=memory.session_key,
            source=memory.source,
            memory_id=memory.id,
            created_at_ms=memory.created_at_ms,
        )
    except MemoryBackendError as error:
        return str(error)
    return None


def _stopped(moved: int, already: int, reason: str) -> MemoryBackendError:
    return MemoryBackendError(
        f"the copy stopped, because {_MOST_REFUSALS} memories in a row were refused ({reason});"
        f" {moved} were moved and {already} there already",
        hint="Mend that and run the command again: it goes on where it stopped",
    )


async def _pages(store: LongTermStore) -> AsyncIterator[Memory]:
    """All memories of a store by id."""
    offset = 0
    while page := await store.listed(limit=_PAGE, offset=offset):
        for memory in page:
            yield memory
        offset += len(page)


async def _ids(store: LongTermStore) -> frozenset[str]:
    return frozenset([memory.id async for memory in _pages(store)])


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return ""


def _replace(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(file, data)
