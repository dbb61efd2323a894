"""The live end of one session: its active branch in memory, appends, and its session entry."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import evolve

from hermitcrab.config.names import camel_case
from hermitcrab.errors import SessionNotFoundError
from hermitcrab.messages.types import Message
from hermitcrab.sessions.context import ContextItem, context_items
from hermitcrab.sessions.entries import SessionEntries, SessionEntry
from hermitcrab.sessions.format import (
    ENTRY_CHANGE,
    FORMAT_VERSION,
    Entry,
    IdSource,
    encode_line,
    iso,
    new_header,
)
from hermitcrab.sessions.reading import Branch, kept_part, leaf_after
from hermitcrab.sessions.transcript import AppendResult, Position, TranscriptStore

logger = logging.getLogger("hermitcrab.sessions")

Clock = Callable[[], datetime]
_ids = IdSource()


class SessionLog:
    """One session: appends go through one queue, and what other processes append is read before each of ours.

    :param durability: ``message`` waits for the disk at every append, ``turn`` when :meth:`end_turn` is called,
        ``os`` never.
    """

    def __init__(
        self,
        entry: SessionEntry,
        branch: Branch,
        *,
        store: TranscriptStore,
        entries: SessionEntries,
        clock: Clock,
        durability: str = "turn",
    ) -> None:
        self.entry = entry
        self._path: tuple[Entry, ...] = branch.entries
        self._version = branch.version
        self.faults = branch.faults
        self._position = Position(end=branch.end, leaf_id=branch.leaf_id)
        self._visible_from = branch.start
        self._store = store
        self._entries = entries
        self._clock = clock
        self._durability = durability
        self._queue = asyncio.Lock()
        self._items: list[ContextItem] | None = None
        self._uncounted_messages = 0

    @property
    def key(self) -> str:
        return self.entry.key

    @property
    def session_id(self) -> str:
        return self.entry.session_id

    @property
    def file(self) -> Path:
        """The transcript."""
        return self._store.path(self.session_id)

    @property
    def path(self) -> tuple[Entry, ...]:
        """The active branch, from what the last compaction kept to the leaf."""
        return self._path

    @property
    def visible_bytes(self) -> int:
        """Bytes of the transcript from the first entry that the last compaction kept to the end."""
        return self._position.end - self._visible_from

    def items(self) -> list[ContextItem]:
        """The messages of the context, the last summary first. The list is shared: do not change it."""
        if self._items is None:
            self._items = context_items(self._path)
        return self._items

    def now(self) -> datetime:
        """The session's clock."""
        return self._clock()

    def new_entry(self, kind: str, **values: Any) -> Entry:
        """An entry to append, with a fresh id and the clock's time."""
        entry: Any = {"type": kind, "id": _ids.next(), "timestamp": iso(self._clock()), **values}
        made: Entry = entry
        return made

    async def append_messages(self, messages: Iterable[Message]) -> list[Entry]:
        """Append messages in order; returns their entries."""
        made = [self.new_entry("message", message=message) for message in messages]
        return await self.append(made)

    async def append(self, entries: Sequence[Entry], *, purpose: str = "append") -> list[Entry]:
        """Append entries behind the true leaf; ids that stand on the branch already are not written again (C12)."""

        def make(leaf_id: str | None, found: Sequence[Entry]) -> Sequence[Entry]:
            known = {entry.get("id") for entry in (*self._path, *found)}
            return [entry for entry in entries if entry.get("id") not in known]

        result = await self._append(make, purpose)
        return list(result.written)

    async def append_compaction(self, compaction: Entry) -> bool:
        """Append a compaction, unless another process compacted meanwhile; tells whether it was written."""

        def make(leaf_id: str | None, found: Sequence[Entry]) -> Sequence[Entry]:
            return [] if any(entry["type"] == "compaction" for entry in found) else [compaction]

        result = await self._append(make, "compaction")
        return bool(result.written)

    async def refresh(self) -> None:
        """Take in what other processes have appended."""
        await self._append(lambda leaf_id, found: (), "refresh")

    async def update_entry(self, *, record: bool = True, **changes: Any) -> SessionEntry:
        """Change fields of the session entry.

        :param record: first append the change to the transcript, so that a lost table can be rebuilt (design 5).
        """
        if record:
            data = {"key": self.key, **{camel_case(name): value for name, value in changes.items()}}
            await self.append(
                [self.new_entry("custom", customType=ENTRY_CHANGE, data=data)], purpose="entry"
            )
        now = int(self._clock().timestamp() * 1000)
        changes.setdefault("updated_at", max(now, self.entry.updated_at))
        self.entry = await asyncio.to_thread(self._entries.update, self.key, **changes)
        return self.entry

    async def end_turn(self) -> None:
        """Make the turn durable and bring the counters of the session entry up to date."""
        counted, self._uncounted_messages = self._uncounted_messages, 0
        now = int(self._clock().timestamp() * 1000)
        self.entry = await asyncio.to_thread(
            self._entries.update,
            self.key,
            add_messages=counted,
            updated_at=max(now, self.entry.updated_at),
        )
        if self._durability == "turn":
            await asyncio.to_thread(self._store.sync, self.session_id)

    async def _append(
        self, make: Callable[[str | None, Sequence[Entry]], Sequence[Entry]], purpose: str
    ) -> AppendResult:
        async with self._queue:
            if self._version != FORMAT_VERSION:
                await self._copy_to_current_version()
            # A cancelled caller must not leave us unaware of what the worker still writes.
            work = asyncio.ensure_future(
                asyncio.to_thread(
                    self._store.append,
                    self.session_id,
                    self._position,
                    make,
                    purpose=purpose,
                    flush=self._durability == "message",
                )
            )
            try:
                result = await asyncio.shield(work)
            except asyncio.CancelledError:
                self._take_in(await work)
                raise
            self._take_in(result)
            return result

    def _take_in(self, result: AppendResult) -> None:
        news = (*result.found, *result.written)
        self._uncounted_messages += sum(entry["type"] == "message" for entry in result.written)
        if not news:
            self._position = result.position
            return
        if _follows(self._path, self._position.leaf_id, news):
            path = (*self._path, *news)
            self._position = result.position
            if _has_compaction(news):
                self._path = kept_part(path)
                kept = sum(len(encode_line(entry)) for entry in self._path)
                self._visible_from = self._position.end - kept
            else:
                self._path = path
            if self._items is not None and not _has_compaction(news):
                self._items = [*self._items, *context_items(news)]
            else:
                self._items = None
            return
        branch = self._store.read_branch(self.session_id)
        self._path, self.faults, self._items = branch.entries, branch.faults, None
        self._position = Position(end=branch.end, leaf_id=branch.leaf_id)
        self._visible_from = branch.start

    async def _copy_to_current_version(self) -> None:
        """Writing to an older file first makes a copy in the current format and leaves the old one alone (design 7)."""
        old = self.file
        contents = await asyncio.to_thread(self._store.read_all, self.session_id)
        session_id = str(uuid.uuid4())
        header = new_header(
            session_id, self._clock(), cwd=contents.header.get("cwd", ""), parent=str(old)
        )
        position = await asyncio.to_thread(self._store.create, header)
        result = await asyncio.to_thread(
            self._store.append,
            session_id,
            position,
            lambda leaf_id, found: contents.entries,
            purpose="copy to format 3",
            flush=True,
        )
        previous = (*self.entry.previous_session_ids, self.entry.session_id)
        self.entry = await asyncio.to_thread(
            self._entries.update, self.key, session_id=session_id, previous_session_ids=previous
        )
        self._position = result.position
        self._version = FORMAT_VERSION
        logger.info("copied %s to format 3 as %s", old, self.file, extra={"session_key": self.key})


