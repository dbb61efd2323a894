"""Sample conversations in wire shape, and what makes a list of messages unfit for a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.text import result_call_id, text_of, tool_calls_of
from hermitcrab.messages.types import Message

_START_MS = 1_767_225_600_000
_ROLES = frozenset({"user", "assistant", "toolResult", "custom", "bashExecution"})


def plain_conversation() -> list[Message]:
    """Two exchanges in English, and a new question."""
    return _timed(
        user("Which port does the staging server use?"),
        assistant("It listens on 8443."),
        user("And the database?"),
        assistant("PostgreSQL is on 5432."),
        user("What did we say about the staging port?"),
    )


def tool_conversation() -> list[Message]:
    """A turn with a round of two tool calls and a failing third one, and a new question."""
    return _timed(
        user("Find the configuration and read it."),
        assistant(
            "I look at both places.",
            tool_calls=[
                {"id": "call_1", "name": "read", "arguments": {"path": "etc/server.toml"}},
                {"id": "call_2", "name": "search", "arguments": {"query": "port", "limit": 3}},
            ],
        ),
        tool_result("call_1", "read", "port = 8443\nhost = '0.0.0.0'"),
        tool_result("call_2", "search", "server.toml:1: port = 8443"),
        assistant(
            "",
            tool_calls=[{"id": "call_3", "name": "read", "arguments": {"path": "etc/none.toml"}}],
        ),
        tool_result("call_3", "read", "no such file", is_error=True),
        assistant("The port is 8443, in etc/server.toml."),
        user("Change it to 9443."),
    )


def chinese_conversation() -> list[Message]:
    """An exchange in Chinese with full-width punctuation and an emoji, and a new question."""
    return _timed(
        user("我们上次决定用哪个数据库？"),
        assistant("决定使用 PostgreSQL 16，端口是 5432。"),
        user("好的👍🏽，备份放在哪里？"),
    )


def long_conversation(turns: int = 40) -> list[Message]:
    """``turns`` exchanges of about 200 words each, and a new question."""
    messages: list[Message] = []
    for turn in range(turns):
        messages += [
            user(f"Question {turn}: " + "tell me more about the harbour. " * 16),
            assistant(f"Answer {turn}: " + "the harbour was rebuilt after the storm. " * 16),
        ]
    return _timed(*messages, user("Which question came first?"))


def wire_problems(messages: Sequence[Any]) -> list[str]:
    """Why a model would refuse these messages: malformed ones, and tool calls and results that do not match."""
    shape = [
        f"messages[{index}] {problem}"
        for index, message in enumerate(messages)
        if (problem := _shape_problem(message))
    ]
    return shape or _pairing_problems(messages)


def _timed(*messages: Message) -> list[Message]:
    """The messages at fixed times, a minute apart."""
    for index, message in enumerate(messages):
        message["timestamp"] = _START_MS + index * 60_000
    return list(messages)


def _shape_problem(message: Any) -> str | None:
    if not isinstance(message, dict):
        return f"is a {type(message).__name__}, not a message"
    if message.get("role") not in _ROLES:
        return f"has the role {message.get('role')!r}"
    if message["role"] == "bashExecution":
        return None
    content = message.get("content")
    if isinstance(content, str):
        return None
    if not isinstance(content, list):
        return f"has {type(content).__name__} as content, not text or blocks"
    odd = [b for b in content if not isinstance(b, dict) or not isinstance(b.get("type"), str)]
    return f"has a block without a type: {odd[0]!r}" if odd else None


def _pairing_problems(messages: Sequence[Message]) -> list[str]:
    problems: list[str] = []
    open_calls: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] == "toolResult":
            call_id = result_call_id(message)
            if call_id not in open_calls:
                problems.append(f"messages[{index}] answers '{call_id}', which no call before asks")
            open_calls.discard(call_id)
            continue
        problems += [f"call '{call_id}' has no result" for call_id in sorted(open_calls)]
        open_calls = {call["id"] for call in tool_calls_of(message)}
    return problems + [f"call '{call_id}' has no result" for call_id in sorted(open_calls)]


def rough_tokens(messages: Sequence[Message]) -> int:
    """A low estimate of what the text of English messages takes, in tokens: six characters each."""
    return sum(len(text_of(message)) for message in messages) // 6
