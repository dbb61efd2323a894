"""The memory flush of one session: when it is due, and that it runs once a cycle (context 6.10, memory 8)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from attrs import define, field

from hermitcrab.agent.parts import SessionParts
from hermitcrab.compaction.budget import Budget
from hermitcrab.compaction.view import View, ViewBuilder
from hermitcrab.memory.flush import FLUSH_TOOLS, FlushOutcome, run_flush
from hermitcrab.memory.prompts import flush_prompt, flush_system_prompt
from hermitcrab.memory.startup import without_notes
from hermitcrab.messages.pairing import group_messages
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatModel
from hermitcrab.sessions.blobs.restoring import MediaRestorer
from hermitcrab.sessions.format import ENTRY_CHANGE
from hermitcrab.sessions.log import SessionLog

#: After this many failures the flush of a cycle counts as done (context 6.10).
FLUSH_FAILURES = 3
#: The flush leaves this much of the window for its answer, in tokens.
_FLUSH_ANSWER_TOKENS = 1_500


@define(kw_only=True)
class SessionFlush:
    """Runs the flushes of one session.

    :param model: the model of the turn at hand, which flushes where config names no other.
    """

    log: SessionLog
    parts: SessionParts
    view: ViewBuilder
    media: MediaRestorer
    model: Callable[[], ChatModel]
    _requested: list[FlushOutcome] = field(factory=list, init=False)
    _has_failed: bool = field(default=False, init=False)

    def begin_turn(self) -> None:
        """A flush that has failed is tried again."""
        self._has_failed = False

    def is_due(self, view: View, budget: Budget) -> bool:
        """Whether the context is close enough to a compaction, or the transcript large enough."""
        settings = self.parts.settings.compaction
        limit = settings.memory_flush.force_flush_transcript_bytes
        too_large = 0 < limit <= self.log.visible_bytes
        return settings.enabled and (view.tokens >= budget.flush_at or too_large)

    async def run(self, budget: Budget) -> list[FlushOutcome]:
        """Run the memory flush, unless it is off, this cycle's has run, or it has failed in this turn (context 6.10).

        The day is the one on which it begins, however long it takes.
        """
        entry = self.log.entry
        settings = self.parts.settings.compaction.memory_flush
        items = self.log.items()
        if not (items and settings.enabled) or self._has_failed or self._is_flushed():
            return []
        if not self._workspace_is_writable():
            return []
        cycle, now = entry.compaction_count, self.log.now()
        outcome = FlushOutcome(path="")
        messages = [item.message for item in items]
        for part in await asyncio.to_thread(self._flush_parts, messages, budget):
            outcome = _together(outcome, await self._flush_part(part, now))
            if outcome.error is not None:
                self._has_failed = True
                break
        await self._record_flush(outcome, cycle, items[-1].entry_id)
        return [outcome]

    def _is_flushed(self) -> bool:
        """Whether this cycle's flush has run.

        A compaction whose process died, or has not counted it yet, begins a new cycle all the same.
        """
        if not self.log.entry.flushed:
            return False
        for entry in reversed(self.log.path):
            if entry["type"] == "compaction":
                return False
            data = entry.get("data") if entry.get("customType") == ENTRY_CHANGE else None
            if isinstance(data, dict) and "flushedCycle" in data:
                return True
        return True

    async def _flush_part(self, messages: Sequence[Message], now: datetime) -> FlushOutcome:
        settings = self.parts.settings.compaction.memory_flush
        return await run_flush(
            self.parts.flush_model or self.model(),
            messages=without_notes(await self.media.restored(messages)),
            workspace=self.parts.workspace,
            now=now,
            zone=self.parts.zone,
            lock_path=self.parts.flush_lock,
            prompt=settings.prompt,
            system_prompt=settings.system_prompt,
            max_tokens=_FLUSH_ANSWER_TOKENS,
            timeout_s=float(self.parts.settings.compaction.timeout_seconds),
        )

    def _workspace_is_writable(self) -> bool:
        return os.access(self.parts.workspace, os.W_OK)

    def _flush_parts(
        self, messages: Sequence[Message], budget: Budget
    ) -> Sequence[Sequence[Message]]:
        """The conversation as the flush sees it: cut, and in several parts where it does not fit one request.

        What a compaction removes must have been seen by the flush, the oldest messages too (design 7).
        """
        settings = self.parts.settings.compaction.memory_flush
        now: datetime = self.log.now()
        count = self.parts.counter
        instructions = (
            count.text(flush_system_prompt(settings.system_prompt, target="memory/YYYY-MM-DD.md"))
            + count.text(flush_prompt(settings.prompt, target="memory/YYYY-MM-DD.md", now=now))
            + count.tools(FLUSH_TOOLS)
        )
        room = budget.window - instructions - min(_FLUSH_ANSWER_TOKENS, budget.reserve)
        view = self.view.build(messages, budget)
        parts: list[list[Message]] = [[]]
        taken = 0
        for group in group_messages(view.messages):
            members = [view.messages[index] for index in group]
            tokens = count.messages(members)
            if parts[-1] and taken + tokens > room:
                parts.append([])
                taken = 0
            parts[-1] += members
            taken += tokens
        return parts

    async def _record_flush(self, outcome: FlushOutcome, cycle: int, last: str | None) -> None:
        now = int(self.log.now().timestamp() * 1000)
        if outcome.error is None:
            await self.log.update_entry(
                policy="preserve-activity",
                flushed_cycle=cycle,
                flushed_at=now,
                flushed_entry_id=last,
                flush_failures=0,
                flush_error=None,
            )
            return
        failures = self.log.entry.flush_failures + 1
        changes: dict[str, Any] = {"flush_failures": failures, "flush_error": outcome.error[:200]}
        if failures >= FLUSH_FAILURES:
            changes |= {"flushed_cycle": cycle, "flushed_entry_id": None}
        await self.log.update_entry(policy="preserve-activity", **changes)

    async def run_on_request(self, budget: Budget) -> None:
        """A plugin wants a flush; the guard of the cycle decides."""
        self._requested.extend(await self.run(budget))

    def take_requested(self) -> list[FlushOutcome]:
        """The flushes that plugins have had run since this was asked last."""
        taken = list(self._requested)
        self._requested.clear()
        return taken


def _together(first: FlushOutcome, second: FlushOutcome) -> FlushOutcome:
    """The outcome of a flush in parts, as if it were one."""
    return FlushOutcome(
        path=second.path,
        bytes_written=first.bytes_written + second.bytes_written,
        silent=second.silent and not first.bytes_written,
        error=second.error,
        calls=first.calls + second.calls,
        usage=first.usage + second.usage,
    )
