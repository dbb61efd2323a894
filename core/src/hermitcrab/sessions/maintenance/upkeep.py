"""Upkeep of the sessions of one agent: what is due, carrying it out, and deleting a session by hand. Blocking."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from attrs import frozen

from hermitcrab.errors import SessionError, SessionNotFoundError
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.entry import milliseconds
from hermitcrab.sessions.keys import DEFAULT_MAIN_KEY
from hermitcrab.sessions.maintenance.draft import Draft
from hermitcrab.sessions.maintenance.folder import Snapshot, read_files
from hermitcrab.sessions.maintenance.maintenance import plan_maintenance
from hermitcrab.sessions.maintenance.plan import Limits, Plan, Removal, SessionRemoval
from hermitcrab.sessions.maintenance.protection import Protection
from hermitcrab.sessions.maintenance.removing import Clock, Removed, Remover, Skipped

if TYPE_CHECKING:
    import sqlite3

logger = logging.getLogger("hermitcrab.sessions")

#: How often a host sees to the sessions of an agent by itself, in milliseconds.
EVERY_MS = 86_400_000
#: How long a transcript that somebody writes to is waited for; what is written to is not due.
_LOCK_TIMEOUT_MS = 1_000
_STATE = "upkeep"


@frozen(kw_only=True)
class Outcome:
    """What carrying out a plan came to."""

    removed: tuple[Removed, ...]
    skipped: tuple[Skipped, ...]

    @property
    def freed_bytes(self) -> int:
        """Bytes that the disk has again."""
        return sum(each.removal.freed_bytes for each in self.removed)

    @property
    def sessions(self) -> tuple[SessionRemoval, ...]:
        """The sessions that are gone."""
        done = (each.removal for each in self.removed)
        return tuple(removal for removal in done if isinstance(removal, SessionRemoval))


@frozen(kw_only=True)
class LastRun:
    """When a host last saw to the sessions, in milliseconds, and what it removed, if it has come to its end."""

    at: int
    sessions: int | None = None
    files: int | None = None
    freed_bytes: int | None = None


def _never() -> bool:
    return False


class Upkeep:
    """Sees to the sessions in the folder of a table.

    :param main_key: the last part of the key of the agent's main conversation.
    """

    def __init__(
        self,
        entries: SessionEntries,
        limits: Limits,
        *,
        clock: Clock,
        main_key: str = DEFAULT_MAIN_KEY,
    ) -> None:
        self._entries = entries
        self._limits = limits
        self._clock = clock
        self._main_key = main_key
        self._remover = Remover(entries, clock=clock, lock_timeout_ms=_LOCK_TIMEOUT_MS)

    def plan(self, *, preserve: Collection[str] = (), is_automatic: bool = False) -> Plan:
        """What is due now.

        :param preserve: keys that are in use.
        :param is_automatic: whether nobody asked for it, so that the cap waits for a batch.
        :raises SessionError: if the entries cannot be read whole, so that nothing can be told to be nobody's.
        """
        return plan_maintenance(
            _snapshot(self._entries),
            self._limits,
            Protection(main_key=self._main_key, preserve=frozenset(preserve)),
            now=milliseconds(self._clock()),
            is_automatic=is_automatic,
        )

    def remove(self, removal: Removal) -> Removed | Skipped:
        """Remove one thing that a plan says, unless it was used since."""
        return self._remover.remove(removal)

    def carry_out(
        self,
        plan: Plan,
        *,
        should_stop: Callable[[], bool] = _never,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Outcome:
        """Remove what a plan says, whatever the mode is; what was used since stays.

        :param should_stop: asked before each removal.
        """
        removed: list[Removed] = []
        skipped: list[Skipped] = []
        for number, removal in enumerate(plan.removals, 1):
            if should_stop():
                break
            result = self.remove(removal)
            if isinstance(result, Removed):
                removed.append(result)
            else:
                skipped.append(result)
            on_progress(number, len(plan.removals))
        return Outcome(removed=tuple(removed), skipped=tuple(skipped))

    def claim(self) -> bool:
        """Whether this process is to see to the sessions today; says so once in :data:`EVERY_MS`, to one process."""
        now = milliseconds(self._clock())

        def work(connection: sqlite3.Connection) -> bool:
            last = _last_run(connection)
            if last is not None and 0 <= now - last.at < EVERY_MS:
                return False
            _write_run(connection, {"at": now})
            return True

        return self._entries.transact(work)

    def release(self) -> None:
        """Give a claim back, so that the next process goes on with what was not done."""
        self._entries.transact(
            lambda connection: connection.execute(
                "delete from session_state where name = ?", (_STATE,)
            )
        )

    def keep_outcome(self, outcome: Outcome) -> None:
        """Write down what came of a claimed run, for :func:`last_run`."""
        record = {
            "at": milliseconds(self._clock()),
            "sessions": len(outcome.sessions),
            "files": len(outcome.removed) - len(outcome.sessions),
            "freedBytes": outcome.freed_bytes,
        }
        self._entries.transact(lambda connection: _write_run(connection, record))


def last_run(entries: SessionEntries) -> LastRun | None:
    """When a host last saw to the sessions, or ``None`` if none has yet."""
    return entries.transact(_last_run)


def delete_session(entries: SessionEntries, key: str, *, clock: Clock) -> Removed:
    """Delete a session because somebody asks for it; its transcripts stay as ``.deleted`` archives for a while.

    :raises SessionNotFoundError: if there is no such session.
    :raises SessionError: if it cannot be deleted, such as because it is being written to.
    """
    draft = Draft(_snapshot(entries), Protection(), now=milliseconds(clock()))
    entry = draft.entries.get(key)
    if entry is None:
        raise SessionNotFoundError(
            f"there is no session {key!r}", hint="See `hermitcrab sessions list`."
        )
    draft.remove_session(entry, "asked", "it was asked for")
    [removal] = draft.removals()
    done = Remover(entries, clock=clock, lock_timeout_ms=_LOCK_TIMEOUT_MS).remove(removal)
    if isinstance(done, Skipped):
        raise SessionError(
            f"session {key!r} was not deleted: {done.why}",
            where=entries.folder,
            hint="Nothing of it was removed. Try again when nobody uses it.",
        )
    return done


def finish_deletion(entries: SessionEntries, key: str, *, clock: Clock) -> bool:
    """Finish the deletion of a session whose transcript is an archive already; tells whether there was one."""
    draft = Draft(_snapshot(entries), Protection(), now=milliseconds(clock()))
    entry = draft.entries.get(key)
    if entry is None or not draft.was_deleted(entry):
        return False
    draft.remove_session(entry, "unfinished", "its deletion was interrupted")
    [removal] = draft.removals()
    remover = Remover(entries, clock=clock, lock_timeout_ms=_LOCK_TIMEOUT_MS)
    return isinstance(remover.remove(removal), Removed)


def _snapshot(entries: SessionEntries) -> Snapshot:
    """The folder as it is. The files are looked at first: an entry can be newer than its file, not the reverse."""
    try:
        files = read_files(entries.folder) if entries.folder.is_dir() else ()
    except OSError as error:
        raise SessionError(
            f"the folder of the sessions cannot be read: {error.strerror or error}",
            where=entries.folder,
        ) from error
    return Snapshot(entries=tuple(entries.list(strict=True)), files=files)


def _last_run(connection: sqlite3.Connection) -> LastRun | None:
    row = connection.execute("select value from session_state where name = ?", (_STATE,)).fetchone()
    if row is None:
        return None
    try:
        record: dict[str, Any] = json.loads(row[0])
        return LastRun(
            at=int(record["at"]),
            sessions=record.get("sessions"),
            files=record.get("files"),
            freed_bytes=record.get("freedBytes"),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        logger.warning("what the last upkeep wrote down cannot be read: %s", error)
        return None


def _write_run(connection: sqlite3.Connection, record: dict[str, Any]) -> None:
    connection.execute(
        "insert into session_state values (?, ?) on conflict (name) do update set value = excluded.value",
        (_STATE, json.dumps(record)),
    )
