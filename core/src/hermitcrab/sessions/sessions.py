"""The sessions of one agent: finding, creating and opening them."""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from hermitcrab.errors import SessionLabelTakenError, SessionNotFoundError, TranscriptError
from hermitcrab.sessions.entries import SessionEntries, SessionEntry
from hermitcrab.sessions.entry import milliseconds, record_of, successor
from hermitcrab.sessions.events import SessionEvents, change_of
from hermitcrab.sessions.format import ENTRY_CHANGE, REPLACES_RECORDS, Entry, new_header
from hermitcrab.sessions.keys import DEFAULT_MAIN_KEY
from hermitcrab.sessions.log import Clock, SessionLog
from hermitcrab.sessions.maintenance.archives import ArchivedSession, archives_in
from hermitcrab.sessions.maintenance.removing import Removed
from hermitcrab.sessions.maintenance.upkeep import delete_session, finish_deletion
from hermitcrab.sessions.overriding import OverrideRules, patch_session
from hermitcrab.sessions.reading import Branch
from hermitcrab.sessions.renaming import former_main_key, rename_entry
from hermitcrab.sessions.transcript import TranscriptStore

logger = logging.getLogger("hermitcrab.sessions")


class Sessions:
    """The sessions of one agent: finding, creating and opening them."""

    def __init__(
        self,
        *,
        store: TranscriptStore,
        entries: SessionEntries,
        clock: Clock,
        cwd: str,
        durability: str = "turn",
        events: SessionEvents | None = None,
        rules: OverrideRules | None = None,
        main_key: str = DEFAULT_MAIN_KEY,
    ) -> None:
        self._store = store
        self._entries = entries
        self._clock = clock
        self._cwd = cwd
        self._durability = durability
        self._events = events or SessionEvents()
        self._rules = rules
        self._main_key = main_key
        self._open: dict[str, SessionLog] = {}
        self._opening = asyncio.Lock()

    async def open(self, key: str, *, create: bool = True) -> SessionLog:
        """The session under a stored key: always the one that the entry table names now, whoever began it.

        :raises SessionNotFoundError: if there is none and ``create`` is false.
        :raises TranscriptError: if its transcript is missing or unreadable.
        """
        async with self._opening:
            log = self._open.get(key)
            entry = await asyncio.to_thread(self._entries.get, key)
            if log is not None and _is_of(log, entry):
                return log
            if entry is None and not create and not await self._has_former(key):
                raise SessionNotFoundError(
                    f"there is no session {key!r}", hint="See `hermitcrab sessions list`."
                )
            if entry is None:
                log = await self._renamed(key) or await self._create(key)
            else:
                log = await self._load_standing(entry)
            self._open[key] = log
            return log

    async def start_new(self, key: str) -> SessionLog:
        """Begin a new session id under a key; the old transcript stays where it is.

        What the user set (label, model override) is carried over.
        """
        async with self._opening:
            old = await asyncio.to_thread(self._entries.get, key)
            log = await self._create(key, old)
            self._open[key] = log
            return log

    async def begin_child(
        self, entry: SessionEntry, *, parent: str | None = None, copied: Sequence[Entry] = ()
    ) -> SessionLog:
        """Begin the session of a subagent, under a key that has none.

        A label that another session has becomes its display name alone.

        :param parent: the transcript that entries are copied from, for the header.
        :param copied: what its transcript begins with, see :mod:`hermitcrab.sessions.forking`.
        :raises SessionError: if it cannot be written.
        """
        async with self._opening:
            try:
                await asyncio.to_thread(self._entries.check_label, entry.key, entry.label)
            except SessionLabelTakenError as error:
                logger.info("%s", error, extra={"session_key": entry.key})
                entry = evolve(entry, label=None)
            log = self._open[entry.key] = await self._add(entry, parent=parent, copied=copied)
            return log

    def release(self, key: str) -> None:
        """Forget what is known of an open session; the next :meth:`open` reads it again."""
        self._open.pop(key, None)

    def path(self, session_id: str) -> Path:
        """Where the transcript of a session id stands, or would stand."""
        return self._store.path(session_id)

    async def notes(self) -> list[str]:
        """What was done to the entry table that its owner should know of, such as a rebuilding."""
        return await asyncio.to_thread(self._entries.notes)

    async def list(self) -> list[SessionEntry]:
        """The entries of all sessions, the newest first."""
        return await asyncio.to_thread(self._entries.list)

    async def patch(self, key: str, patch: Mapping[str, Any]) -> SessionEntry:
        """Set fields of a session by their JSON names; null deletes one, all or nothing (sessions 5.1).

        ``model`` stands for the fields of a model override: ``provider/name``, or null for the configured model.

        :raises SessionNotFoundError: if there is no such session.
        :raises SessionLabelTakenError: if another session has the label; it names that session.
        :raises SessionError: for an unknown field or an invalid value.
        :raises ConfigError: for a model that nobody can make.
        """
        log = await self.open(key, create=False)
        return await patch_session(log, patch, self._rules)

    async def archived(self, key: str | None = None) -> Sequence[ArchivedSession]:
        """The archived generations of a session, or of all: earlier session ids and archives (sessions 2.10)."""
        entries = await self.list()
        return await asyncio.to_thread(archives_in, self._entries.folder, entries, key=key)

    async def delete(self, key: str) -> Removed:
        """Delete a session; its transcripts stay as ``.deleted`` archives for ``session.maintenance.pruneAfter``.

        :raises SessionNotFoundError: if there is no such session.
        :raises SessionError: if it cannot be deleted, such as because another process writes to it; it is as it was.
        """
        async with self._opening:
            removed = await asyncio.to_thread(delete_session, self._entries, key, clock=self._clock)
            self._open.pop(key, None)
        self._events.emit(removed.event)
        return removed

    async def close(self) -> None:
        """Close the entry table; safe to call twice."""
        self._open.clear()
        await asyncio.to_thread(self._entries.close)

    async def _has_former(self, key: str) -> bool:
        former = former_main_key(key, self._main_key)
        return former is not None and await asyncio.to_thread(self._entries.get, former) is not None

    async def _renamed(self, key: str) -> SessionLog | None:
        """The main conversation from before ``session.mainKey`` had its value, now under its new key."""
        former = former_main_key(key, self._main_key)
        if former is None:
            return None
        entry = await asyncio.to_thread(rename_entry, self._entries, former, key)
        if entry is None:
            return None
        log = await self._load(entry)
        data = {**record_of(entry), REPLACES_RECORDS: True}
        await log.append([log.new_entry("custom", customType=ENTRY_CHANGE, data=data)])
        logger.info("session %s is now %s", former, key, extra={"session_key": key})
        return log

    async def _load_standing(self, entry: SessionEntry) -> SessionLog:
        """Load a session; one whose deletion was interrupted is gone, and begins anew."""
        try:
            return await self._load(entry)
        except TranscriptError:
            finish = functools.partial(finish_deletion, clock=self._clock)
            if not await asyncio.to_thread(finish, self._entries, entry.key):
                raise
            return await self._create(entry.key)

    async def _load(self, entry: SessionEntry) -> SessionLog:
        try:
            branch = await asyncio.to_thread(self._store.read_branch, entry.session_id)
        except TranscriptError as error:
            raise TranscriptError(
                f"session {entry.key!r} cannot be opened: {error.message}",
                where=error.where,
                hint=f"{error.hint or ''} /new begins afresh and leaves old files alone.".lstrip(),
            ) from error
        if branch.faults.any:
            logger.warning(
                "%s: %d bad lines, header rebuilt: %s, missing ancestor: %s",
                self._store.path(entry.session_id),
                len(branch.faults.bad_lines),
                branch.faults.header_rebuilt,
                branch.faults.missing_ancestor,
                extra={"session_key": entry.key},
            )
        return self._log(entry, branch)

    async def _create(self, key: str, old: SessionEntry | None = None) -> SessionLog:
        now = self._clock()
        session_id, started_at = str(uuid.uuid4()), milliseconds(now)
        entry = SessionEntry(
            key=key, session_id=session_id, updated_at=started_at, session_started_at=started_at
        )
        if old is not None:
            log = await self._write(successor(old, session_id, started_at))
            log.entry = await asyncio.to_thread(self._entries.succeed, log.entry)
            return log
        return await self._add(entry)

    async def _add(
        self, entry: SessionEntry, *, parent: str | None = None, copied: Sequence[Entry] = ()
    ) -> SessionLog:
        """Begin the first session of a key; where another process was first, its session is the one."""
        log = await self._write(entry, parent=parent, copied=copied)
        standing = await asyncio.to_thread(self._entries.add, entry)
        if standing.session_id == entry.session_id:
            self._events.emit(change_of("created", entry))
            return log
        # Another process was first, and this transcript says so.
        changes = {"key": entry.key, "sessionId": standing.session_id}
        await log.append([log.new_entry("custom", customType=ENTRY_CHANGE, data=changes)])
        return await self._load(standing)

    async def _write(
        self, entry: SessionEntry, *, parent: str | None = None, copied: Sequence[Entry] = ()
    ) -> SessionLog:
        """Create the transcript of an entry: the header, what is copied from elsewhere, and the entry itself."""
        await asyncio.to_thread(self._entries.prepare)
        header = new_header(entry.session_id, self._clock(), cwd=self._cwd, parent=parent)
        await asyncio.to_thread(self._store.create, header, flush=self._durability != "os")
        branch = await asyncio.to_thread(self._store.read_branch, header["id"])
        log = self._log(entry, branch)
        record = log.new_entry("custom", customType=ENTRY_CHANGE, data=record_of(entry))
        await log.append([*copied, record])
        return log

    def _log(self, entry: SessionEntry, branch: Branch) -> SessionLog:
        return SessionLog(
            entry,
            branch,
            store=self._store,
            entries=self._entries,
            clock=self._clock,
            durability=self._durability,
            events=self._events,
        )


def _is_of(log: SessionLog, entry: SessionEntry | None) -> bool:
    """Whether a log is still that of its key; a session that somebody deleted has neither an entry nor a file."""
    return log.file.exists() if entry is None else entry.session_id == log.session_id
