"""Reading text and tool calls out of messages, and keeping text encodable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hermitcrab.messages.types import Block, Message, ToolCall

_SURROGATE = re.compile("[\ud800-\udfff]")
_CALL_TYPES = frozenset(
    {"toolCall", "toolUse", "functionCall", "tool_call", "tool_use", "function_call"}
)
_RESULT_ID_FIELDS = (
    "toolCallId",
    "toolUseId",
    "tool_call_id",
    "tool_use_id",
    "callId",
    "call_id",
)


def scrub_text(text: str) -> str:
    """Replace lone surrogates, which no file or database can hold, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def scrub(value: Any) -> Any:
    """A copy of a JSON value in which every text, keys included, went through :func:`scrub_text`."""
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, dict):
        return {scrub(key): scrub(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub(item) for item in value]
    return value


def blocks_of(message: Message) -> list[Block]:
    """The content as a list of blocks; a plain string is one text block, anything unreadable is none."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if is_block(block)]


def is_block(value: object) -> bool:
    """Whether a part of a message's content can be read as a block."""
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def text_of(message: Message) -> str:
    """All text blocks of a message, joined by newlines."""
    return "\n".join(
        text
        for block in blocks_of(message)
        if block["type"] == "text" and isinstance(text := block.get("text"), str)
    )


def tool_calls_of(message: Message) -> list[ToolCall]:
    """The tool calls of an assistant message in order; other roles have none (context 4.10)."""
    if message.get("role") != "assistant":
        return []
    return list(_calls(message))


def _calls(message: Message) -> Iterator[ToolCall]:
    for block in blocks_of(message):
        if block["type"] not in _CALL_TYPES:
            continue
        fields: dict[str, Any] = {**block}
        arguments = fields.get("arguments", fields.get("input"))
        call: ToolCall = {
            "id": str(fields.get("id") or fields.get("call_id") or ""),
            "name": str(fields.get("name") or ""),
            "arguments": arguments if isinstance(arguments, dict) else {},
        }
        if "rawArguments" in fields:
            call["rawArguments"] = fields["rawArguments"]
        yield call


def result_call_id(message: Message) -> str:
    """The id of the call that a tool result answers, or an empty string (context 4.10)."""
    fields: dict[str, Any] = {**message}
    for name in _RESULT_ID_FIELDS:
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
    return ""
