"""Reading a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.messages import assistant, tool_result, user
from hermitcrab_compaction_safeguard.conversation import (
    is_conversation,
    recent_turns,
    tool_failures,
)


def call(number: int = 1) -> Any:
    return {"id": f"c{number}", "name": "read", "arguments": {}}


SILENT: list[Any] = [
    user("  "),
    user("HEARTBEAT_OK"),
    assistant("NO_REPLY"),
    assistant("no_reply NO_REPLY"),
    assistant("", tool_calls=[call()]),
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]},
    {"role": "custom", "content": "hidden", "display": False},
    {"role": "bashExecution", "command": "ls", "excludeFromContext": True},
    tool_result("c1", "read", "text"),
]
SAID: list[Any] = [
    user("hello"),
    assistant("NO_REPLY, or rather: yes"),
    {"role": "user", "content": [{"type": "image", "data": "", "mimeType": "image/png"}]},
    {"role": "custom", "content": "shown"},
    {"role": "bashExecution", "command": "ls"},
    {"role": "branchSummary", "summary": "what was"},
]


@pytest.mark.parametrize("message", SILENT)
def test_a_message_that_says_nothing_is_no_conversation(message: Any) -> None:
    assert not is_conversation([message, tool_result("c9", "read", "much text")])


@pytest.mark.parametrize("message", SAID)
def test_a_message_that_says_something_is_one(message: Any) -> None:
    assert is_conversation([*SILENT, message])


def test_an_empty_list_is_no_conversation() -> None:
    assert not is_conversation([])


def test_work_that_goes_on_behind_a_summary_is_a_conversation() -> None:
    """Results of tools alone, in the middle of a long turn, are not to be lost."""
    work = [assistant("", tool_calls=[call()]), tool_result("c1", "read", "text")]
    assert not is_conversation(work)
    assert is_conversation(work, "## Decisions\n- Read the file.")
    assert not is_conversation(work, "## Decisions\nNo prior history.")


def test_the_newest_turns_are_shown_with_their_results() -> None:
    messages = [
        user("one"),
        assistant("1"),
        user("two"),
        assistant("", tool_calls=[call()]),
        tool_result("c1", "read", "found\nit"),
        tool_result("c7", "read", "a stray result"),
        assistant("2"),
    ]
    assert recent_turns(messages, 1) == [
        "- User: two",
        "- Assistant: [non-text content: toolCall x1]\n- Tool result (read): found\n  | it",
        "- Assistant: 2",
    ]
    assert recent_turns(messages, 0) == []
    assert recent_turns([], 3) == []


def test_with_fewer_turns_the_newest_messages_are_shown() -> None:
    messages = [user("only"), *(assistant(str(n)) for n in range(9))]
    assert recent_turns(messages, 2) == [
        "- User: only",
        "- Assistant: 6",
        "- Assistant: 7",
        "- Assistant: 8",
    ]


def test_a_long_message_is_cut_between_graphemes() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    (line,) = recent_turns([user("x" * 598 + family)], 1)
    assert line == "- User: " + "x" * 598 + "..."
    (whole,) = recent_turns([user("x" * 600)], 1)
    assert whole == "- User: " + "x" * 600


def test_no_line_of_a_message_can_pass_for_a_heading() -> None:
    text = "Look:\n## Decisions\r## Open TODOs\u2028## Exact identifiers"
    (segment,) = recent_turns([user(text)], 1)
    assert not any(line.strip().startswith("#") for line in segment.splitlines())


def test_failures_are_listed_once_each_with_their_state_and_the_newest_first() -> None:
    failed = tool_result("c1", "exec", "no\nsuch file", is_error=True)
    failed["details"] = {"status": "failed", "exitCode": 2, "stderr": "x" * 999}
    messages = [
        failed,
        failed,
        tool_result("c2", "read", "fine"),
        tool_result("c3", "read", "", is_error=True),
        tool_result("c4", "read", "y" * 500, is_error=True),
    ]
    newest, middle, oldest = tool_failures(messages)
    assert oldest == "- exec (status=failed exitCode=2): no such file"
    assert middle == "- read: failed (no output)"
    assert newest == "- read: " + "y" * 237 + "..."
