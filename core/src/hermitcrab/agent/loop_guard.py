"""Noticing that a turn goes round in circles around compactions (context 6.5). Pure: no I/O, no clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from attrs import define, field

#: So many tool calls after a compaction are looked at, and so many equal ones are a loop.
GUARDED_CALLS = 3
#: Compactions with one model call between each and the next, after which the turn stops (C30).
REFILLS = 8

StopReason = Literal["tool_rounds", "tool_loop", "compaction_storm"]


def fingerprint(name: str, arguments: Mapping[str, Any], result: str) -> str:
    """A hash of a tool call and its result; the order of the arguments does not matter."""
    data = json.dumps([name, arguments, result], sort_keys=True, default=repr, ensure_ascii=False)
    return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()


@define
class LoopGuard:
    """Watches the tool calls behind compactions, and the compactions themselves, of one turn."""

    _calls_left: int = field(default=0, init=False)
    _seen: list[str] = field(factory=list, init=False)
    _refills: int = field(default=0, init=False)

    def model_asked(self, *, compacted: bool) -> None:
        """The model is about to be asked; ``compacted`` tells whether that took a compaction."""
        self._refills = self._refills + 1 if compacted else 0
        if compacted:
            self._calls_left = GUARDED_CALLS

    def tool_called(self, name: str, arguments: Mapping[str, Any], result: str) -> None:
        """A tool has run."""
        if self._calls_left > 0:
            self._calls_left -= 1
            self._seen = [*self._seen, fingerprint(name, arguments, result)][-GUARDED_CALLS:]
            return
        self._seen.clear()

    @property
    def stop(self) -> StopReason | None:
        """Why the turn should stop, if it should."""
        if len(self._seen) == GUARDED_CALLS and len(set(self._seen)) == 1:
            return "tool_loop"
        return "compaction_storm" if self._refills >= REFILLS else None


def stop_note(reason: StopReason, rounds: int) -> str:
    """What the user is told of a turn that was stopped."""
    if reason == "tool_loop":
        return f"[Stopped: after a compaction, the same tool call gave the same result {GUARDED_CALLS} times in a row.]"
    if reason == "compaction_storm":
        return (
            f"[Stopped: the context was full again right after each of {REFILLS} compactions. Ask for less at a time,"
            " or use a model with a larger context window.]"
        )
    return f"[Stopped after {rounds} rounds of tool calls.]"
