"""The queue of one session's appends. Those that have gathered go to the disk together (design 5)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from attrs import define, field, frozen

from hermitcrab.errors import EntryError
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.format import Entry
from hermitcrab.sessions.reading import Branch
from hermitcrab.sessions.transcript import AppendResult, EntryMaker
from hermitcrab.sessions.worker import Worker

logger = logging.getLogger("hermitcrab.sessions")


@frozen
class Done:
    """What a worker did for a group of appends.

    ``standing`` has by id what was asked for and what is new, as the transcript has it. ``branch`` is the branch if it
    had to be read anew, and ``moved`` the session entry if its session id is a new one.
    """

    result: AppendResult
    standing: Mapping[str, Entry] = field(factory=dict)
    branch: Branch | None = None
    moved: SessionEntry | None = None


@define(eq=False, kw_only=True)
class Append:
    """What a caller wants: ``entries`` appended, or what ``make`` decides. With neither, to hear of others'."""

    purpose: str
    entries: Sequence[Entry] | None = None
    make: EntryMaker | None = None
    outcome: Done | BaseException | None = None

    def done(self) -> Done:
        """What was done; raises what prevented it."""
        if isinstance(self.outcome, Done):
            return self.outcome
        raise self.outcome or RuntimeError("nothing was done yet")


def maker_of(
    group: Sequence[Append], known: Mapping[str, Entry], standing: dict[str, Entry]
) -> EntryMaker | None:
    """What a group wants written: each of its entries once, or what is decided; ``None`` for nothing.

    :param known: the entries of the branch by id; they are not written again (C12).
    :param standing: gets those of the group's entries that stand in the transcript already.
    """
    first = group[0]
    if first.entries is None:
        return first.make

    def make(leaf_id: str | None, found: Sequence[Entry]) -> Sequence[Entry]:
        news = {entry["id"]: entry for entry in found}
        fresh: dict[str, Entry] = {}
        for append in group:
            for entry in append.entries or ():
                stands = news.get(entry["id"]) or known.get(entry["id"])
                (fresh if stands is None else standing)[entry["id"]] = stands or entry
        return list(fresh.values())

    return make


class AppendQueue:
    """First come, first served; plain entries that have gathered meanwhile are written in one go.

    The first in the queue leads: it has a worker write its own entries and those of all who wait behind it, up to the
    first one who decides under the lock. Whoever decides goes alone, so that what it decides upon stands still.

    :param write: writes a group; called in a thread.
    :param take_in: told what was written, in the event loop, before the next group's turn.
    """

    def __init__(
        self,
        key: str,
        write: Callable[[Sequence[Append]], Done],
        take_in: Callable[[Done], None],
    ) -> None:
        self._key = key
        self._write = write
        self._take_in = take_in
        self._worker = Worker("hermitcrab-append")
        self._waiting: deque[Append] = deque()
        self._turn = asyncio.Lock()

    async def put(self, append: Append) -> Done:
        """Append in turn, and tell what was done once it is as durable as it is to be.

        A caller who is cancelled while it waits leaves nothing behind. One whose entries are being written is cancelled
        once that has ended, so that nobody goes on unaware of it (C24).
        """
        self._waiting.append(append)
        try:
            async with self._turn:
                if append.outcome is None and (cancelled := await self._lead(self._next_group())):
                    raise cancelled
        except asyncio.CancelledError:
            await self._withdraw(append)
            raise
        return append.done()

    def _next_group(self) -> list[Append]:
        group = [self._waiting.popleft()]
        while (
            group[0].entries is not None and self._waiting and self._waiting[0].entries is not None
        ):
            group.append(self._waiting.popleft())
        return group

    async def _lead(self, group: Sequence[Append]) -> asyncio.CancelledError | None:
        """Have a group written; returns the cancelling of the caller, who leads it to its end all the same."""
        cancelled: asyncio.CancelledError | None = None
        outcome: Done | BaseException
        try:
            call = self._worker.start(lambda: self._write(group))
            cancelled = await call.ended()
            outcome = call.result()
            self._take_in(outcome)
        except BaseException as error:  # noqa: BLE001 - every caller of the group raises it
            outcome = error
        if isinstance(outcome, EntryError) and len(group) > 1:
            # One of them cannot be written, and the others shall not suffer from it.
            for append in group:
                cancelled = await self._lead([append]) or cancelled
            return cancelled
        for append in group:
            append.outcome = outcome
        return cancelled

    async def _withdraw(self, append: Append) -> None:
        """Leave the queue; wait for the end of what is being written already."""
        if append in self._waiting:
            self._waiting.remove(append)
            return
        while append.outcome is None:
            try:
                async with self._turn:  # its leader has it until then
                    pass
            except asyncio.CancelledError:
                continue
        if isinstance(append.outcome, BaseException):
            logger.warning(
                "an append whose caller was cancelled failed: %s",
                append.outcome,
                extra={"session_key": self._key},
            )
