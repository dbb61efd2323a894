"""Which transcripts a sessions folder holds, and which its session entries name. Nothing is written or locked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import evolve, frozen

from hermitcrab.errors import SessionError
from hermitcrab.sessions.entry import SessionEntry, from_json
from hermitcrab.sessions.keys import is_session_id
from hermitcrab.sessions.repair.verify import Finding

_TABLE = "sessions.sqlite"


@frozen(kw_only=True)
class TranscriptPlace:
    """A place at which a transcript is or should be.

    :param session_id: the id that its header must have; ``None`` for a file outside of a home.
    :param key: the session that it belongs to, as its transcript or as one that was archived.
    :param findings: what its place says of it.
    """

    path: Path
    session_id: str | None = None
    key: str | None = None
    findings: tuple[Finding, ...] = ()
    is_there: bool = True


def places_in(folder: Path) -> list[TranscriptPlace]:
    """The transcripts of one agent, those that are missing, and what else there is to say of the folder."""
    try:
        entries = read_entries(folder / _TABLE)
    except SessionError as error:
        finding = Finding(kind="unreadable-entries", message=error.message)
        table = TranscriptPlace(path=folder / _TABLE, findings=(finding,), is_there=False)
        return [table, *_transcripts(folder, None)]
    return [*_transcripts(folder, entries), *_missing(folder, entries)]


def _transcripts(folder: Path, entries: Sequence[SessionEntry] | None) -> Iterator[TranscriptPlace]:
    owners = _owners(entries or ())
    for path in sorted(folder.glob("*.jsonl")):
        stem = path.name.removesuffix(".jsonl")
        key = owners.get(stem) or owners.get(stem.partition("-topic-")[0])
        findings = []
        if key is None and entries is not None:
            message = "no session entry names this transcript"
            findings.append(Finding(kind="orphan", message=message, level="information"))
        if path.with_name(f"{path.name}.lock").exists():
            message = (
                "a lock file stands beside it, which blocks nobody: the lock ends with its holder"
            )
            findings.append(Finding(kind="lock-file", message=message, level="information"))
        yield TranscriptPlace(
            path=path,
            session_id=stem if is_session_id(stem) else None,
            key=key,
            findings=tuple(findings),
        )


def _owners(entries: Sequence[SessionEntry]) -> dict[str, str]:
    """The keys by session id; the current one of a key counts before archived ones of others."""
    owners = {each: entry.key for entry in entries for each in entry.previous_session_ids}
    return owners | {entry.session_id: entry.key for entry in entries}


def _missing(folder: Path, entries: Sequence[SessionEntry]) -> Iterator[TranscriptPlace]:
    finding = Finding(
        kind="missing-transcript",
        message="the session entry names this transcript, and it is not there; /new begins afresh under the key",
    )
    for entry in sorted(entries, key=lambda entry: entry.key):
        path = folder / f"{entry.session_id}.jsonl"
        if not path.exists():
            yield TranscriptPlace(
                path=path,
                session_id=entry.session_id,
                key=entry.key,
                findings=(finding,),
                is_there=False,
            )


def place_of(path: Path) -> TranscriptPlace:
    """The place of one file, wherever it is."""
    whole = path.absolute()
    folder = whole.parent
    if folder.name == "sessions" and folder.parent.parent.name == "agents":
        for place in places_in(folder):
            if place.path == whole:
                return evolve(place, path=path)
    return TranscriptPlace(path=path)


def read_entries(table: Path) -> list[SessionEntry]:
    """The session entries as they are now, without creating, repairing or locking anything.

    :raises SessionError: if there is a table that cannot be read.
    """
    import sqlite3
    from contextlib import closing

    if not table.exists():
        return []
    # Without a log beside it nobody writes, and SQLite would create the log just to read.
    mode = "mode=ro" if table.with_name(f"{table.name}-wal").exists() else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{table.absolute().as_uri()}?{mode}", uri=True)) as opened:
            rows = opened.execute("select key, entry from session_entries order by key").fetchall()
        return [from_json(key, json.loads(text)) for key, text in rows]
    except (sqlite3.Error, ValueError, TypeError, AttributeError) as error:
        raise SessionError(f"the session entries cannot be read: {error}", where=table) from error
