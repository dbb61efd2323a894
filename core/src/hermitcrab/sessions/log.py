"""The live end of one session: its active branch in memory, appends, and its session entry."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import frozen

from hermitcrab.config.names import camel_case
from hermitcrab.errors import TranscriptError
from hermitcrab.messages.types import Message
from hermitcrab.sessions.branch import kept_part, leaf_after
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
from hermitcrab.sessions.reading import Branch
from hermitcrab.sessions.transcript import AppendResult, EntryMaker, Position, TranscriptStore

logger = logging.getLogger("hermitcrab.sessions")

Clock = Callable[[], datetime]
_ids = IdSource()


@frozen
class _Done:
    """What a worker did: the branch if it had to be read anew, and the entry if its session id is a new one."""

    result: AppendResult
    branch: Branch | None = None
    moved: SessionEntry | None = None


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
        self._session_id = entry.session_id
        self._position = _end_of(branch)
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
        """The session id that this log writes to, whatever id its key has moved on to meanwhile."""
        return self._session_id

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
        """Append entries behind the true leaf, and return them as they stand there.

        Ids that stand on the branch already are not written again (C12).
        """
        standing: dict[str, Entry] = {}

        def make(leaf_id: str | None, found: Sequence[Entry]) -> Sequence[Entry]:
            standing.update((entry["id"], entry) for entry in (*self._path, *found))
            fresh = {entry["id"]: entry for entry in entries if entry["id"] not in standing}
            return list(fresh.values())

        result = await self._append(make, purpose)
        standing.update((entry["id"], entry) for entry in result.written)
        return [standing[entry["id"]] for entry in entries]

    async def append_compaction(self, compaction: Entry) -> bool:
        """Append a compaction, unless another process compacted meanwhile; tells whether it was written."""

        def make(leaf_id: str | None, found: Sequence[Entry]) -> Sequence[Entry]:
            return [] if any(entry["type"] == "compaction" for entry in found) else [compaction]

        result = await self._append(make, "compaction")
        return bool(result.written)

    async def refresh(self) -> None:
        """Take in what other processes have appended. Files of older versions are never appended to."""
        if self._version >= FORMAT_VERSION:
            await self._append(lambda leaf_id, found: (), "refresh", writes=False)

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
        changes.setdefault("updated_at", now)
        self.entry = await asyncio.to_thread(self._entries.update, self.key, **changes)
        return self.entry

    async def end_turn(self) -> None:
        """Make the turn durable and bring the counters of the session entry up to date."""
        counted = self._uncounted_messages
        now = int(self._clock().timestamp() * 1000)
        self.entry = await asyncio.to_thread(
            self._entries.update,
            self.key,
            add_messages=counted,
            updated_at=now,
        )
        self._uncounted_messages -= counted
        if self._durability == "turn":
            await asyncio.to_thread(self._store.sync, self.session_id)

    async def _append(self, make: EntryMaker, purpose: str, *, writes: bool = True) -> AppendResult:
        async with self._queue:
            # A cancelled caller must not leave us unaware of what the worker still writes (C24).
            work = asyncio.ensure_future(
                asyncio.to_thread(self._append_in_worker, make, purpose, writes)
            )
            try:
                done = await asyncio.shield(work)
            except asyncio.CancelledError:
                await self._settle(work)
                raise
            self._take_in(done)
            if any(_changes_session(entry) for entry in done.result.found):
                row = await asyncio.to_thread(self._entries.get, self.key)
                self.entry = row or self.entry
            return done.result

    def _append_in_worker(self, make: EntryMaker, purpose: str, writes: bool) -> _Done:
        """Append, and read the branch anew where the file does not simply continue what we know."""
        moved: SessionEntry | None = None
        session_id, position = self._session_id, self._position
        if writes and self._version != FORMAT_VERSION:
            moved = self._copy_to_current_version()
            session_id = moved.session_id
            position = _end_of(self._store.read_branch(session_id))
        result = self._store.append(
            session_id, position, make, purpose=purpose, flush=self._durability == "message"
        )
        news = (*result.found, *result.written)
        if moved is None and _follows(position.leaf_id, news, result.position.leaf_id):
            return _Done(result)
        return _Done(result, self._store.read_branch(session_id), moved)

    def _copy_to_current_version(self) -> SessionEntry:
        """Writing to an older file first makes a copy in the current format and leaves the old one alone (design 7).

        Where another process was first, its copy is the one.
        """
        old = self.file
        if self._version > FORMAT_VERSION:
            raise TranscriptError(
                f"this transcript has format {self._version}, which is newer than {FORMAT_VERSION}",
                where=old,
                hint="Upgrade hermitcrab to go on with this session; reading it works.",
            )
        contents = self._store.read_all(self._session_id)
        cwd, session_id = str(contents.header.get("cwd", "")), str(uuid.uuid4())
        header = new_header(session_id, self._clock(), cwd=cwd, parent=str(old))
        change = self.new_entry(
            "custom", customType=ENTRY_CHANGE, data={"key": self.key, "sessionId": session_id}
        )
        self._store.append(
            session_id,
            self._store.create(header),
            lambda leaf_id, found: (*contents.entries, change),
            purpose="copy to format 3",
            flush=True,
        )
        moved = self._entries.move(self.key, self._session_id, session_id)
        logger.info("copied %s to format 3 as %s", old, session_id, extra={"session_key": self.key})
        return moved

    async def _settle(self, work: asyncio.Future[_Done]) -> None:
        """Wait for a worker whose caller is gone, however often it is told to stop."""
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        error = work.exception()
        if error is None:
            self._take_in(work.result())
        else:
            logger.warning(
                "an append whose caller was cancelled failed: %s",
                error,
                extra={"session_key": self.key},
            )

    def _take_in(self, done: _Done) -> None:
        result, branch = done.result, done.branch
        if done.moved is not None:
            self.entry, self._session_id = done.moved, done.moved.session_id
            self._version = FORMAT_VERSION
        self._uncounted_messages += sum(entry["type"] == "message" for entry in result.written)
        if branch is not None:
            self._path, self.faults, self._items = branch.entries, branch.faults, None
            self._position = _end_of(branch)
            self._visible_from = branch.start
            return
        self._position = result.position
        news = (*result.found, *result.written)
        if _has_compaction(news):
            self._path = kept_part((*self._path, *news))
            self._items = None
            self._visible_from = self._position.end - _bytes_of(self._path)
        elif news:
            self._path = (*self._path, *news)
            if self._items is not None:
                self._items = [*self._items, *context_items(news)]


def _end_of(branch: Branch) -> Position:
    return Position(end=branch.end, leaf_id=branch.leaf_id, header_id=branch.header["id"])


def _bytes_of(entries: Sequence[Entry]) -> int:
    return sum(len(encode_line(entry)) for entry in entries)


def _changes_session(entry: Entry) -> bool:
    """Whether what another process appended also changed the session entry."""
    return entry["type"] == "compaction" or entry.get("customType") == ENTRY_CHANGE


def _has_compaction(entries: Sequence[Entry]) -> bool:
    return any(entry["type"] == "compaction" for entry in entries)


def _follows(leaf_id: str | None, news: Sequence[Entry], new_leaf_id: str | None) -> bool:
    """Whether new entries continue the branch in one line, up to the new leaf."""
    for entry in news:
        if entry["type"] == "leaf" or entry.get("parentId") != leaf_id:
            return False
        leaf_id = leaf_after([entry], leaf_id)
    return leaf_id == new_leaf_id
