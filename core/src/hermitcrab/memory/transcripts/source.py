"""The session transcripts of one agent, as backends and tools get them (memory 3.9, 4.10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

from hermitcrab.errors import PathRefusedError, ToolError
from hermitcrab.memory.contract import ReadResult
from hermitcrab.memory.transcripts.folder import PREFIX, Listing, TranscriptFolder
from hermitcrab.memory.transcripts.growth import Thresholds
from hermitcrab.memory.transcripts.reading import lines_from
from hermitcrab.memory.transcripts.rendering import Rendered, render
from hermitcrab.memory.transcripts.visibility import may_see_any

if TYPE_CHECKING:
    from hermitcrab.config.schema import MemorySearchConfig
    from hermitcrab.sessions.entry import SessionEntry


@frozen(kw_only=True)
class Seen:
    """The paths of the transcripts that a session may see, and how many others there are."""

    paths: frozenset[str] = frozenset()
    hidden: int = 0


@frozen(kw_only=True)
class TranscriptSource:
    """The transcripts of one agent. Every method blocks: call it in a worker thread.

    ``across`` lets private sessions see each other (:func:`~hermitcrab.memory.transcripts.may_see`).
    """

    folder: TranscriptFolder
    thresholds: Thresholds = field(factory=Thresholds)
    across: bool = False

    def listed(self) -> Listing:
        """The transcripts to index, and whose they are.

        :raises OSError: if the folder cannot be read.
        :raises SessionError: if the session entries cannot be read.
        """
        return self.folder.listed()

    def load(self, absolute: Path) -> Rendered:
        """A transcript as text.

        :raises OSError: if it has gone or cannot be read.
        """
        with absolute.open("rb") as file:
            return render(file)

    def session_keys(self, path: str) -> frozenset[str]:
        """The sessions that the transcript at ``path`` belongs to; none where nobody knows.

        :raises OSError: as :meth:`listed`. :raises SessionError: as :meth:`listed`.
        """
        files = self.listed().files
        return next((file.keys for file in files if file.path == path), frozenset())

    def seen_by(self, session_key: str | None) -> Seen:
        """What a session may see; it is none of what nobody knows the owner of.

        :raises OSError: as :meth:`listed`. :raises SessionError: as :meth:`listed`.
        """
        listing = self.listed()
        paths = frozenset(
            file.path
            for file in listing.files
            if may_see_any(session_key, file.keys, listing.parents, across=self.across)
        )
        return Seen(paths=paths, hidden=len(listing.files) - len(paths))

    def read(
        self, path: str, session_key: str | None, *, start: int = 1, lines: int | None = None
    ) -> ReadResult:
        """What was said from line ``start`` of the JSONL file on, at most ``lines`` messages of it.

        ``start`` and ``next_start`` of the result are lines of that file too, so that a hit's lines can be asked for.

        :raises PathRefusedError: there is no such transcript among those that the session may see.
        :raises ToolError: the file cannot be read.
        """
        seen = self.seen_by(session_key)
        if path not in seen.paths:
            raise PathRefusedError(
                "there is no such transcript among those that this session may see", where=path
            )
        absolute = next(file.absolute for file in self.listed().files if file.path == path)
        try:
            rendered = self.load(absolute)
        except FileNotFoundError:
            return ReadResult(path=path, start=max(1, start), status="not_found")
        except OSError as error:
            raise ToolError(f"the file cannot be read ({error.strerror})", where=path) from error
        return lines_from(rendered, path=path, start=start, messages=lines)


def is_transcript_path(path: str) -> bool:
    """Whether a path of a hit, or one that a model gives, is that of a transcript."""
    return path.startswith(PREFIX)


def effective_sources(config: MemorySearchConfig | None) -> tuple[str, ...]:
    """What an agent searches: ``sessions`` only where ``experimental.sessionMemory`` is on; never nothing."""
    if config is None:
        return ("memory",)
    allowed = {"memory"} | ({"sessions"} if config.experimental.session_memory else set())
    chosen = tuple(dict.fromkeys(name for name in config.sources if name in allowed))
    return chosen or ("memory",)


def transcripts_of(
    config: MemorySearchConfig,
    *,
    folder: Path,
    entries: Callable[[], Iterable[SessionEntry]],
    agent_id: str,
) -> TranscriptSource | None:
    """The transcripts of an agent, if its settings make them part of its memory.

    :param folder: its sessions folder.
    :param entries: reads its session entries.
    """
    if "sessions" not in effective_sources(config):
        return None
    sessions = config.sync.sessions
    return TranscriptSource(
        folder=TranscriptFolder(folder, entries, agent_id=agent_id),
        thresholds=Thresholds(
            delta_bytes=sessions.delta_bytes,
            delta_messages=sessions.delta_messages,
            after_compaction=sessions.post_compaction_force,
        ),
        across=config.remember_across_conversations,
    )
