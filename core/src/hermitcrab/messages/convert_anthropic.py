"""Messages to and from the shape of the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.convert_shared import (
    UNKNOWN_TOOL,
    call_block,
    field_of,
    sent_to_models,
    user_blocks,
)
from hermitcrab.messages.text import blocks_of, result_call_id, scrub, scrub_text, tool_calls_of
from hermitcrab.messages.types import Block, Message


def _signed_by_anthropic(message: Message) -> bool:
    return message.get("provider") in (None, "anthropic")


def to_anthropic(
    messages: Iterable[Message], *, keep_thinking: Callable[[Message], bool] = _signed_by_anthropic
) -> list[dict[str, Any]]:
    """Messages as the Messages API takes them.

    Neighbours of the same role become one message, with tool results in front of other user content as the API
    demands. Blank text and messages that end up empty are left out, because the API refuses them. Signed thinking is
    kept of the messages that ``keep_thinking`` accepts; by default, of those that came from Anthropic.
    """
    converted: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        content = _content_of(message, keep_thinking) if sent_to_models(message) else []
        if not content:
            continue
        if converted and converted[-1]["role"] == role:
            converted[-1]["content"] += content
        else:
            converted.append({"role": role, "content": content})
    for merged in converted:
        merged["content"].sort(key=lambda part: part["type"] != "tool_result")
    return converted


def _content_of(message: Message, keep_thinking: Callable[[Message], bool]) -> list[dict[str, Any]]:
    if message["role"] == "assistant":
        return _assistant_content(message, thinking=keep_thinking(message))
    if message["role"] == "toolResult":
        return [_tool_result(message)]
    return _user_content(user_blocks(message))


def _user_content(blocks: list[Block]) -> list[dict[str, Any]]:
    return [part for block in blocks for part in (*_text(block), *_image(block))]


def _text(block: Block) -> list[dict[str, Any]]:
    text = block.get("text") if block["type"] == "text" else None
    if not isinstance(text, str) or not text.strip():
        return []
    return [{"type": "text", "text": scrub_text(text)}]


def _image(block: Block) -> list[dict[str, Any]]:
    if block["type"] != "image":
        return []
    if data := field_of(block, "data"):
        media_type = field_of(block, "mimeType") or "image/png"
        source = {"type": "base64", "media_type": media_type, "data": data}
    elif url := field_of(block, "url"):
        source = {"type": "url", "url": url}
    else:
        return []
    return [{"type": "image", "source": source}]


def _tool_result(message: Message) -> dict[str, Any]:
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": result_call_id(message),
        "content": _user_content(blocks_of(message)),
    }
    if message.get("isError"):
        result["is_error"] = True
    return result


def _assistant_content(message: Message, *, thinking: bool) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for block in blocks_of(message):
        if block["type"] == "thinking" and thinking:
            content += _thinking(block)
        content += _text(block)
    content += [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["name"],
            "input": scrub(call["arguments"]),
        }
        for call in tool_calls_of(message)
    ]
    return content


def _thinking(block: Block) -> list[dict[str, Any]]:
    signature = field_of(block, "thinkingSignature", "signature")
    if not signature:
        return []
    if field_of(block, "redacted"):
        return [{"type": "redacted_thinking", "data": signature}]
    return [{"type": "thinking", "thinking": block.get("thinking", ""), "signature": signature}]


def from_anthropic(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Messages from the Messages API: each tool result of a user message becomes a message of its own."""
    converted: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        parts = _parts(message.get("content"))
        if message.get("role") == "assistant":
            reply = assistant(assistant_blocks(parts))
            names |= {call["id"]: call["name"] for call in tool_calls_of(reply)}
            converted.append(reply)
        elif message.get("role") == "user":
            converted += _user_messages(parts, names)
    return converted


def _parts(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content or [] if isinstance(part, dict) and "type" in part]


def _user_messages(parts: list[Mapping[str, Any]], names: Mapping[str, str]) -> list[Message]:
    if not parts:
        return [user([])]
    messages: list[Message] = []
    for is_result, run in groupby(parts, key=lambda part: part["type"] == "tool_result"):
        if is_result:
            messages += [_result_message(part, names) for part in run]
        else:
            messages.append(user([_user_block(part) for part in run]))
    return messages


def _result_message(part: Mapping[str, Any], names: Mapping[str, str]) -> Message:
    call_id = str(part.get("tool_use_id") or "")
    blocks = [_user_block(item) for item in _parts(part.get("content"))]
    name = names.get(call_id, UNKNOWN_TOOL)
    return tool_result(call_id, name, blocks, is_error=bool(part.get("is_error")))


def _user_block(part: Mapping[str, Any]) -> Block:
    source = part.get("source")
    if part["type"] == "image" and isinstance(source, dict):
        if source.get("type") == "base64":
            return {
                "type": "image",
                "data": str(source.get("data") or ""),
                "mimeType": str(source.get("media_type") or ""),
            }
        if source.get("type") == "url":
            linked: Block = {"type": "image", "url": source.get("url")}  # type: ignore[typeddict-unknown-key]
            return linked
    foreign: Block = {**part}  # type: ignore[typeddict-item]  # kept as it came
    return foreign


def assistant_blocks(parts: Iterable[Mapping[str, Any]]) -> list[Block]:
    """The blocks of an assistant message of the Messages API; the input of a call may be JSON text."""
    return [_assistant_block(part) for part in parts]


def _assistant_block(part: Mapping[str, Any]) -> Block:
    fields: dict[str, Any]
    if part["type"] == "tool_use":
        call_id, name = str(part.get("id") or ""), str(part.get("name") or "")
        return call_block(call_id, name, part.get("input"))
    if part["type"] == "thinking":
        fields = {"type": "thinking", "thinking": part.get("thinking", "")}
        fields |= {"thinkingSignature": part["signature"]} if part.get("signature") else {}
    elif part["type"] == "redacted_thinking":
        fields = {"type": "thinking", "thinking": "", "redacted": True}
        fields["thinkingSignature"] = part.get("data")
    else:
        fields = {**part}
    block: Block = fields  # type: ignore[assignment]
    return block
