from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.messages import assistant, tool_result, user
from hermitcrab.messages.text import tool_calls_of
from hermitcrab.messages.types import Message
from hermitcrab.models import ChatReply, ChatRequest, OfflineModel, ToolSchema
from hermitcrab.sessions.context import SUMMARY_LEAD_IN, wrapped_summary

WRITE = ToolSchema("write", "Write a file.", {"type": "object"})
PROMPT = "Memory flush. Append durable notes to memory/2026-01-05.md or reply NO_REPLY."
TIMED = f"{PROMPT}\nCurrent time: Monday, 2026-01-05 2:07 PM (Europe/Berlin)"


async def flush(messages: list[Message], prompt: str = PROMPT) -> ChatReply:
    request = ChatRequest(messages=[*messages, user(prompt)], tools=[WRITE], purpose="flush")
    return await OfflineModel().complete(request)


async def bullets(*messages: Message) -> list[str]:
    calls = tool_calls_of((await flush(list(messages))).message)
    if not calls:
        return []
    return [line[2:] for line in calls[0]["arguments"]["content"].splitlines()[1:]]


async def test_durable_lines_are_written_to_the_file_that_the_prompt_names() -> None:
    reply = await flush([user("I prefer tabs over spaces in Go.")])
    (call,) = tool_calls_of(reply.message)
    assert reply.message["stopReason"] == "toolUse"
    assert call["name"] == "write"
    assert call["arguments"]["path"] == "memory/2026-01-05.md"
    assert call["arguments"]["content"] == "## Session notes\n- I prefer tabs over spaces in Go.\n"


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("Current time: Monday, 2026-01-05 2:07 PM", "## 14:07"),
        ("Current time: 2026-01-05T09:30:00+01:00", "## 09:30"),
        ("Current time: 12:05 am", "## 00:05"),
        ("Current time: unknown", "## Session notes"),
    ],
)
async def test_the_heading_is_the_time_that_the_prompt_tells(line: str, heading: str) -> None:
    reply = await flush([user("I prefer tabs.")], f"{PROMPT}\n{line}")
    content = tool_calls_of(reply.message)[0]["arguments"]["content"]
    assert content.splitlines()[0] == heading


async def test_after_the_write_the_reply_is_silent() -> None:
    first = await flush([user("I prefer tabs.")], TIMED)
    (call,) = tool_calls_of(first.message)
    messages = [
        user("I prefer tabs."),
        user(TIMED),
        first.message,
        tool_result(call["id"], "write", "ok"),
    ]
    request = ChatRequest(messages=messages, tools=[WRITE], purpose="flush")
    assert (await OfflineModel().complete(request)).text == "NO_REPLY"


@pytest.mark.parametrize(
    "text",
    ["hi", "continue", "ok thanks!", "yes, go ahead", "/compact now", "继续", "好的，谢谢", "你好"],
)
async def test_greetings_and_commands_are_not_worth_a_note(text: str) -> None:
    reply = await flush([user(text)])
    assert reply.text == "NO_REPLY"
    assert tool_calls_of(reply.message) == []


@pytest.mark.parametrize(
    "text",
    [
        "the theme selector needs to push the theme update to the next tick",
        "My dentist is Dr. Okafor on Elm Street.",
        "we deploy on Fridays only after the smoke tests",
        "staging listens on 10.2.3.4:9090",
        "make the retry button red when the upload fails",
        "我叫小明，喜欢绿茶。",
        "生产环境的端口改用 8443",
        "Could you rename loader.py to reader.py?",
        "Port 8443.",
    ],
)
async def test_what_a_user_states_is_kept_in_the_users_words(text: str) -> None:
    assert await bullets(user(text)) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "What did we decide about the port?",
        "how does the cache work",
        "为什么端口是这样？",
        "Is it raining?",
    ],
)
async def test_a_question_is_not_a_note_because_it_would_be_found_before_its_answer(
    text: str,
) -> None:
    assert await bullets(user(text)) == []


async def test_a_short_answer_is_kept_with_the_question_that_it_answers() -> None:
    asked = assistant("I see two. Should the gateway store sessions in PostgreSQL?")
    assert await bullets(asked, user("yes")) == [
        "Should the gateway store sessions in PostgreSQL? yes"
    ]


async def test_conclusions_of_the_assistant_are_kept_and_chatter_is_not() -> None:
    answer = (
        "Let me look into this for you.\n\n"
        "Here is what I found so far in the code.\n\n"
        "The root cause was a stale cache key in ThemeSelector.tsx.\n\n"
        "```python\nkey = 'must never be stale'\n```\n"
        "Anything else?"
    )
    assert await bullets(assistant(answer)) == [
        "The root cause was a stale cache key in ThemeSelector.tsx."
    ]


