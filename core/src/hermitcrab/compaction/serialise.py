"""The conversation as the summariser reads it: data between tags, never instructions (context 4.11, C42)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hermitcrab.messages.caps import cut_text
from hermitcrab.messages.text import blocks_of, text_of, tool_calls_of
from hermitcrab.messages.tokens import compact_json
from hermitcrab.messages.types import Message

#: What one tool result contributes at most, in characters.
RESULT_CHARACTERS = 2_000
#: What one argument of a tool call contributes at most, in characters.
ARGUMENT_CHARACTERS = 400

_MARKER = re.compile(
    r"^(?=\[(?:User|Assistant|Assistant tool calls|Tool result|Tool error|Chunk)\b)"
    r"|^(?=</?(?:conversation|previous-summary|summary)>)",
    re.M,
)


def quoted(text: str) -> str:
    """Text in which no line can be mistaken for a speaker or for the end of the conversation."""
    return _MARKER.sub("\\\\", text)


def serialise(messages: Iterable[Message]) -> str:
    """The messages as labelled text, oldest first."""
    return "\n\n".join(filter(None, map(serialise_message, messages)))


def serialise_message(message: Message) -> str:
    """One message as labelled text; empty if it says nothing."""
    role = message.get("role")
    if role == "assistant":
        return _assistant(message)
    if role == "toolResult":
        label = "Tool error" if message.get("isError") else "Tool result"
        name = message.get("toolName") or "unknown"
        body = cut_text(_text_with_images(message), RESULT_CHARACTERS, "tool result")
        return f"[{label}] {name}: {quoted(body)}"
    if role == "bashExecution":
        command = f"$ {message.get('command', '')}\n{message.get('output', '')}"
        return f"[User]: {quoted(cut_text(command, RESULT_CHARACTERS, 'command output'))}"
    text = _text_with_images(message) or str(message.get("summary") or "")
    return f"[User]: {quoted(text)}" if text.strip() else ""


def _assistant(message: Message) -> str:
    parts: list[str] = []
    text = text_of(message)
    if text.strip():
        parts.append(f"[Assistant]: {quoted(text)}")
    calls = [
        f"{call['name']}({', '.join(map(_argument, call['arguments'].items()))})"
        for call in tool_calls_of(message)
    ]
    if calls:
        parts.append(f"[Assistant tool calls]: {quoted('; '.join(calls))}")
    return "\n".join(parts)


def _argument(item: tuple[str, object]) -> str:
    name, value = item
    return f"{name}={cut_text(compact_json(value), ARGUMENT_CHARACTERS, 'argument')}"


def _text_with_images(message: Message) -> str:
    images = sum(block["type"] == "image" for block in blocks_of(message))
    note = f"[{images} image{'s' * (images > 1)} not shown]" if images else ""
    return "\n".join(filter(None, (text_of(message), note)))
