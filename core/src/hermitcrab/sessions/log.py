"""The live end of one session: its active branch in memory, appends, and its session entry."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import evolve

from hermitcrab.config.names import camel_case
from hermitcrab.errors import SessionLabelTakenError, TranscriptError
from hermitcrab.messages.types import Message
from hermitcrab.sessions.appends import Append, AppendQueue, Done, maker_of
from hermitcrab.sessions.blobs.files import blob_folder, copy_blobs, restore_message, storing
from hermitcrab.sessions.context import ContextItem, context_items
from hermitcrab.sessions.entries import SessionEntries, SessionEntry
from hermitcrab.sessions.entry import MergePolicy, milliseconds, record_of
from hermitcrab.sessions.events import SessionEvents, patch_of
from hermitcrab.sessions.following import (
    changes_session,
    goes_on_from,
    lengthens,
    says_something_new,
)
from hermitcrab.sessions.format import (
    ENTRY_CHANGE,
    FORMAT_VERSION,
    Entry,
    IdSource,
    iso,
    new_header,
)
from hermitcrab.sessions.patching import parse_patch
from hermitcrab.sessions.reading import Branch, TranscriptContents
from hermitcrab.sessions.transcript import AppendResult, EntryMaker, TranscriptStore, end_of

logger = logging.getLogger("hermitcrab.sessions")

Clock = Callable[[], datetime]
_ids = IdSource()


class SessionLog:
    """One session: appends go through one queue, and what other processes append is read before each of ours.

    :param durability: ``message`` waits for the disk at every append, ``turn`` when :meth:`end_turn` is called,
        ``os`` never.
    :param events: told of what is appended and chosen, once it is on disk.
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
        events: SessionEvents | None = None,
    ) -> None:
        self.entry = entry
        self._path: list[Entry] = list(branch.entries)
        self._by_id: dict[str, Entry] = {entry["id"]: entry for entry in self._path}
        self._version = branch.version
        self.faults = branch.faults
        self._session_id = entry.session_id
        self._position = end_of(branch)
        self._visible_from = branch.start
        self._store = store
        self._entries = entries
        self._clock = clock
        self._durability = durability
        self._events = events or SessionEvents()
        self._queue = AppendQueue(entry.key, self._write, self._take_in)
        self._items: list[ContextItem] | None = None
        self._newest_items: list[ContextItem] = []
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
        return tuple(self._path)

    @property
    def leaf_id(self) -> str | None:
        """What the next entry follows; ``None`` if it would be a first one."""
        return self._position.leaf_id

    @property
    def visible_bytes(self) -> int:
        """Bytes of the transcript from the first entry that the last compaction kept to the end."""
        return self._position.end - self._visible_from

    def items(self) -> list[ContextItem]:
        """The messages of the context, the last summary first. The list is shared: do not change it."""
        if self._items is None:
            self._items = context_items(self._path)
        elif self._newest_items:
            # A new list: whoever got the last one still holds it.
            self._items = [*self._items, *self._newest_items]
        self._newest_items = []
        return self._items

    def now(self) -> datetime:
        """The session's clock."""
        return self._clock()

    def new_id(self) -> str:
        """A fresh entry id."""
        return _ids.next()

    def new_entry(self, kind: str, **values: Any) -> Entry:
        """An entry to append, with a fresh id and the clock's time."""
        entry: Any = {"type": kind, "id": self.new_id(), "timestamp": iso(self._clock()), **values}
        made: Entry = entry
        return made

    async def append_messages(self, messages: Iterable[Message]) -> list[Entry]:
        """Append messages in order, all with the time of now; returns their entries."""
        now = iso(self._clock())
        messages = tuple(messages)
        made: list[Entry] = [
            {"type": "message", "id": entry_id, "timestamp": now, "message": message}
            for entry_id, message in zip(_ids.take(len(messages)), messages, strict=True)
        ]
        return await self.append(made)

    async def append(self, entries: Sequence[Entry], *, purpose: str = "append") -> list[Entry]:
        """Append entries behind the true leaf, and return them as they stand there.

        Ids that stand on the branch already are not written again (C12).
        """
        done = await self._append(Append(purpose=purpose, entries=entries))
        return [done.standing[entry["id"]] for entry in entries]

    async def append_decided(self, make: EntryMaker, *, purpose: str) -> AppendResult:
        """Append what ``make`` decides under the lock, in a worker thread, in one write.

        While it decides, :attr:`path` and :attr:`leaf_id` stand still; what it is given is newer than they are.
        """
        done = await self._append(Append(purpose=purpose, make=make))
        return done.result

    async def append_compaction(self, compaction: Entry, *, planned_at: str | None = None) -> bool:
        """Append a compaction; tells whether it was written.

        It is not if another process compacted meanwhile, or if the branch has left what the compaction keeps.

        :param planned_at: the leaf when it was planned, so that what was heard of since counts too.
        """
        kept = compaction.get("firstKeptEntryId")

        def make(leaf_id: str | None, found: Sequence[Entry]) -> Sequence[Entry]:
            overtaken = any(entry["type"] in {"compaction", "leaf"} for entry in found)
            stands = kept == compaction["id"] or kept in self._by_id
            goes_on = planned_at is None or goes_on_from(planned_at, self._path)
            return [compaction] if stands and goes_on and not overtaken else []

        done = await self._append(Append(purpose="compaction", make=make))
        return bool(done.result.written)

    async def read_all(self) -> TranscriptContents:
        """The whole transcript, abandoned branches included."""
        return await asyncio.to_thread(self._store.read_all, self._session_id)

    async def restored(self, message: Message) -> Message:
        """A message of this session with its media and its whole text, wherever they are kept (design 5)."""
        return await asyncio.to_thread(restore_message, message, blob_folder(self.file))

    async def refresh(self) -> None:
        """Take in what other processes have appended, without waiting for any of them.

        Files of older versions are never appended to.
        """
        if self._version >= FORMAT_VERSION:
            await self._append(Append(purpose="refresh"))

    async def update_entry(
        self,
        *,
        record: bool = True,
        add_compactions: int = 0,
        policy: MergePolicy = "touch",
        **changes: Any,
    ) -> SessionEntry:
        """Change fields of the session entry.

        :param record: first append the change to the transcript, so that a lost table can be rebuilt (design 5).
        :param add_compactions: how many to add to ``compaction_count``, whatever other processes have added.
        :param policy: ``preserve-activity`` for bookkeeping, which is no activity of the session (sessions 2.3).
        :raises SessionLabelTakenError: if another session has the label.
        """
        if changes.get("label") is not None:
            await asyncio.to_thread(self._entries.check_label, self.key, changes["label"])
        if record:
            await self._record(
                {**changes, **({"add_compactions": add_compactions} if add_compactions else {})}
            )
        before = self.entry
        try:
            self.entry = await asyncio.to_thread(
                self._entries.update,
                self.key,
                add_compactions=add_compactions,
                policy=policy,
                now=milliseconds(self._clock()),
                **changes,
            )
        except SessionLabelTakenError:
            # Another process took it since we looked; a rebuilt table must not give it to us.
            if record:
                await self._record({"label": self.entry.label})
            raise
        self._events.emit(patch_of(before, self.entry))
        return self.entry

    async def patch_entry(self, patch: Mapping[str, Any]) -> SessionEntry:
        """Set fields of the session entry by their JSON names; null deletes one, all or nothing (sessions 5.1).

        :raises SessionLabelTakenError: if another session has the label.
        :raises SessionError: for an unknown field or an invalid value.
        """
        changes = parse_patch(self.entry, patch)
        return await self.update_entry(**changes) if changes else self.entry

    async def _record(self, changes: Mapping[str, Any]) -> None:
        data = {"key": self.key, **{camel_case(name): value for name, value in changes.items()}}
        await self.append(
            [self.new_entry("custom", customType=ENTRY_CHANGE, data=data)], purpose="entry"
        )

    async def end_turn(self, **changes: Any) -> None:
        """Make the turn durable and bring the session entry up to date: its counters, and fields such as ``status``."""
        counted = self._uncounted_messages
        self.entry = await asyncio.to_thread(
            self._entries.update,
            self.key,
            add_messages=counted,
            now=milliseconds(self._clock()),
            **changes,
        )
        self._uncounted_messages -= counted
        if self._durability == "turn":
            await asyncio.to_thread(self._store.sync, self.session_id)

    async def _append(self, append: Append) -> Done:
        done = await self._queue.put(append)
        if done.branch is not None or any(map(changes_session, done.result.found)):
            row = await asyncio.to_thread(self._entries.get, self.key)
            self.entry = row or self.entry
        return done

    def _write(self, group: Sequence[Append]) -> Done:
        """Write a group, and read the branch anew where the file does not simply continue what we know."""
        moved: SessionEntry | None = None
        session_id, position = self._session_id, self._position
        standing: dict[str, Entry] = {}
        make = maker_of(group, self._by_id, standing)
        if make is not None and self._version != FORMAT_VERSION:
            moved = self._copy_to_current_version()
            session_id = moved.session_id
            position = end_of(self._store.read_branch(session_id))
        if make is None:
            result = self._store.read_on(session_id, position)
        else:
            file, durability = self._store.path(session_id), self._durability
            make = storing(make, file, flush=durability != "os")
            result = self._store.append(
                session_id,
                position,
                make,
                purpose=group[0].purpose,
                flush=durability == "message",
            )
        news = (*result.found, *result.written)
        standing |= {entry["id"]: entry for entry in news}
        if (
            moved is None
            and position.inode in {None, result.position.inode}
            and not self._repeats(news)
            and lengthens(position.leaf_id, news, result.position.leaf_id)
        ):
            return Done(result, standing)
        return Done(result, standing, self._store.read_branch(session_id), moved)

    def _repeats(self, news: Sequence[Entry]) -> bool:
        """Whether another program wrote an id that stands on the branch already (C12)."""
        ids = {entry["id"] for entry in news}
        return len(ids) < len(news) or not self._by_id.keys().isdisjoint(ids)

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
        previous = (*self.entry.previous_session_ids, self._session_id)
        entry = evolve(self.entry, session_id=session_id, previous_session_ids=previous)
        change = self.new_entry("custom", customType=ENTRY_CHANGE, data=record_of(entry))
        new = self._store.path(session_id)
        copy_blobs(old, new)
        self._store.append(
            session_id,
            self._store.create(header, flush=True),
            storing(lambda leaf_id, found: (*contents.entries, change), new, flush=True),
            purpose="copy to format 3",
            flush=True,
        )
        moved = self._entries.move(self.key, self._session_id, session_id)
        logger.info("copied %s to format 3 as %s", old, session_id, extra={"session_key": self.key})
        return moved

    def _take_in(self, done: Done) -> None:
        result, branch = done.result, done.branch
        if done.moved is not None:
            self.entry, self._session_id = done.moved, done.moved.session_id
            self._version = FORMAT_VERSION
        self._uncounted_messages += sum(map(says_something_new, result.written))
        if branch is not None:
            self._see(branch.entries)
            self.faults = branch.faults
            self._position = end_of(branch)
            self._visible_from = branch.start
        else:
            self._position = result.position
            news = (*result.found, *result.written)
            self._path += news
            self._by_id |= done.standing
            if self._items is not None:
                self._newest_items += context_items(news)
        self._events.emit_appended(self, result.written)

    def _see(self, path: Iterable[Entry]) -> None:
        """Take another active branch for ours."""
        self._path = list(path)
        self._by_id = {entry["id"]: entry for entry in self._path}
        self._items, self._newest_items = None, []
