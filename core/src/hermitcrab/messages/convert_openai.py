"""Messages to and from the shape of OpenAI chat completions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.convert_shared import (
    UNKNOWN_TOOL,
    arguments_json,
    call_block,
    field_of,
    sent_to_models,
    user_blocks,
)
from hermitcrab.messages.text import blocks_of, result_call_id, scrub_text, text_of, tool_calls_of
from hermitcrab.messages.types import Block, Message

_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)
_FOREIGN_PARTS = frozenset({"input_audio", "file"})
_TOOL_IMAGES = "Images from the tool results above:"


def to_openai(messages: Iterable[Message], system: str = "") -> list[dict[str, Any]]:
    """Messages as chat completions take them, the system prompt first.

    Thinking is left out. Roles that the format does not know go out as user text. The format has no images in tool
    results, so those follow the results in a user message, and it has no error flag for results.
    """
    converted: list[dict[str, Any]] = []
    if system:
        converted.append({"role": "system", "content": scrub_text(system)})
    images: list[dict[str, Any]] = []
    for message in messages:
        if not sent_to_models(message):
            continue
        if message["role"] == "toolResult":
            converted.append(_tool_message(message))
            images += _image_parts(message)
            continue
        converted += _tool_images(images)
        images = []
        converted.append(
            _assistant_message(message)
            if message["role"] == "assistant"
            else _user_message(user_blocks(message))
        )
    return converted + _tool_images(images)


def _user_message(blocks: list[Block]) -> dict[str, Any]:
    if all(block["type"] == "text" for block in blocks):
        return {"role": "user", "content": _joined_text(blocks)}
    return {"role": "user", "content": [part for block in blocks for part in _parts(block)] or ""}


def _joined_text(blocks: list[Block]) -> str:
    return scrub_text("\n".join(str(block.get("text") or "") for block in blocks))


def _parts(block: Block) -> list[dict[str, Any]]:
    kind = block["type"]
    if kind == "text":
        return [{"type": "text", "text": scrub_text(str(block.get("text") or ""))}]
    if kind == "image":
        return _image_part(block)
    return [{**block}] if kind in _FOREIGN_PARTS else []


def _image_part(block: Block) -> list[dict[str, Any]]:
    data = field_of(block, "data")
    url = f"data:{field_of(block, 'mimeType') or 'image/png'};base64,{data}" if data else None
    url = url or field_of(block, "url")
    return [{"type": "image_url", "image_url": {"url": url}}] if url else []


def _image_parts(message: Message) -> list[dict[str, Any]]:
    blocks = [block for block in blocks_of(message) if block["type"] == "image"]
    return [part for block in blocks for part in _image_part(block)]


def _tool_images(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not images:
        return []
    return [{"role": "user", "content": [{"type": "text", "text": _TOOL_IMAGES}, *images]}]


def _tool_message(message: Message) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": result_call_id(message),
        "content": scrub_text(text_of(message)),
    }


def _assistant_message(message: Message) -> dict[str, Any]:
    text = scrub_text(text_of(message))
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": arguments_json(call["arguments"])},
        }
        for call in tool_calls_of(message)
    ]
    if not calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def from_openai(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Messages from chat completions.

    System and developer messages are left out: the system prompt is not part of a conversation. Arguments that are
    not a JSON object leave the call's ``arguments`` empty and are kept in the block's field ``rawArguments``.
    """
    converted: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        role = message.get("role")
        if role == "user":
            converted.append(user(_blocks(message.get("content"))))
        elif role == "assistant":
            reply = assistant(assistant_blocks(message))
            names |= {call["id"]: call["name"] for call in tool_calls_of(reply)}
            converted.append(reply)
        elif role == "tool":
            call_id = str(message.get("tool_call_id") or "")
            name = str(message.get("name") or names.get(call_id) or UNKNOWN_TOOL)
            converted.append(tool_result(call_id, name, _blocks(message.get("content"))))
    return converted


def assistant_blocks(message: Mapping[str, Any]) -> list[Block]:
    """The blocks of an assistant message of chat completions: thinking, text, tool calls."""
    blocks: list[Block] = []
    thinking = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thinking, str):
        blocks.append({"type": "thinking", "thinking": thinking})
    blocks += _blocks(message.get("content") or message.get("refusal"))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            call_id, name = str(call.get("id") or ""), str(function.get("name") or "")
            blocks.append(call_block(call_id, name, function.get("arguments")))
    return blocks


def _blocks(content: Any) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    parts = content if isinstance(content, list) else []
    return [_block(part) for part in parts if isinstance(part, dict) and "type" in part]


def _block(part: Mapping[str, Any]) -> Block:
    if part["type"] == "refusal":
        return {"type": "text", "text": str(part.get("refusal") or "")}
    if part["type"] != "image_url":
        foreign: Block = {**part}  # type: ignore[typeddict-item]  # kept as it came
        return foreign
    image = part.get("image_url")
    url = str(image.get("url") or "") if isinstance(image, dict) else str(image or "")
    found = _DATA_URL.fullmatch(url)
    if found:
        return {"type": "image", "data": found[2], "mimeType": found[1]}
    linked: Block = {"type": "image", "url": url}  # type: ignore[typeddict-unknown-key]
    return linked
