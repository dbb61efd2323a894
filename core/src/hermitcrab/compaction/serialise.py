"""The conversation as the summariser reads it: data between tags, never instructions (context 4.11, C42)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from hermitcrab.messages.caps import HEAD_SHARE, cut_text
from hermitcrab.messages.provenance import framed, is_from_session, is_group_context
from hermitcrab.messages.text import blocks_of, text_of, tool_calls_of
from hermitcrab.messages.tokens import compact_json
from hermitcrab.messages.types import Message

#: What one tool result contributes at most, in characters.
RESULT_CHARACTERS = 2_000
#: What one argument of a tool call contributes at most, in characters.
ARGUMENT_CHARACTERS = 400
#: Messages whose images are noted one by one; those of the others are counted together (context 4.11).
IMAGE_NOTES = 8

#: Whatever a reader may take for the beginning of a line.
_LINE = r"(?:^|(?<=[\r\v\f\x1c-\x1e\x85\u2028\u2029]))[ \t]*"
_MARKER = re.compile(
    rf"{_LINE}(?=\[(?:User|Others|Assistant|Assistant tool calls|Tool result|Tool error|Chunk)\b)"
    r"|(?=<\s{0,8}/?\s{0,8}(?:conversation|previous-summary|summary)\b)",
    re.M | re.I,
)
#: The longest tool name that is worth its place, in characters.
_NAME_CHARACTERS = 100


def quoted(text: str) -> str:
    """Text in which nothing can be mistaken for a speaker or for the end of the conversation (C42)."""
    return _MARKER.sub(lambda match: match.group() + "\\", text)


def serialise(messages: Sequence[Message]) -> str:
    """The messages as labelled text, oldest first."""
    return join_messages(messages, serialise_message)


def join_messages(messages: Sequence[Message], text: Callable[[Message], str]) -> str:
    """The texts of messages one behind the other; where very many have images, the last of these are only counted.

    :param text: what :func:`serialise_message` says of a message.
    """
    shown: list[str] = []
    noted = more = 0
    for message in messages:
        images = image_count(message)
        noted += images > 0
        if images and noted > IMAGE_NOTES:
            more += images
            shown.append(serialise_message(message, with_images=False))
        else:
            shown.append(text(message))
    if more:
        shown.append(f"[{more} more images in {noted - IMAGE_NOTES} messages not shown]")
    return "\n\n".join(filter(None, shown))


def serialise_message(message: Message, *, with_images: bool = True) -> str:
    """One message as labelled text, with a note of its images; empty if it says nothing."""
    role = message.get("role")
    read = text_with_images if with_images else text_of
    if role == "assistant":
        return _assistant(message)
    if role == "toolResult":
        label = "Tool error" if message.get("isError") else "Tool result"
        name = " ".join(str(message.get("toolName") or "unknown").split())[:_NAME_CHARACTERS]
        body = cut_text(read(message), RESULT_CHARACTERS, "tool result")
        return f"[{label}] {name}: {quoted(body)}"
    if role == "bashExecution":
        command = cut_text(_command_text(message), RESULT_CHARACTERS, "command output")
        return f"[User]: {quoted(command)}"
    text = read(framed(message)) or str(message.get("summary") or "")
    speaker = "Others" if is_group_context(message) or is_from_session(message) else "User"
    return f"[{speaker}]: {quoted(text)}" if text.strip() else ""


def plain_text(message: Message) -> str:
    """What :func:`serialise_message` shows of a message, without labels, escapes and marks of what was left out.

    Identifiers are looked for in this text: they stand in it as they were written.
    """
    text = "\n".join((text_of(message), str(message.get("summary") or "")))
    if message.get("role") == "toolResult":
        return _ends(text, RESULT_CHARACTERS)
    if message.get("role") == "bashExecution":
        return _ends(_command_text(message), RESULT_CHARACTERS)
    values = [
        _ends(value, ARGUMENT_CHARACTERS)
        for call in tool_calls_of(message)
        for value in _values(call["arguments"])
    ]
    return "\n".join((text, *values))


def _values(value: object) -> Iterator[str]:
    """All strings and numbers inside a JSON value."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _values(item)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item)
    elif isinstance(value, str | int):
        yield str(value)


def _ends(text: str, characters: int) -> str:
    """The words at the head and at the tail of a text that is too long."""
    if len(text) <= characters:
        return text
    head = int(characters * HEAD_SHARE)
    # The words at the two cuts are left out: they may be parts of longer ones.
    first = text[:head].rsplit(maxsplit=1)[:1]
    last = text[head - characters :].split(maxsplit=1)[-1:]
    return "\n".join((*first, *last))


def _command_text(message: Message) -> str:
    return f"$ {message.get('command', '')}\n{message.get('output', '')}"


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


def text_with_images(message: Message) -> str:
    """The text of a message, and how many images it shows."""
    images = image_count(message)
    note = f"[{images} image{'s' * (images > 1)} not shown]" if images else ""
    return "\n".join(filter(None, (text_of(message), note)))


def image_count(message: Message) -> int:
    """How many images a message shows."""
    return sum(block["type"] == "image" for block in blocks_of(message))
