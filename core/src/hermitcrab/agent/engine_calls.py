"""What an engine is asked besides assembling and compacting: to begin, take in a turn, tidy up (context 1.4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Sequence
from typing import Any, Literal

from hermitcrab.context.contract import has_method
from hermitcrab.context.resolve import ResolvedEngine
from hermitcrab.errors import SessionError
from hermitcrab.messages.types import Message
from hermitcrab.sessions.log import SessionLog
from hermitcrab.sessions.rewrite import Replacement, RewriteResult, rewrite_transcript_entries

logger = logging.getLogger("hermitcrab.agent")

#: How long closing waits for maintenance in the background, in seconds.
CLOSE_S = 10.0

MaintenanceReason = Literal["bootstrap", "turn", "compaction"]


class EngineCalls:
    """The calls of one session's engine that must never cost a reply: what they raise is logged."""

    def __init__(self, resolved: ResolvedEngine, log: SessionLog) -> None:
        self._resolved = resolved
        self._log = log
        self._tidying = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """Let the engine prepare for a session that has messages already."""
        engine = self._resolved.engine
        if has_method(engine, "bootstrap"):
            await self._guarded(
                "bootstrap",
                engine.bootstrap(
                    session_id=self._log.session_id,
                    session_key=self._log.key,
                    session_file=str(self._log.file),
                ),
            )
        await self._maintain("bootstrap")

    async def take_in(self, new_messages: Sequence[Message], pre_turn_count: int) -> bool:
        """Let the engine take in a turn; tells whether it did.

        :param pre_turn_count: how many messages the context had before the turn.
        """
        engine = self._resolved.engine
        session_id, session_key = self._log.session_id, self._log.key
        if has_method(engine, "after_turn"):
            items = self._log.items()
            # A compaction within the turn has made the context shorter; its summary is no part of the turn.
            head = 1 if items and items[0].is_summary else 0
            start = min(pre_turn_count, max(head, len(items) - len(new_messages)))
            return await self._guarded(
                "after_turn",
                engine.after_turn(
                    session_id=session_id,
                    session_key=session_key,
                    session_file=str(self._log.file),
                    messages=[item.message for item in items],
                    pre_prompt_message_count=start,
                ),
            )
        if has_method(engine, "ingest_batch"):
            return await self._guarded(
                "ingest_batch",
                engine.ingest_batch(
                    session_id=session_id, session_key=session_key, messages=list(new_messages)
                ),
            )
        for message in new_messages:
            call = engine.ingest(session_id=session_id, session_key=session_key, message=message)
            if not await self._guarded("ingest", call):
                return False
        return True

    async def tidy_up(self, reason: MaintenanceReason) -> None:
        """Let the engine tidy up; after a turn in the background, if it wants that."""
        mode = self._resolved.engine.info.turn_maintenance_mode
        if reason != "turn" or mode != "background":
            await self._maintain(reason)
            return
        task = asyncio.ensure_future(self._maintain(reason))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        """Wait for what runs in the background, then release the engine."""
        if self._background:
            _, late = await asyncio.wait(self._background, timeout=CLOSE_S)
            for task in late:
                task.cancel()
        await self._resolved.dispose()

    async def _maintain(self, reason: MaintenanceReason) -> None:
        if not has_method(self._resolved.engine, "maintain"):
            return
        runtime_context: dict[str, Any] = {"reason": reason}
        if reason != "bootstrap":
            # What a turn is about to read stays as it is until the turn has run (context 1.4).
            runtime_context["rewrite_transcript_entries"] = self._rewrite
        async with self._tidying:
            await self._guarded(
                "maintain",
                self._resolved.engine.maintain(
                    session_id=self._log.session_id,
                    session_key=self._log.key,
                    session_file=str(self._log.file),
                    runtime_context=runtime_context,
                ),
            )

    async def _rewrite(
        self,
        replacements: Sequence[Replacement],
        *,
        allowed_rewrite_suffix_entry_ids: Collection[str] | None = None,
    ) -> RewriteResult:
        """What engines get: a lock or a disk that says no is no fault of theirs, so nothing is raised for it."""
        try:
            return await rewrite_transcript_entries(
                self._log,
                replacements,
                allowed_rewrite_suffix_entry_ids=allowed_rewrite_suffix_entry_ids,
            )
        except SessionError as error:
            logger.warning(
                "a rewrite for engine %s failed: %s",
                self._resolved.engine_id,
                error,
                extra={"session_key": self._log.key, "plugin_id": self._resolved.engine_id},
            )
            return RewriteResult(False, str(error))

    async def _guarded(self, method: str, call: Awaitable[object]) -> bool:
        try:
            await call
        except Exception as error:
            logger.warning(
                "engine %s failed in %s: %s",
                self._resolved.engine_id,
                method,
                error,
                exc_info=True,
                extra={"session_key": self._log.key, "plugin_id": self._resolved.engine_id},
            )
            return False
        return True
