"""What an index is made of: the Markdown files of memory, or the transcripts of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from attrs import evolve, frozen

from hermitcrab.errors import MemoryBackendError, SessionError
from hermitcrab.memory.files import Discovery, MemoryFile, discover, load
from hermitcrab.memory.transcripts import (
    RENDERING_VERSION,
    Growth,
    TranscriptFile,
    TranscriptSource,
    is_due,
    measured,
)
from hermitcrab_memory_core.index import StoredFile
from hermitcrab_memory_core.plan import SyncPlan
from hermitcrab_memory_core.settings import MEMORY, SESSIONS

# A sync with one of these reasons is about files alone (memory 3.10).
_FILES_ALONE = frozenset({"session-start", "watch"})


@frozen
class Loaded:
    """The text of a file, and a hash of all that the index keeps of it.

    ``lines`` says for each line of the text on which line of the file it stands, where that is not the same.
    """

    text: str
    digest: str
    lines: tuple[int, ...] = ()


class Corpus(Protocol):
    """Texts of one source. All methods block."""

    source: str
    #: Changes when the same file would give another text.
    rendering: int

    def index_path(self, path: Path) -> Path:
        """Where the index of this source stands, given that of memory files."""

    def discover(self) -> Discovery:
        """All that there is.

        :raises MemoryBackendError: it cannot be listed.
        """

    def load(self, file: MemoryFile) -> Loaded:
        """:raises OSError: the file vanished or cannot be read."""

    def due(self, plan: SyncPlan, stored: Mapping[str, StoredFile], reason: str) -> SyncPlan:
        """What of ``plan`` is worth doing now; not asked where a sync is forced."""

    def done(self, reason: str) -> None:
        """A sync has come to its end."""

    def visible(self, session_key: str | None) -> frozenset[str] | None:
        """The paths that a session may see; ``None`` is all."""


class FileCorpus:
    """``MEMORY.md``, ``USER.md``, ``memory/**/*.md`` and the configured extra paths of one agent."""

    source = MEMORY
    rendering = 0

    def __init__(self, workspace: Path, extra_paths: tuple[str, ...]) -> None:
        self._workspace = workspace
        self._extra_paths = extra_paths

    def index_path(self, path: Path) -> Path:
        return path

    def discover(self) -> Discovery:
        return discover(self._workspace, self._extra_paths)

    def load(self, file: MemoryFile) -> Loaded:
        return Loaded(*load(file))

    def due(self, plan: SyncPlan, stored: Mapping[str, StoredFile], reason: str) -> SyncPlan:
        return plan

    def done(self, reason: str) -> None:
        return

    def visible(self, session_key: str | None) -> frozenset[str] | None:
        return None


class SessionCorpus:
    """The transcripts of one agent's sessions.

    The first sync of a process takes in all that changed. After it, a conversation that goes on is indexed again once
    it has grown by ``sync.sessions.deltaBytes`` or ``deltaMessages``, or was compacted; one that is over, as soon as
    that is seen.
    """

    source = SESSIONS
    rendering = RENDERING_VERSION

    def __init__(self, transcripts: TranscriptSource) -> None:
        self._transcripts = transcripts
        self._is_first = True
        self._current: frozenset[str] = frozenset()
        self._growth: dict[str, Growth] = {}

    def index_path(self, path: Path) -> Path:
        return sessions_path(path)

    def discover(self) -> Discovery:
        files = self._files()
        self._current = frozenset(file.path for file in files if file.is_current)
        return Discovery(
            tuple(MemoryFile(file.path, file.absolute, file.mtime_ns, file.size) for file in files)
        )

    def load(self, file: MemoryFile) -> Loaded:
        rendered = self._transcripts.load(file.absolute)
        return Loaded(rendered.text, rendered.digest, rendered.lines)

    def due(self, plan: SyncPlan, stored: Mapping[str, StoredFile], reason: str) -> SyncPlan:
        if reason in _FILES_ALONE:
            return evolve(plan, suspects=(), unchanged=plan.unchanged + len(plan.suspects))
        if self._is_first:
            return plan
        due = tuple(file for file in plan.suspects if self._is_due(file, stored.get(file.path)))
        late = len(plan.suspects) - len(due)
        return evolve(plan, suspects=due, unchanged=plan.unchanged + late)

    def done(self, reason: str) -> None:
        self._is_first = self._is_first and reason in _FILES_ALONE

    def visible(self, session_key: str | None) -> frozenset[str] | None:
        try:
            return self._transcripts.seen_by(session_key).paths
        except (OSError, SessionError) as error:
            raise _unlisted(error) from error

    def _files(self) -> tuple[TranscriptFile, ...]:
        try:
            return self._transcripts.listed().files
        except (OSError, SessionError) as error:
            raise _unlisted(error) from error

    def _is_due(self, file: MemoryFile, stored: StoredFile | None) -> bool:
        if file.path not in self._current:
            return stored is None or stored.size != file.size
        known = self._growth.get(file.path)
        base = 0 if stored is None else stored.size
        if known is None or known.seen - known.bytes != base:  # it was indexed since
            known = Growth(seen=base)
        thresholds = self._transcripts.thresholds
        try:
            growth = measured(known, file.absolute, file.size, thresholds)
        except OSError:  # it has gone, which the next look at the folder tells
            return False
        self._growth[file.path] = growth
        return is_due(growth, thresholds)


def sessions_path(path: Path) -> Path:
    """Where the index of sessions stands, given that of memory files."""
    return path.with_name(f"{path.stem}.sessions{path.suffix}")


def _unlisted(error: Exception) -> MemoryBackendError:
    return MemoryBackendError(f"the session transcripts cannot be listed ({error})")
