"""The sessions of one agent: finding, creating and opening them."""

from __future__ import annotations

import asyncio
import logging
import uuid

from attrs import evolve

from hermitcrab.errors import SessionNotFoundError, TranscriptError
from hermitcrab.sessions.entries import SessionEntries, SessionEntry
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

    async def list(self) -> list[SessionEntry]:
        """The entries of all sessions, the newest first."""
        return await asyncio.to_thread(self._entries.list)

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
        now = self._clock()
        header = new_header(str(uuid.uuid4()), now, cwd=self._cwd)
        await asyncio.to_thread(self._store.create, header)
        milliseconds = int(now.timestamp() * 1000)
        entry = SessionEntry(
            key=key,
            session_id=header["id"],
            updated_at=milliseconds,
            session_started_at=milliseconds,
        )
        if old is not None:
            entry = evolve(
                entry,
                label=old.label,
                provider_override=old.provider_override,
                model_override=old.model_override,
                previous_session_ids=(*old.previous_session_ids, old.session_id),
            )
        branch = await asyncio.to_thread(self._store.read_branch, header["id"])
        log = self._log(entry, branch)
        changes = {"key": key, "sessionId": entry.session_id}
        await log.append([log.new_entry("custom", customType=ENTRY_CHANGE, data=changes)])
        if old is not None:
            await asyncio.to_thread(self._entries.put, entry)
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
