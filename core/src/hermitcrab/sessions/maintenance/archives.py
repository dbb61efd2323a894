"""The archived generations of sessions: transcripts of earlier session ids, and archives (sessions 2.10)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path

from attrs import evolve, frozen

from hermitcrab.errors import SessionError
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.format import FORMAT_VERSION
from hermitcrab.sessions.maintenance.file_names import base_stem
from hermitcrab.sessions.maintenance.folder import Ownership, StoredFile, read_files
from hermitcrab.sessions.repair.rebuilding import TranscriptFacts, scan_transcript


@frozen(kw_only=True)
class ArchivedSession:
    """A transcript that a session does not go on with any more. Times are milliseconds.

    :param key: the session that it belongs to; ``None`` if nothing says which.
    :param reason: ``reset``, ``deleted`` or ``bak``; ``copied`` if the session goes on in a copy of it, ``related`` if
        no session names it but a ``parentSession`` ties it to one.
    :param messages: how many it holds on all branches; ``None`` if it cannot be read.
    :param problem: why it cannot be read, such as that it is missing.
    """

    key: str | None
    session_id: str
    file: Path
    bytes: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    messages: int | None = None
    reason: str | None = None
    problem: str | None = None


def archives_in(
    folder: Path,
    entries: Iterable[SessionEntry],
    *,
    key: str | None = None,
    on_progress: Callable[[int, int, str], None] = lambda done, total, name: None,
) -> list[ArchivedSession]:
    """The archived generations in a sessions folder, by key, the oldest first; each file is read once. Blocking.

    :param entries: all session entries of the folder.
    :param key: only those of this key.
    :raises SessionError: if the folder cannot be read.
    """
    entries = tuple(entries)
    try:
        files = read_files(folder) if folder.is_dir() else ()
    except OSError as error:
        raise SessionError(
            f"the folder of the sessions cannot be read: {error.strerror or error}", where=folder
        ) from error
    ownership = Ownership(entries, files)
    copied = copied_from(files)
    found: list[ArchivedSession] = []
    candidates = [file for file in files if _is_archived(file, ownership)]
    for number, file in enumerate(candidates, 1):
        on_progress(number, len(candidates), file.name)
        found += _archived(folder, file, ownership, copied, key)
    standing = {file.parsed.stem for file in files if file.parsed.kind in {"transcript", "archive"}}
    found += _missing(folder, entries, standing)
    wanted = [each for each in found if key is None or each.key == key]
    return sorted(wanted, key=lambda each: (each.key or "~", each.started_at or 0, each.file.name))


def _is_archived(file: StoredFile, ownership: Ownership) -> bool:
    if file.parsed.kind == "archive":
        return True
    whose = ownership.of(file.parsed.stem)
    is_transcript = file.parsed.kind == "transcript"
    return is_transcript and bool(whose.keys) and whose.relation != "current"


def _archived(
    folder: Path,
    file: StoredFile,
    ownership: Ownership,
    copied: Container[str],
    wanted: str | None,
) -> Iterator[ArchivedSession]:
    """A file as an archived generation of each key that it belongs to."""
    stem = file.parsed.stem or ""
    whose = ownership.of(stem)
    if wanted is not None and whose.keys and wanted not in whose.keys:
        return
    found = ArchivedSession(
        key=None,
        session_id=base_stem(stem),
        file=folder / file.name,
        bytes=file.bytes,
        started_at=file.started_at,
        ended_at=file.parsed.moment,
        reason=file.parsed.reason,
    )
    if file.parsed.kind == "transcript":
        reason = "copied" if stem in copied else "reset"
        found = evolve(found, reason="related" if whose.relation == "related" else reason)
    facts, problem = _read(found)
    if facts is None:
        found = evolve(found, problem=problem)
    else:
        found = evolve(
            found,
            started_at=facts.entry.session_started_at,
            ended_at=facts.last_moment,
            messages=facts.messages,
        )
    keys = whose.keys or {None if facts is None else _told_key(facts)}
    for key in sorted(keys, key=str):
        yield evolve(found, key=key)


def _read(archived: ArchivedSession) -> tuple[TranscriptFacts | None, str | None]:
    if archived.file.name.endswith(".zst"):
        return None, "it is compressed"
    try:
        return scan_transcript(archived.file, archived.session_id), None
    except (SessionError, OSError) as error:
        return None, error.message if isinstance(error, SessionError) else str(error)


def _told_key(facts: TranscriptFacts) -> str | None:
    """The key that a transcript says it belonged to last."""
    return facts.namings[-1].key if facts.namings else None


def copied_from(files: Iterable[StoredFile]) -> set[str]:
    """The transcripts of older formats that another one is a copy of (design 7)."""
    return {
        file.parent for file in files if file.parent is not None and file.format == FORMAT_VERSION
    } & {file.parsed.stem for file in files if (file.format or FORMAT_VERSION) < FORMAT_VERSION}


def _missing(
    folder: Path, entries: Iterable[SessionEntry], standing: Container[str | None]
) -> Iterator[ArchivedSession]:
    """What entries name as earlier and is not there, not even as an archive (C10)."""
    for entry in entries:
        for session_id in entry.previous_session_ids:
            if session_id not in standing:
                yield ArchivedSession(
                    key=entry.key,
                    session_id=session_id,
                    file=folder / f"{session_id}.jsonl",
                    problem="it is missing",
                )
