"""What a turn tells while it runs, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from hermitcrab.agent.loop_guard import StopReason
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.memory.flush import FlushOutcome
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import TextDelta, ThinkingDelta, TokenUsage


@frozen(kw_only=True)
class ToolStarted:
    """A tool is about to run."""

    call_id: str
    name: str
    arguments: Mapping[str, Any]


@frozen(kw_only=True)
class ToolEnded:
    """A tool has run; ``result`` is what the model sees."""

    call_id: str
    name: str
    result: str
    is_error: bool


@frozen
class Flushed:
    """The silent turn that saves durable facts has run."""

    outcome: FlushOutcome


@frozen
class Compacted:
    """A compaction was tried; its outcome says whether it took place."""

    outcome: CompactionOutcome


@frozen
class Notice:
    """What the user should know while the turn goes on, such as that a compaction has begun."""

    text: str


@frozen(kw_only=True)
class Reply:
    """The end of a turn.

    ``degraded`` says in words what did not work as configured, ``notes`` what else the user should know; ``messages``
    are those that the turn added. ``silent`` says that nothing is to be delivered. ``reasoning`` is what the model
    thought, where the reasoning level asks for it, and ``tool_lines`` are its tool calls in words, where the verbose
    level does. ``stopped`` says why a turn was ended before its model had, if it was.
    """

    text: str
    session_key: str
    session_id: str
    engine: str
    usage: TokenUsage = field(factory=TokenUsage)
    degraded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    messages: Sequence[Message] = ()
    compactions: Sequence[CompactionOutcome] = ()
    flushes: Sequence[FlushOutcome] = ()
    silent: bool = False
    reasoning: str = ""
    tool_lines: tuple[str, ...] = ()
    stopped: StopReason | None = None


TurnEvent = (
    TextDelta | ThinkingDelta | ToolStarted | ToolEnded | Flushed | Compacted | Notice | Reply
)

#: Takes the events of a turn as they happen; must not block.
Emit = Callable[[TurnEvent], None]
