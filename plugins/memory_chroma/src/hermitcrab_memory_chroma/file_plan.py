"""What is indexed of the files, and what a sync has to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from hermitcrab.memory.files import Discovery, MemoryFile
from hermitcrab_memory_chroma.file_rows import RULES, Scope
from hermitcrab_memory_chroma.rows import Row

# A file that was read this soon after its last change may have changed again within the same tick of the clock.
_SETTLING_NS = 100_000_000


@frozen(kw_only=True)
class IndexedFile:
    """What Chroma has of a file; ``vector_ids`` are those of its passages, in order."""

    path: str
    mtime_ns: int
    size: int
    read_at_ns: int
    hash: str
    rules: str
    vector_ids: tuple[str, ...]

    @classmethod
    def broken(cls, path: str) -> IndexedFile:
        """A file of which Chroma has something other than what it should: it is indexed again, or forgotten."""
        return cls(path=path, mtime_ns=0, size=0, read_at_ns=0, hash="", rules="", vector_ids=())

    @property
    def passages(self) -> int:
        return len(self.vector_ids)

    def row(self, scope: Scope) -> Row:
        """The row that remembers it."""
        prefix = f"{scope.key}:"
        return Row(
            id=scope.file_id(self.path),
            metadata={
                **scope.metadata,
                "kind": "file",
                "path": self.path,
                "mtimeNs": str(self.mtime_ns),
                "size": self.size,
                "readAtNs": str(self.read_at_ns),
                "hash": self.hash,
                "rules": self.rules,
                "vectors": ",".join(each.removeprefix(prefix) for each in self.vector_ids),
            },
        )


def indexed_file(scope: Scope, metadata: Mapping[str, Any]) -> IndexedFile | None:
    """What a row remembers; None if it is not of this kind."""
    try:
        vectors = str(metadata["vectors"])
        return IndexedFile(
            path=str(metadata["path"]),
            mtime_ns=int(metadata["mtimeNs"]),
            size=int(metadata["size"]),
            read_at_ns=int(metadata["readAtNs"]),
            hash=str(metadata["hash"]),
            rules=str(metadata["rules"]),
            vector_ids=tuple(f"{scope.key}:{each}" for each in vectors.split(",") if each),
        )
    except (KeyError, ValueError):
        return None


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
    indexed: Mapping[str, IndexedFile], discovery: Discovery, *, force: bool = False
) -> SyncPlan:
    """Compare by modification time and size; the hash decides once a suspect is read."""
    suspects = tuple(
        file for file in discovery.files if force or not _is_known(indexed.get(file.path), file)
    )
    present = {file.path for file in discovery.files}
    return SyncPlan(
        suspects=suspects,
        vanished=tuple(path for path in indexed if path not in present),
        unchanged=len(discovery.files) - len(suspects),
        skipped=tuple(map(str, discovery.skipped)),
    )


def _is_known(indexed: IndexedFile | None, file: MemoryFile) -> bool:
    return (
        indexed is not None
        and indexed.rules == RULES
        and indexed.mtime_ns == file.mtime_ns
        and indexed.size == file.size
        and indexed.read_at_ns - indexed.mtime_ns > _SETTLING_NS
    )
