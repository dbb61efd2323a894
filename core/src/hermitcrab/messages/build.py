"""Builders for the messages that hermitcrab and its users write."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from hermitcrab.messages.text import scrub, scrub_text
from hermitcrab.messages.types import Block, Message, ToolCall, Usage


def _now_ms() -> int:
    return int(time.time() * 1000)


def _content(content: str | Iterable[Block]) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": scrub_text(content)}]
    blocks: list[Block] = scrub(list(content))
    return blocks


def tool_call(call_id: str, name: str, arguments: Mapping[str, Any]) -> Block:
    """A tool call block for :func:`assistant`."""
    return {
        "type": "toolCall",
        "id": call_id,
        "name": name,
        "arguments": scrub(dict(arguments)),
    }


def user(content: str | Iterable[Block], *, timestamp: int | None = None) -> Message:
    """A user message. ``timestamp`` is in milliseconds since the epoch; the default is now."""
    return {
        "role": "user",
        "content": _content(content),
        "timestamp": _now_ms() if timestamp is None else timestamp,
    }


def assistant(
    content: str | Iterable[Block],
    *,
    tool_calls: Iterable[ToolCall] = (),
    stop_reason: str | None = None,
    usage: Usage | None = None,
    provider: str | None = None,
    model: str | None = None,
    timestamp: int | None = None,
) -> Message:
    """An assistant message; ``stop_reason`` defaults to ``toolUse`` when there are tool calls, else ``stop``."""
    blocks = [block for block in _content(content) if block.get("text") != ""]
    blocks += [tool_call(call["id"], call["name"], call["arguments"]) for call in tool_calls]
    has_calls = any(block["type"] == "toolCall" for block in blocks)
    message: Message = {
        "role": "assistant",
        "content": blocks,
        "stopReason": stop_reason or ("toolUse" if has_calls else "stop"),
        "timestamp": _now_ms() if timestamp is None else timestamp,
    }
    if usage is not None:
        message["usage"] = usage
    if provider is not None:
        message["provider"] = provider
    if model is not None:
        message["model"] = model
    return message


def tool_result(
    call_id: str,
    name: str,
    content: str | Iterable[Block],
    *,
    is_error: bool = False,
    timestamp: int | None = None,
) -> Message:
    """The result of the tool call ``call_id``."""
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": _content(content),
        "isError": is_error,
        "timestamp": _now_ms() if timestamp is None else timestamp,
    }
