from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.messages.build import assistant, tool_call, tool_result, user
from hermitcrab.messages.text import (
    blocks_of,
    result_call_id,
    scrub,
    scrub_text,
    text_of,
    tool_calls_of,
)

any_text = st.text(st.characters())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


class TestSurrogates:
    @given(any_text)
    def test_scrubbed_text_can_always_be_encoded(self, text: str) -> None:
        """C57: a lone surrogate bricks files and databases, so it becomes U+FFFD, once."""
        scrubbed = scrub_text(text)
        scrubbed.encode("utf-8")
        assert len(scrubbed) == len(text)
        assert scrub_text(scrubbed) == scrubbed

    @given(json_values)
    def test_scrubbing_reaches_every_text_of_a_value_keys_included(self, value: Any) -> None:
        repr(scrub(value)).encode("utf-8")

    def test_text_without_surrogates_is_left_alone(self) -> None:
        assert scrub_text("plain, 中文, 😀") == "plain, 中文, 😀"

    @pytest.mark.parametrize(
        "message",
        [
            user("a\ud83d", timestamp=1),
            assistant("a\ud83d", timestamp=1),
            tool_result("c", "t", "a\ud83d", timestamp=1),
        ],
    )
    def test_builders_replace_surrogates_at_the_door(self, message: Any) -> None:
        """C57."""
        assert text_of(message) == "a\ufffd"

    def test_arguments_of_calls_are_scrubbed_too(self) -> None:
        """C57."""
        assert tool_call("c", "t", {"k\ud800": ["\udfff"]})["arguments"] == {"k\ufffd": ["\ufffd"]}


class TestBlocks:
    def test_a_plain_string_is_one_text_block(self) -> None:
        assert blocks_of({"role": "user", "content": "hi"}) == [{"type": "text", "text": "hi"}]

    @pytest.mark.parametrize("content", [None, 5, {"type": "text"}, []])
    def test_unreadable_content_has_no_blocks(self, content: Any) -> None:
        assert blocks_of({"role": "user", "content": content}) == []

    def test_parts_that_are_no_blocks_are_passed_over(self) -> None:
        parts: Any = [
            "text",
            3,
            {"text": "no type"},
            {"type": ["text"]},
            {"type": "text", "text": "x"},
        ]
        assert blocks_of({"role": "user", "content": parts}) == [{"type": "text", "text": "x"}]

    def test_text_is_joined_from_text_blocks_only(self) -> None:
        blocks: Any = [
            {"type": "text", "text": "a"},
            {"type": "thinking", "thinking": "hidden"},
            {"type": "text", "text": None},
            {"type": "text", "text": "b"},
        ]
        assert text_of({"role": "assistant", "content": blocks}) == "a\nb"


class TestCallsAndResults:
    @pytest.mark.parametrize(
        "kind", ["toolCall", "toolUse", "functionCall", "tool_call", "tool_use", "function_call"]
    )
    def test_every_spelling_of_a_call_is_read(self, kind: str) -> None:
        """Context 4.10."""
        block: Any = {"type": kind, "id": "c", "name": "read", "arguments": {"path": "a"}}
        found = tool_calls_of({"role": "assistant", "content": [block]})
        assert found == [{"id": "c", "name": "read", "arguments": {"path": "a"}}]

    def test_input_and_call_id_are_other_names_for_arguments_and_id(self) -> None:
        block: Any = {"type": "tool_use", "call_id": "c", "name": "read", "input": {"path": "a"}}
        found = tool_calls_of({"role": "assistant", "content": [block]})
        assert found == [{"id": "c", "name": "read", "arguments": {"path": "a"}}]

    def test_only_assistants_have_calls(self) -> None:
        assert tool_calls_of({"role": "user", "content": [tool_call("c", "t", {})]}) == []

    @pytest.mark.parametrize(
        "field",
        ["toolCallId", "toolUseId", "tool_call_id", "tool_use_id", "callId", "call_id"],
    )
    def test_every_spelling_of_a_result_id_is_read(self, field: str) -> None:
        message: Any = {"role": "toolResult", field: "c", "content": []}
        assert result_call_id(message) == "c"

    def test_the_first_result_id_that_is_not_empty_wins(self) -> None:
        message: Any = {"role": "toolResult", "toolCallId": "", "toolUseId": 7, "call_id": "c"}
        assert result_call_id(message) == "c"
        assert result_call_id({"role": "toolResult"}) == ""


class TestBuilders:
    def test_an_assistant_with_calls_stopped_for_them(self) -> None:
        message = assistant("", tool_calls=[{"id": "c", "name": "t", "arguments": {"a": 1}}])
        assert message["stopReason"] == "toolUse"
        assert message["content"] == [tool_call("c", "t", {"a": 1})]

    def test_an_assistant_without_calls_stopped(self) -> None:
        assert assistant("done")["stopReason"] == "stop"
        assert assistant("cut", stop_reason="length")["stopReason"] == "length"

    def test_facts_that_are_not_known_are_left_out(self) -> None:
        assert not {"usage", "provider", "model"} & assistant("x").keys()
        known = assistant("x", usage={"input": 1}, provider="p", model="m")
        assert (known["usage"], known["provider"], known["model"]) == ({"input": 1}, "p", "m")

    def test_blocks_given_to_a_builder_are_copied(self) -> None:
        blocks: Any = [{"type": "text", "text": "a"}]
        message = user(blocks, timestamp=5)
        blocks[0]["text"] = "changed"
        assert text_of(message) == "a"
        assert message["timestamp"] == 5

    def test_a_tool_result_names_its_call(self) -> None:
        result = tool_result("c", "read", "text", is_error=True, timestamp=5)
        assert (result["toolCallId"], result["toolName"], result["isError"]) == ("c", "read", True)
