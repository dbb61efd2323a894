"""What one session is doing in this process, by the table of :mod:`hermitcrab.sessions.states`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from hermitcrab.sessions.states import SessionState, StateChange, next_state


class Activity:
    """The state of one session."""

    def __init__(self, key: str) -> None:
        self.state: SessionState = "idle"
        self._key = key
        self._in_turn = False
        self._compacted = asyncio.Event()

    def check(self, change: StateChange) -> SessionState:
        """The state that a change would lead to.

        :raises SessionStateError: if the change is illegal now.
        """
        return next_state(self.state, change, where=self._key)

    def move(self, change: StateChange) -> None:
        """Go to the next state.

        :raises SessionStateError: if the change is illegal now.
        """
        self.state = self.check(change)

    def archive(self) -> None:
        """Another session id has the key now, whatever still runs under this one."""
        if self.state != "archived":
            self.move("reset" if self.state == "idle" else "replaced")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One turn, which waits for a compaction that somebody's own loop has begun.

        :raises SessionStateError: if a turn runs already, or the session is archived.
        """
        while self.state == "compacting":
            await self._compacted.wait()
        self.move("turn_began")
        self._in_turn = True
        try:
            yield
        finally:
            self._in_turn = False
            self.move("turn_ended")

    @contextmanager
    def compacting(self) -> Iterator[None]:
        """One compaction, in a turn or outside of one; one within another is part of it.

        :raises SessionStateError: if the session is archived.
        """
        if self.state == "compacting":
            yield
            return
        self.move("compaction_began")
        self._compacted.clear()
        try:
            yield
        finally:
            self.move("turn_resumed" if self._in_turn else "compaction_ended")
            self._compacted.set()
