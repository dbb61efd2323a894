"""Reading a conversation: whether it is one, its newest turns, and which tools failed (context 5.6, 5.8, 5.9). Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hermitcrab.compaction import cut_graphemes
from hermitcrab.messages import Message, result_call_id, text_of, tool_calls_of

#: What one message contributes to the newest turns, and one failure to the failures, in characters.
MESSAGE_CHARACTERS = 600
FAILURE_CHARACTERS = 240
#: How far back a tool result may be from what somebody said.
_REACH = 20
#: The whole of a message that says nothing: a silent reply, or the answer to a heartbeat.
_SILENT = re.compile(r"(?:\s|NO_REPLY|HEARTBEAT_OK)*", re.IGNORECASE)
_SPEAKERS = frozenset({"user", "custom", "bashExecution", "branchSummary", "compactionSummary"})
#: What the summary of a history without a conversation says.
_NO_HISTORY = "No prior history."
#: Blocks that are no content by themselves.
_MACHINERY = frozenset(
    {"text", "thinking", "redacted_thinking", "toolCall", "toolUse", "tool_use", "functionCall"}
)


def is_conversation(messages: Sequence[Message], previous_summary: str | None = None) -> bool:
    """Whether anybody says anything; tool results count only close behind something that was said.

    A summary of what was said before counts, but not one that only says that there was nothing.
    """
    if previous_summary is not None and _NO_HISTORY not in previous_summary:
        return True
    last_said: int | None = None
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "toolResult":
            if last_said is not None and index - last_said <= _REACH:
                return True
        elif _says_something(message):
            return True
    return False


def _says_something(message: Message) -> bool:
    fields: Mapping[str, Any] = {**message}
    role = fields.get("role")
    if role == "bashExecution":
        return not fields.get("excludeFromContext") and bool(str(fields.get("command", "")).strip())
    if role == "custom" and fields.get("display") is False:
        return False
    if role not in _SPEAKERS and role != "assistant":
        return False
    text = text_of(message) or str(fields.get("summary") or "")
    if _SILENT.fullmatch(text) is None:
        return True
    return any(block not in _MACHINERY for block in _block_types(message))


def recent_turns(messages: Sequence[Message], turns: int) -> list[str]:
    """The newest turns word for word, each message cut to 600 characters; one item is a message with its results.

    Where there are fewer turns, all messages of the user and the newest others, twice as many as turns (context 5.6).
    """
    kept = _recent_indexes(messages, turns)
    if not kept:
        return []
    wanted = frozenset(kept)
    segments: list[str] = []
    owners: dict[str, int] = {}
    for index in range(kept[0], len(messages)):
        message = messages[index]
        if index in wanted:
            text = _shown(message)
            if text:
                segments.append(f"- {'User' if message['role'] == 'user' else 'Assistant'}: {text}")
                for call in tool_calls_of(message):
                    owners[call["id"]] = len(segments) - 1
        elif message.get("role") == "toolResult":
            owner = owners.get(result_call_id(message))
            if owner is not None:
                name = _one_line(str(message.get("toolName") or "unknown"), 100)
                segments[owner] += f"\n- Tool result ({name}): {_shown(message)}"
    return segments


def user_line(text: str) -> str:
    """How a message of the user with this text begins among the newest turns."""
    return "- User: " + _marked(_cut(text))


def tool_failures(messages: Iterable[Message]) -> list[str]:
    """The calls of tools that failed, one line each, the newest first."""
    failures: dict[str, str] = {}
    for message in messages:
        if message.get("role") == "toolResult" and message.get("isError"):
            key = result_call_id(message) or f"#{len(failures)}"
            failures.setdefault(key, _failure(message))
    return list(reversed(failures.values()))


def _failure(message: Message) -> str:
    fields: Mapping[str, Any] = {**message}
    details = fields.get("details")
    known = details if isinstance(details, dict) else {}
    state = [
        f"{name}={_one_line(str(known[name]), 40)}"
        for name in ("status", "exitCode")
        if isinstance(known.get(name), str | int)
    ]
    text = _one_line(text_of(message), FAILURE_CHARACTERS)
    name = _one_line(str(fields.get("toolName") or "unknown"), 100)
    shown = f" ({' '.join(state)})" if state else ""
    return f"- {name}{shown}: {text or ('failed' if state else 'failed (no output)')}"


def _recent_indexes(messages: Sequence[Message], turns: int) -> list[int]:
    if turns <= 0:
        return []
    spoken = [i for i, one in enumerate(messages) if one.get("role") in ("user", "assistant")]
    users = [i for i in spoken if messages[i]["role"] == "user"]
    if len(users) >= turns:
        return [i for i in spoken if i >= users[-turns]]
    kept = set(users)
    for index in reversed(spoken):
        if len(kept) >= 2 * turns:
            break
        kept.add(index)
    return sorted(kept)


def _shown(message: Message) -> str:
    """The text of a message, lines behind the first one marked so that none of them can be taken for a heading."""
    text = _cut(text_of(message).strip())
    others = Counter(kind for kind in _block_types(message) if kind not in ("text", "thinking"))
    if others:
        listed = ", ".join(f"{kind} x{count}" for kind, count in others.items())
        text = f"{text}\n[non-text content: {listed}]".strip()
    return _marked(text)


def _cut(text: str) -> str:
    if len(text) <= MESSAGE_CHARACTERS:
        return text
    return cut_graphemes(text, MESSAGE_CHARACTERS) + "..."


def _marked(text: str) -> str:
    return "\n  | ".join(text.splitlines())


def _one_line(text: str, characters: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters else cut_graphemes(line, characters - 3) + "..."


def _block_types(message: Message) -> list[str]:
    content: Any = message.get("content")
    if not isinstance(content, list):
        return []
    return [
        _one_line(block["type"], 40)
        for block in content
        if isinstance(block, dict) and isinstance(block.get("type"), str)
    ]
