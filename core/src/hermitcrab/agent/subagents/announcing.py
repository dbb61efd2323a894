"""Handing what a subagent found to the session that started it (sessions 5.5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from hermitcrab.agent.opening import SessionOpener
from hermitcrab.agent.session import SessionContext
from hermitcrab.errors import HermitcrabError
from hermitcrab.messages.types import Message

logger = logging.getLogger("hermitcrab.agent")


class Announcer:
    """Appends results to conversations, between their turns.

    :param turn: what holds the session of a key for one turn.
    """

    def __init__(self, opener: SessionOpener, turn: Callable[[str], asyncio.Lock]) -> None:
        self._opener = opener
        self._turn = turn
        self.waiting: set[asyncio.Task[None]] = set()

    async def announce(self, parent: SessionContext, message: Message) -> None:
        """Append a result, at once or, if a turn holds the parent, when that is over.

        Waiting for that turn here could wait for ourselves: a tool of it may be what started the subagent.
        """
        is_held = self._turn(parent.log.key).locked()
        task = asyncio.create_task(self._append(parent, message))
        self.waiting.add(task)
        task.add_done_callback(self.waiting.discard)
        if not is_held:
            await asyncio.shield(task)

    async def _append(self, parent: SessionContext, message: Message) -> None:
        key = parent.log.key
        try:
            async with self._turn(key):
                current = await self._opener.open(key)
                if current is not parent:
                    logger.info(
                        "a subagent's result came too late for its conversation",
                        extra={"session_key": key},
                    )
                    return
                async with current.activity.turn():
                    current.begin_turn()
                    await current.append(message)
                    await current.end_turn(None)
        except HermitcrabError as error:
            logger.warning(
                "a subagent's result could not be appended: %s",
                error,
                extra={"session_key": key},
            )
