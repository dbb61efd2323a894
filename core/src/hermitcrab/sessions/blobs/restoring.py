"""Putting media back into the messages of a session before a model sees them (design 5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from attrs import define, field

from hermitcrab.messages.types import Message
from hermitcrab.sessions.blobs.blobs import has_references
from hermitcrab.sessions.blobs.files import blob_folder, restore_message
from hermitcrab.sessions.log import SessionLog

logger = logging.getLogger("hermitcrab.sessions")


@define
class MediaRestorer:
    """Reads the media of one session whenever they are wanted: a session with many images never holds them all.

    A file that cannot be read is logged once; the model gets a sentence in its place.
    """

    log: SessionLog
    _reported: set[str] = field(factory=set, init=False)

    async def restored(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages with their media; large texts stay as short as they are. Files are read in a thread."""
        if not any(has_references(message) for message in messages):
            return messages
        return await asyncio.to_thread(self.restored_at_once, messages)

    def restored_at_once(self, messages: Sequence[Message]) -> list[Message]:
        """As :meth:`restored`, in the caller's thread."""
        folder = blob_folder(self.log.file)
        return [
            restore_message(message, folder, texts=False, report=self._report)
            if has_references(message)
            else message
            for message in messages
        ]

    def _report(self, fault: str) -> None:
        if fault not in self._reported:
            self._reported.add(fault)
            logger.warning("%s", fault, extra={"session_key": self.log.key})
