"""What a conversation consists of when it is shown: titles, texts, and what is folded away. Pure.

Both readable formats are made of these parts, so that they show the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from attrs import field, frozen

from hermitcrab.messages.media import MEDIA_TYPES, media_bytes, media_name, shown_size
from hermitcrab.messages.text import blocks_of, text_of, tool_calls_of
from hermitcrab.messages.types import BROKEN_STOP_REASONS, Block, Message
from hermitcrab.sessions.format import Entry, iso, parse_time

_ROLES = {
    "user": "User",
    "assistant": "Assistant",
    "toolResult": "Tool result",
    "bashExecution": "Command",
    "custom": "Note",
    "system": "System",
}
#: How many characters of a tool call's arguments are shown before it is unfolded.
_SHORT_ARGUMENTS = 80
#: Images that a page may show from their data.
_SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


@frozen(kw_only=True)
class Said:
    """A text that is read as it stands."""

    text: str


@frozen(kw_only=True)
class Folded:
    """A text that is shown on demand; ``is_code`` says that it is data rather than prose."""

    title: str
    text: str
    is_code: bool = True


@frozen(kw_only=True)
class Picture:
    """An image, by its base64 data; ``name`` says in words what it is."""

    name: str
    mime_type: str
    data: str


@frozen(kw_only=True)
class Section:
    """One entry of a conversation. ``kind`` is the role, or the type of an entry that is no message.

    ``time`` is an ISO text, ``label`` what the user has put on the entry.
    """

    kind: str
    title: str
    time: str | None = None
    label: str | None = None
    parts: tuple[Said | Folded | Picture, ...] = field(factory=tuple)


def section_of(entry: Entry, label: str | None = None) -> Section | None:
    """How an entry is shown; ``None`` for one that only the program reads.

    :param entry: in terms of version 3, with what is kept beside the transcript put back.
    """
    kind = entry["type"]
    fields: Any = entry
    time = _time(fields.get("timestamp"))
    if kind == "message":
        message = entry.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return None
        return _message(message, time, label)
    if kind == "compaction":
        before, after = _count(fields.get("tokensBefore")), _count(fields.get("tokensAfter"))
        title = "Compacted here" + (f": {before} → {after} tokens" if before or after else "")
        return _summary("compaction", title, fields.get("summary"), time)
    if kind == "branch_summary":
        title = "Came here from another branch"
        return _summary("branch_summary", title, fields.get("summary"), time)
    if kind == "custom_message" and fields.get("display") is not False:
        content: Message = {"role": "custom", "content": fields.get("content") or ""}
        return Section(
            kind="custom",
            title=f"Note{_in_brackets(fields.get('customType'))}",
            time=time,
            label=label,
            parts=tuple(_content(content)),
        )
    change = _change(kind, fields)
    return None if change is None else Section(kind="change", title=change, time=time)


def _change(kind: str, fields: Any) -> str | None:
    if kind == "model_change":
        return f"Model: {fields.get('provider')}/{fields.get('modelId')}"
    if kind == "thinking_level_change":
        return f"Thinking: {fields.get('thinkingLevel')}"
    return None


def _summary(kind: str, title: str, summary: object, time: str | None) -> Section:
    text = summary if isinstance(summary, str) else ""
    part = Folded(title="Summary", text=text, is_code=False)
    return Section(kind=kind, title=title, time=time, parts=(part,))


def _message(message: Message, time: str | None, label: str | None) -> Section:
    role = message["role"]
    fields: Any = message
    title = _ROLES.get(role, role)
    parts: tuple[Said | Folded | Picture, ...]
    if role == "toolResult":
        parts = tuple(_result(message))
        title = f"{title}{_in_brackets(fields.get('toolName'))}"
    elif role == "bashExecution":
        parts = (
            Said(text=_text(fields.get("command"))),
            Folded(title="Output", text=_text(fields.get("output"))),
        )
    else:
        parts = (*_content(message), *_calls(message), *_end(message))
        title = f"{title}{_in_brackets(fields.get('model'))}" if role == "assistant" else title
    return Section(
        kind=role,
        title=title,
        time=_time(fields.get("timestamp")) or time,
        label=label,
        parts=parts,
    )


def _content(message: Message) -> Iterator[Said | Folded | Picture]:
    for block in blocks_of(message):
        if block["type"] == "text" and _text(block.get("text")).strip():
            yield Said(text=_text(block.get("text")))
        elif block["type"] == "thinking" and _text(block.get("thinking")).strip():
            yield Folded(title="Thinking", text=_text(block.get("thinking")), is_code=False)
        elif block["type"] in MEDIA_TYPES:
            yield _media(block)


def _calls(message: Message) -> Iterator[Folded]:
    for call in tool_calls_of(message):
        short = json.dumps(call["arguments"], ensure_ascii=False, default=str)[1:-1]
        cut = short if len(short) <= _SHORT_ARGUMENTS else f"{short[:_SHORT_ARGUMENTS]}…"
        arguments = json.dumps(call["arguments"], ensure_ascii=False, indent=2, default=str)
        yield Folded(title=f"Tool call: {call['name'] or '?'}  {cut}".rstrip(), text=arguments)


def _result(message: Message) -> Iterator[Said | Folded | Picture]:
    failed = "Failed" if message.get("isError") is True else "Result"
    yield Folded(title=failed, text=text_of(message))
    for block in blocks_of(message):
        if block["type"] in MEDIA_TYPES:
            yield _media(block)


def _end(message: Message) -> Iterator[Said]:
    reason: Any = message.get("stopReason")
    if isinstance(reason, str) and reason in BROKEN_STOP_REASONS:
        error = _text(message.get("errorMessage"))
        yield Said(text=f"({reason}{f': {error}' if error else ''})")


def _media(block: Block) -> Picture | Said:
    size = media_bytes({**block})
    shown = "" if size is None else f", {shown_size(size)}"
    name = f"{media_name({**block})}{shown}"
    mime_type, data = block.get("mimeType"), block.get("data")
    if isinstance(mime_type, str) and mime_type in _SHOWN_IMAGES and isinstance(data, str):
        return Picture(name=name, mime_type=mime_type, data=data)
    return Said(text=f"[{name}]")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> str:
    return f"{value:,}" if type(value) is int else ""


def _in_brackets(value: object) -> str:
    return f" ({value})" if isinstance(value, str) and value else ""


def _time(value: object) -> str | None:
    moment = parse_time(value)
    return None if moment is None else f"{iso(moment)[:16].replace('T', ' ')} UTC"