async def test_the_flush_prompt_itself_is_not_a_note() -> None:
    assert (await flush([], f"{PROMPT} You must never overwrite a file.")).text == "NO_REPLY"


async def test_tool_results_are_not_notes() -> None:
    result = tool_result("c", "read", "You must always use port 9999.")
    assert await bullets(result) == []


async def test_recalled_memories_are_not_captured_again() -> None:
    """C76: the wrapper of recalled memories was stored as a new memory."""
    recalled = "<relevant-memories>\nI always drink tea.\n</relevant-memories>\nI moved to Lisbon."
    quoted = assistant("- We decided on port 8443. (memory/2026-01-01.md#L3-L4)")
    assert await bullets(user(recalled), quoted) == ["I moved to Lisbon."]


async def test_the_summary_of_compacted_messages_is_not_noted_again() -> None:
    """The messages behind a summary had their own flush; notes of it would repeat them, headings and all."""
    summary = wrapped_summary(
        SUMMARY_LEAD_IN, "## Decisions\n- We decided on port 8474 for the proxy."
    )
    talk = user("We decided to use tabs.")
    assert await bullets(user(summary), talk) == ["We decided to use tabs."]
    assert await bullets(talk, user(f"Look:\n{summary}")) != ["We decided to use tabs."]


async def test_repeated_lines_are_noted_once() -> None:
    """C77: the same text captured again and again."""
    repeated = [user("Never deploy on Friday!")] * 50
    assert await bullets(*repeated) == ["Never deploy on Friday!"]


async def test_of_too_many_lines_the_weightiest_and_then_the_newest_stay() -> None:
    def remark(number: int) -> Message:
        return user(
            f"the weather looked rather {chr(97 + number // 26)}{chr(97 + number % 26)} there"
        )

    chat = [
        *map(remark, range(100)),
        user("We decided to use tabs."),
        *map(remark, range(100, 200)),
    ]
    found = await bullets(*chat)
    assert len(found) == 40
    assert found[0] == "We decided to use tabs."
    assert found[1:] == [remark(number)["content"][0]["text"] for number in range(161, 200)]  # type: ignore[index,typeddict-item]


async def test_bullets_stay_within_their_length() -> None:
    text = "I went to " + ", ".join(f"Town{index}" for index in range(200)) + "."
    found = await bullets(user(text + " " + "And I like it there. " * 40))
    assert found
    assert max(map(len, found)) <= 240


async def test_most_facts_of_a_mixed_conversation_are_kept() -> None:
    """C79: a capture that keeps almost nothing, or everything. Six of six facts, no more than one line beside them."""
    facts = [
        "My sister Elena lives in Porto.",
        "I am allergic to peanuts.",
        "we use pnpm, never npm",
        "The staging database is db-stage-2.internal:5432",
        "Release day is the first Tuesday of the month",
        "I prefer short answers",
    ]
    chatter = ["hi there", "thanks!", "ok", "continue", "what is a monad?", "lol", "go on please"]
    messages: list[Message] = []
    for index, fact in enumerate(facts):
        messages += [user(chatter[index]), assistant("Sure."), user(fact), assistant("Got it.")]
    found = await bullets(*messages)
    assert set(facts) <= set(found)
    assert len(found) <= len(facts) + 1


async def test_without_a_write_tool_nothing_is_written() -> None:
    request = ChatRequest(messages=[user("I prefer tabs."), user(PROMPT)], purpose="flush")
    assert (await OfflineModel().complete(request)).text == "NO_REPLY"


@pytest.mark.parametrize("text", ["a" * 200_000, "a." * 100_000, "好吧" * 100_000, "a-" * 100_000])
@pytest.mark.timeout(20)
async def test_a_flush_reads_hostile_text_in_linear_time(text: str) -> None:
    """C41."""
    reply: Any = await flush([user(text), assistant(text)])
    assert reply.message["role"] == "assistant"


async def test_the_frames_of_a_pasted_stack_trace_are_not_notes() -> None:
    pasted = (
        "it crashed when I switched the theme while you were working\n"
        "    at resolveVarRefs (/srv/app/src/theme.ts:213:9)\n"
        '  File "/srv/app/main.py", line 12, in main\n'
        "we meet at the harbour at 10:30"
    )
    noted = "\n".join(await bullets(user(pasted)))
    assert "switched the theme" in noted
    assert "at the harbour" in noted
    assert "theme.ts" not in noted
    assert "main.py" not in noted
