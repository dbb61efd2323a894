"""What a sync has to do: a comparison of the files on disk with the files in the index."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from hermitcrab.memory.files import Discovery, MemoryFile
from hermitcrab_memory_core.index import StoredFile

# A file that was read this soon after its last change may have changed again within the same tick of the clock.
_SETTLING_NS = 100_000_000


@frozen
class SyncPlan:
    """Files to read because they are new or may have changed, and paths to forget."""

    suspects: tuple[MemoryFile, ...]
    vanished: tuple[str, ...]
    unchanged: int
    skipped: tuple[str, ...]

    @property
    def is_needed(self) -> bool:
        return bool(self.suspects or self.vanished)


def plan_sync(
    stored: Mapping[str, StoredFile],
    discovery: Discovery,
    *,
    chunking: str,
    force: bool = False,
) -> SyncPlan:
    """Compare by modification time and size; the hash decides once a suspect is read.

    A file that was cut by something else than ``chunking`` is read again, and searched as it is until then.
    """
    suspects = tuple(
        file
        for file in discovery.files
        if force or not _is_known(stored.get(file.path), file, chunking)
    )
    present = {file.path for file in discovery.files}
    return SyncPlan(
        suspects=suspects,
        vanished=tuple(path for path in stored if path not in present),
        unchanged=len(discovery.files) - len(suspects),
        skipped=tuple(map(str, discovery.skipped)),
    )


def _is_known(stored: StoredFile | None, file: MemoryFile, chunking: str) -> bool:
    return (
        stored is not None
        and stored.chunking == chunking
        and stored.mtime_ns == file.mtime_ns
        and stored.size == file.size
        and stored.read_at_ns - stored.mtime_ns > _SETTLING_NS
    )
