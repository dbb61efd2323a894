"""Events and results of tool calls and of what is written to the transcript (sessions 6.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import frozen

from hermitcrab.hooks import merge
from hermitcrab.hooks.events import HookEvent

if TYPE_CHECKING:
    from hermitcrab.messages.types import Message

__all__ = [
    "AfterToolCall",
    "BeforeMessageWrite",
    "BeforeToolCall",
    "MessageWriteDecision",
    "ToolCallDecision",
    "ToolResultPersist",
    "ToolResultReplacement",
]


@frozen(kw_only=True)
class ToolCallDecision:
    """What happens with a tool call.

    ``params`` replaces the arguments, the lowest priority last. A ``block`` is final: nobody can undo it.
    """

    params: Mapping[str, Any] | None = merge.last(dict)
    block: bool = merge.sticky_true(ends=True)
    block_reason: str | None = merge.along("block", str)
    decided_by: str | None = merge.source_of("block")


@frozen(kw_only=True)
class ToolResultReplacement:
    """The message to keep in place of the tool's result."""

    message: Message | None = merge.last(dict)  # noqa: RUF009 - a field


@frozen(kw_only=True)
class MessageWriteDecision:
    """The message to write in place of the one at hand, or ``block`` so that none is written."""

    message: Message | None = merge.last(dict)  # noqa: RUF009 - a field
    block: bool = merge.sticky_true(ends=True)
    decided_by: str | None = merge.source_of("block")


@frozen(kw_only=True)
class BeforeToolCall(HookEvent[ToolCallDecision]):
    """Before a tool runs. A handler that fails blocks the call."""

    hook: ClassVar[str] = "before_tool_call"
    tool_name: str
    params: Mapping[str, Any]
    run_id: str | None = None
    tool_call_id: str | None = None


@frozen(kw_only=True)
class AfterToolCall(HookEvent[None]):
    """A tool has run; ``duration_ms`` is in milliseconds."""

    hook: ClassVar[str] = "after_tool_call"
    tool_name: str
    params: Mapping[str, Any]
    run_id: str | None = None
    tool_call_id: str | None = None
    result: Any = None
    error: str | None = None
    duration_ms: int | None = None


@frozen(kw_only=True)
class ToolResultPersist(HookEvent[ToolResultReplacement]):
    """A tool's result is about to be kept. Synchronous: handlers must not be ``async def``."""

    hook: ClassVar[str] = "tool_result_persist"
    message: Message
    tool_name: str | None = None
    tool_call_id: str | None = None
    is_synthetic: bool = False


@frozen(kw_only=True)
class BeforeMessageWrite(HookEvent[MessageWriteDecision]):
    """A message is about to be written to the transcript. Synchronous: handlers must not be ``async def``."""

    hook: ClassVar[str] = "before_message_write"
    message: Message
    session_key: str | None = None
    agent_id: str | None = None
