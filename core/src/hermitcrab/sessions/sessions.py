"""The sessions of one agent: finding, creating and opening them."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from typing import Any

from hermitcrab.errors import SessionNotFoundError, TranscriptError
from hermitcrab.sessions.entries import SessionEntries, SessionEntry
from hermitcrab.sessions.entry import milliseconds, record_of, successor
from hermitcrab.sessions.format import ENTRY_CHANGE, new_header
from hermitcrab.sessions.log import Clock, SessionLog
from hermitcrab.sessions.reading import Branch
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
    ) -> None:
        self._store = store
        self._entries = entries
        self._clock = clock
        self._cwd = cwd
        self._durability = durability
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
            if log is not None and (entry is None or entry.session_id == log.session_id):
                return log
            if entry is None and not create:
                raise SessionNotFoundError(
                    f"there is no session {key!r}", hint="See `hermitcrab sessions list`."
                )
            log = await (self._create(key) if entry is None else self._load(entry))
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

    async def notes(self) -> list[str]:
        """What was done to the entry table that its owner should know of, such as a rebuilding."""
        return await asyncio.to_thread(self._entries.notes)

    async def list(self) -> list[SessionEntry]:
        """The entries of all sessions, the newest first."""
        return await asyncio.to_thread(self._entries.list)

    async def patch(self, key: str, patch: Mapping[str, Any]) -> SessionEntry:
        """Set fields of a session by their JSON names; null deletes one, all or nothing (sessions 5.1).

        :raises SessionNotFoundError: if there is no such session.
        :raises SessionLabelTakenError: if another session has the label; it names that session.
        :raises SessionError: for an unknown field or an invalid value.
        """
        log = await self.open(key, create=False)
        return await log.patch_entry(patch)

    async def close(self) -> None:
        """Close the entry table; safe to call twice."""
        self._open.clear()
        await asyncio.to_thread(self._entries.close)

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
        await asyncio.to_thread(self._entries.prepare)
        now = self._clock()
        session_id, started_at = str(uuid.uuid4()), milliseconds(now)
        header = new_header(session_id, now, cwd=self._cwd)
        await asyncio.to_thread(self._store.create, header)
        entry = SessionEntry(
            key=key, session_id=session_id, updated_at=started_at, session_started_at=started_at
        )
        if old is not None:
            entry = successor(old, session_id, started_at)
        branch = await asyncio.to_thread(self._store.read_branch, header["id"])
        log = self._log(entry, branch)
        record = record_of(entry)
        await log.append([log.new_entry("custom", customType=ENTRY_CHANGE, data=record)])
        if old is not None:
            log.entry = await asyncio.to_thread(self._entries.succeed, entry)
            return log
        standing = await asyncio.to_thread(self._entries.add, entry)
        if standing.session_id == entry.session_id:
            return log
        # Another process was first: its session is the one, and this transcript says so.
        changes = {"key": key, "sessionId": standing.session_id}
        await log.append([log.new_entry("custom", customType=ENTRY_CHANGE, data=changes)])
        return await self._load(standing)

    def _log(self, entry: SessionEntry, branch: Branch) -> SessionLog:
        return SessionLog(
            entry,
            branch,
            store=self._store,
            entries=self._entries,
            clock=self._clock,
            durability=self._durability,
        )
