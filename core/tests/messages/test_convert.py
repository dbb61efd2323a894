from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.messages.build import assistant, tool_call, tool_result, user
from hermitcrab.messages.convert_anthropic import from_anthropic, to_anthropic
from hermitcrab.messages.convert_openai import from_openai, to_openai
from hermitcrab.messages.text import blocks_of, result_call_id, text_of, tool_calls_of
from hermitcrab.messages.types import Message

PIXEL = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(texts, values, max_size=3)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = []
    for round_number in range(draw(st.integers(0, 4))):
        messages.append(user(draw(texts)))
        names = draw(st.lists(texts, max_size=3))
        calls: Any = [
            {"id": f"call_{round_number}_{index}", "name": name, "arguments": draw(arguments)}
            for index, name in enumerate(names)
        ]
        messages.append(assistant(draw(texts), tool_calls=calls))
        messages += [tool_result(call["id"], call["name"], draw(texts)) for call in calls]
    return messages


def facts(messages: list[Message]) -> list[Any]:
    return [
        (
            message["role"],
            text_of(message),
            [(call["id"], call["name"], call["arguments"]) for call in tool_calls_of(message)],
            result_call_id(message),
            message.get("toolName"),
        )
        for message in messages
    ]


def merged_neighbours(found: list[Any]) -> list[Any]:
    """The facts as the Messages API keeps them: neighbouring user or assistant messages are one."""
    merged: list[Any] = []
    for fact in found:
        if merged and fact[0] in ("user", "assistant") and merged[-1][0] == fact[0]:
            previous = merged[-1]
            merged[-1] = (fact[0], f"{previous[1]}\n{fact[1]}", previous[2] + fact[2], "", None)
        else:
            merged.append(fact)
    return merged


@settings(deadline=None)
@given(conversations())
def test_openai_round_trip_keeps_roles_texts_ids_and_arguments(messages: list[Message]) -> None:
    sent = to_openai(messages)
    json.dumps(sent)
    assert facts(from_openai(sent)) == facts(messages)


@settings(deadline=None)
@given(conversations())
def test_anthropic_round_trip_keeps_roles_texts_ids_and_arguments(messages: list[Message]) -> None:
    sent = to_anthropic(messages)
    json.dumps(sent)
    assert all(one["role"] != two["role"] for one, two in pairwise(sent))
    assert merged_neighbours(facts(from_anthropic(sent))) == merged_neighbours(facts(messages))


@settings(deadline=None)
@given(conversations())
def test_a_second_round_trip_changes_nothing(messages: list[Message]) -> None:
    assert to_openai(from_openai(to_openai(messages))) == to_openai(messages)
    assert to_anthropic(from_anthropic(to_anthropic(messages))) == to_anthropic(messages)


def test_openai_gets_the_system_prompt_first_and_arguments_as_json() -> None:
    call: Any = {"id": "c1", "name": "read", "arguments": {"path": "a.md"}}
    sent = to_openai(
        [user("hi"), assistant("", tool_calls=[call]), tool_result("c1", "read", "x")], "Be kind."
    )
    assert sent == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path": "a.md"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
    ]


def test_an_assistant_message_without_anything_has_empty_content_not_null() -> None:
    thought = assistant([{"type": "thinking", "thinking": "hm"}])
    assert to_openai([thought]) == [{"role": "assistant", "content": ""}]


def test_a_user_message_without_anything_to_send_has_empty_content() -> None:
    assert to_openai([user([{"type": "video"}])]) == [{"role": "user", "content": ""}]


def test_images_become_data_urls_and_come_back() -> None:
    message = user([{"type": "text", "text": "look"}, PIXEL])  # type: ignore[list-item]
    sent = to_openai([message])
    assert sent[0]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="},
    }
    assert from_openai(sent)[0]["content"] == message["content"]
    assert from_anthropic(to_anthropic([message]))[0]["content"] == message["content"]


def test_an_image_by_address_stays_an_address() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    messages = from_openai([{"role": "user", "content": [part]}])
    assert to_openai(messages)[0]["content"] == [part]
    assert to_anthropic(messages)[0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    ]


