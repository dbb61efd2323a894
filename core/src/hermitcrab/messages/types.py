"""The wire shape of messages, as transcripts of format 3 hold them.

Messages come from foreign files and from models, so they stay plain dictionaries: unknown fields are kept, and what
these types name is what hermitcrab itself reads. Messages are shared; treat them as read-only.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, Required, TypedDict

Role = Literal["user", "assistant", "toolResult", "custom", "bashExecution"]

#: Stop reasons of an assistant message whose tool calls never ran to their end.
BROKEN_STOP_REASONS = frozenset({"aborted", "error"})


class Block(TypedDict, total=False):
    """One block of content: ``text``, ``thinking``, ``toolCall`` or ``image``."""

    type: Required[str]
    text: str
    thinking: str
    id: str
    name: str
    arguments: dict[str, Any]
    data: str
    mimeType: str


class Usage(TypedDict, total=False):
    """Tokens that the provider reports for one call."""

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    totalTokens: int


class Message(TypedDict, total=False):
    """One message of a conversation.

    ``timestamp`` is in milliseconds since the epoch. ``toolCallId``, ``toolName`` and ``isError`` belong to the role
    ``toolResult``; ``stopReason``, ``usage``, ``provider``, ``model`` and ``errorMessage`` to the role ``assistant``.
    ``groupContext`` marks what was said in a group and not to the agent, ``groupSender`` names who spoke to it in one.
    """

    role: Required[str]
    content: str | list[Block]
    timestamp: int
    toolCallId: str
    toolName: str
    isError: bool
    details: Any
    stopReason: str
    errorMessage: str
    usage: Usage
    provider: str
    model: str
    provenance: dict[str, Any]
    groupContext: NotRequired[dict[str, Any]]
    groupSender: NotRequired[str]
    command: NotRequired[str]
    output: NotRequired[str]
    summary: NotRequired[str]
    customType: NotRequired[str]


class ToolCall(TypedDict):
    """A tool call of an assistant message, whatever spelling its block used.

    ``rawArguments`` is there where the model's arguments are not a JSON object; ``arguments`` is empty then.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    rawArguments: NotRequired[Any]
