"""What a sync has to do: a comparison of the files on disk with the files in the index. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from hermitcrab.memory.files import PASSAGE_VERSION, Discovery, MemoryFile
from hermitcrab.memory.ranking import EMBEDDING_TEXT_VERSION
from hermitcrab_memory_lancedb.rows import FileContent, StoredFile

#: What cuts the files; one that was cut by anything else is cut again. The last number is that of the terms.
CHUNKING = json.dumps([PASSAGE_VERSION, EMBEDDING_TEXT_VERSION, 1])

# A file that was read this soon after its last change may have changed again within the same tick of the clock.
_SETTLING_NS = 100_000_000
# How much is written in one step: each makes a version of the table.
_MOST_FILES = 64
_MOST_PASSAGES = 2000


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
    stored: Mapping[str, StoredFile], discovery: Discovery, *, force: bool = False
) -> SyncPlan:
    """Compare by modification time and size; the hash decides once a suspect is read."""
    suspects = tuple(
        file for file in discovery.files if force or not _is_known(stored.get(file.path), file)
    )
    present = {file.path for file in discovery.files}
    return SyncPlan(
        suspects=suspects,
        vanished=tuple(path for path in stored if path not in present),
        unchanged=len(discovery.files) - len(suspects),
        skipped=tuple(map(str, discovery.skipped)),
    )


def batches(files: Sequence[MemoryFile]) -> Iterator[Sequence[MemoryFile]]:
    """Files that are read together."""
    for start in range(0, len(files), _MOST_FILES):
        yield files[start : start + _MOST_FILES]


def writes(contents: Sequence[FileContent]) -> Iterator[Sequence[FileContent]]:
    """Files that are written together."""
    group: list[FileContent] = []
    passages = 0
    for content in contents:
        if group and passages + len(content.passages) > _MOST_PASSAGES:
            yield group
            group, passages = [], 0
        group.append(content)
        passages += len(content.passages)
    if group:
        yield group


def _is_known(stored: StoredFile | None, file: MemoryFile) -> bool:
    return (
        stored is not None
        and stored.chunking == CHUNKING
        and stored.mtime_ns == file.mtime_ns
        and stored.size == file.size
        and stored.read_at_ns - stored.mtime_ns > _SETTLING_NS
    )