def test_images_of_tool_results_follow_all_results_of_the_round() -> None:
    results = [tool_result("a", "shot", [PIXEL]), tool_result("b", "read", "text")]  # type: ignore[list-item]
    sent = to_openai([*results, user("and?")])
    assert [message["role"] for message in sent] == ["tool", "tool", "user", "user"]
    assert sent[2]["content"][1]["type"] == "image_url"


@pytest.mark.parametrize("convert", [to_openai, to_anthropic])
def test_roles_that_no_provider_knows_go_out_as_user_text(convert: Any) -> None:
    messages: list[Message] = [
        {"role": "custom", "customType": "note", "content": "from a plugin"},
        {"role": "branchSummary", "summary": "we tried B"},
        {"role": "compactionSummary", "summary": "## Decisions"},
        {"role": "bashExecution", "command": "ls", "output": "a.txt"},
    ]
    sent = convert(messages)
    assert {message["role"] for message in sent} == {"user"}
    text = json.dumps(sent)
    for piece in ("from a plugin", "we tried B", "## Decisions", "Ran `ls`", "a.txt"):
        assert piece in text


@pytest.mark.parametrize("convert", [to_openai, to_anthropic])
def test_shell_output_that_is_kept_from_the_model_is_not_sent(convert: Any) -> None:
    message: Any = {"role": "bashExecution", "command": "env", "excludeFromContext": True}
    assert convert([message]) == []


def test_lone_surrogates_never_reach_a_provider() -> None:
    """C57: one lone surrogate makes every following request fail."""
    call: Any = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "\ud83d"}}
    messages: list[Message] = [
        {"role": "user", "content": "x\ud83d"},
        {"role": "assistant", "content": [call]},
    ]
    for sent in (to_openai(messages, "s\ud83d"), to_anthropic(messages)):
        json.dumps(sent, ensure_ascii=False).encode("utf-8")


def test_arguments_that_are_no_json_object_are_kept_as_raw_text() -> None:
    function = {"name": "read", "arguments": '{"path": "a'}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": function}],
    }
    block: Any = blocks_of(from_openai([message])[0])[0]
    assert block["arguments"] == {}
    assert block["rawArguments"] == '{"path": "a'


def test_empty_arguments_are_an_empty_object() -> None:
    message = {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": "now", "arguments": ""}}],
    }
    block: Any = blocks_of(from_openai([message])[0])[0]
    assert block == tool_call("c", "now", {})


def test_system_and_developer_messages_are_not_part_of_the_conversation() -> None:
    given_messages = [{"role": role, "content": "x"} for role in ("system", "developer", "user")]
    assert [message["role"] for message in from_openai(given_messages)] == ["user"]


def test_anthropic_tool_results_come_before_other_user_content() -> None:
    call: Any = {"id": "t1", "name": "read", "arguments": {}}
    sent = to_anthropic(
        [
            assistant("", tool_calls=[call]),
            user("wait"),
            tool_result("t1", "read", "x", is_error=True),
        ]
    )
    assert [part["type"] for part in sent[1]["content"]] == ["tool_result", "text"]
    assert sent[1]["content"][0]["is_error"] is True
    back = from_anthropic(sent)
    assert [message["role"] for message in back] == ["assistant", "toolResult", "user"]
    assert back[1]["isError"] is True
    assert back[1]["toolName"] == "read"


def test_anthropic_gets_no_blank_text() -> None:
    assert to_anthropic([user(" \n"), assistant("")]) == []


def test_signed_thinking_goes_back_to_anthropic_untouched() -> None:
    """C49: a reasoning block that is separated from its call is refused."""
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "sig=="},
        {"type": "redacted_thinking", "data": "abc"},
        {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}},
    ]
    messages = from_anthropic([{"role": "assistant", "content": content}])
    assert to_anthropic(messages) == [{"role": "assistant", "content": content}]
    foreign: list[Message] = [{**messages[0], "provider": "other"}]
    assert [part["type"] for part in to_anthropic(foreign)[0]["content"]] == ["tool_use"]


def test_reasoning_of_chat_completions_is_kept_and_not_sent_back() -> None:
    messages = from_openai([{"role": "assistant", "content": "a", "reasoning_content": "because"}])
    assert blocks_of(messages[0])[0] == {"type": "thinking", "thinking": "because"}
    assert to_openai(messages) == [{"role": "assistant", "content": "a"}]