def _has_compaction(entries: Sequence[Entry]) -> bool:
    return any(entry["type"] == "compaction" for entry in entries)


def _follows(path: Sequence[Entry], leaf_id: str | None, news: Sequence[Entry]) -> bool:
    """Whether new entries continue the branch in one line."""
    for entry in news:
        if entry["type"] == "leaf" or entry.get("parentId") != leaf_id:
            return False
        leaf_id = leaf_after([entry], leaf_id)
    return True


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
        """The session under a stored key.

        :raises SessionNotFoundError: if there is none and ``create`` is false.
        :raises TranscriptError: if its transcript is missing or unreadable.
        """
        async with self._opening:
            log = self._open.get(key)
            if log is None:
                entry = await asyncio.to_thread(self._entries.get, key)
                if entry is None:
                    if not create:
                        raise SessionNotFoundError(
                            f"there is no session {key!r}", hint="See `hermitcrab sessions list`."
                        )
                    log = await self._create(key)
                else:
                    log = await self._load(entry)
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
        branch = await asyncio.to_thread(self._store.read_branch, entry.session_id)
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
        position = await asyncio.to_thread(self._store.create, header)
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
        log = self._log(entry, evolve(branch, end=position.end))
        changes = {"key": key, "sessionId": entry.session_id}
        await log.append([log.new_entry("custom", customType=ENTRY_CHANGE, data=changes)])
        await asyncio.to_thread(self._entries.put, entry)
        return log

    def _log(self, entry: SessionEntry, branch: Branch) -> SessionLog:
        return SessionLog(
            entry,
            branch,
            store=self._store,
            entries=self._entries,
            clock=self._clock,
            durability=self._durability,
        )
