from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.caps import MINIMUM_TEXT, GroupCapper, cap_group, cut_text
from hermitcrab.messages.pairing import group_messages
from hermitcrab.messages.text import result_call_id, text_of, tool_calls_of
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

counter = TokenCounter()

words = st.sampled_from(["word ", "中文字", "0123456789", '{"a": 1}', "\n\n", "x", "    "])
long_texts = st.builds(lambda word, times: word * times, words, st.integers(0, 4000))


def calling(**arguments: Any) -> Message:
    call: Any = {"id": "a", "name": "read", "arguments": arguments}
    return assistant("", tool_calls=[call], timestamp=1)


@st.composite
def call_and_result(draw: st.DrawFn) -> list[Message]:
    call = calling(path=draw(long_texts), nested={"lines": [draw(long_texts), 7]})
    return [call, tool_result("a", "read", draw(long_texts), timestamp=2)]


def shape(message: Any) -> Any:
    """What must survive a cut: everything but the texts."""
    if isinstance(message, dict):
        return {
            key: value if key in {"id", "name", "type", "role", "toolCallId"} else shape(value)
            for key, value in message.items()
        }
    if isinstance(message, list):
        return [shape(item) for item in message]
    return "text" if isinstance(message, str) else message


class TestCuttingText:
    @given(st.text(max_size=2000), st.integers(-5, 2500))
    def test_a_cut_never_makes_a_text_longer(self, text: str, keep: int) -> None:
        assert len(cut_text(text, keep)) <= len(text)

    @given(st.integers(MINIMUM_TEXT + 100, 5000), st.integers(0, 200))
    def test_head_and_tail_stay_and_the_marker_counts_what_left(
        self, length: int, keep: int
    ) -> None:
        """C93."""
        text = "".join(chr(0x4E00 + index % 5000) for index in range(length))
        cut = cut_text(text, keep, "tool result")
        head, _, rest = cut.partition("\n[… ")
        marker, _, tail = rest.partition(" …]\n")
        assert marker == (f"{length - keep} of {length} characters of this tool result left out")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + len(tail) == keep

    def test_short_texts_are_never_cut(self) -> None:
        assert cut_text("x" * MINIMUM_TEXT, 0) == "x" * MINIMUM_TEXT


class TestLaws:
    @settings(max_examples=30, deadline=None)
    @given(call_and_result(), st.integers(400, 3000))
    def test_no_group_is_above_the_limit_when_its_texts_can_be_cut(
        self, messages: list[Message], limit: int
    ) -> None:
        capped = GroupCapper(counter).cap(messages, limit)
        assert sum(map(counter.count, capped)) <= limit

    @settings(max_examples=30, deadline=None)
    @given(call_and_result(), st.integers(200, 3000))
    def test_ids_and_structure_stay(self, messages: list[Message], limit: int) -> None:
        capped = GroupCapper(counter).cap(messages, limit)
        assert shape(list(capped)) == shape(messages)

    @settings(max_examples=30, deadline=None)
    @given(call_and_result(), st.integers(200, 3000))
    def test_capping_twice_changes_nothing_more(self, messages: list[Message], limit: int) -> None:
        once = GroupCapper(counter).cap(messages, limit)
        assert list(GroupCapper(counter).cap(once, limit)) == list(once)

    @settings(max_examples=30, deadline=None)
    @given(call_and_result(), st.integers(200, 3000))
    def test_the_originals_are_left_as_they_were(self, messages: list[Message], limit: int) -> None:
        before = repr(messages)
        GroupCapper(counter).cap(messages, limit)
        assert repr(messages) == before


class TestOrder:
    def test_messages_that_fit_are_the_same_list(self) -> None:
        messages = [user("q"), calling(path="a"), tool_result("a", "read", "short")]
        assert GroupCapper(counter).cap(messages, 500) is messages

    def test_only_the_group_that_is_too_large_changes(self) -> None:
        messages = [user("q"), calling(path="a"), tool_result("a", "read", "x " * 5000), user("?")]
        capped = GroupCapper(counter).cap(messages, 500)
        assert [one is other for one, other in zip(capped, messages, strict=True)] == [
            True,
            True,
            False,
            True,
        ]

    def test_results_are_cut_before_arguments(self) -> None:
        call = calling(content="word " * 300)
        capped = GroupCapper(counter).cap([call, tool_result("a", "w", "log " * 5000)], 800)
        assert capped[0] is call
        assert "of this tool result left out" in text_of(capped[1])

    def test_arguments_are_cut_before_the_text_around_them(self) -> None:
        text = "why " * 100
        call: Any = {"id": "a", "name": "write", "arguments": {"content": "line " * 5000}}
        message = assistant(text, tool_calls=[call])
        capped = GroupCapper(counter).cap([message, tool_result("a", "write", "ok")], 400)
        assert text_of(capped[0]) == text
        assert "of this argument left out" in tool_calls_of(capped[0])[0]["arguments"]["content"]

    def test_text_is_cut_last_and_a_user_message_is_still_there(self) -> None:
        """C48: the last user message is always present, with a marker if it had to be cut."""
        [capped] = GroupCapper(counter).cap([user("please " * 5000)], 300)
        assert "of this text left out" in text_of(capped)
        assert counter.count(capped) <= 300

    def test_a_plain_string_stays_a_plain_string(self) -> None:
        [capped] = GroupCapper(counter).cap([{"role": "user", "content": "please " * 5000}], 300)
        assert isinstance(capped["content"], str)
        assert "of this text left out" in capped["content"]

    def test_the_output_of_a_command_is_cut_too(self) -> None:
        message: Any = {"role": "bashExecution", "command": "make", "output": "line\n" * 50_000}
        [capped] = GroupCapper(counter).cap([message], 300)
        assert counter.count(capped) <= 300
        assert capped["command"] == "make"

    @pytest.mark.parametrize("field", ["arguments", "input"])
    def test_arguments_are_cut_whatever_their_field_is_called(self, field: str) -> None:
        block: Any = {"type": "tool_use", "id": "a", "name": "w", field: {"c": "line " * 5000}}
        capped = GroupCapper(counter).cap(
            [{"role": "assistant", "content": [block]}, tool_result("a", "w", "ok")], 300
        )
        assert sum(map(counter.count, capped)) <= 300

    @pytest.mark.parametrize("signature", ["thinkingSignature", "signature"])
    def test_signed_thinking_is_untouched(self, signature: str) -> None:
        """C49: a provider refuses thinking whose text no longer matches its signature."""
        thinking: Any = {"type": "thinking", "thinking": "why " * 500, signature: "sig"}
        message: Any = {
            "role": "assistant",
            "content": [thinking, {"type": "text", "text": "a " * 5000}],
        }
        [capped] = GroupCapper(counter).cap([message], 300)
        blocks: Any = capped["content"]
        assert blocks[0] is thinking
        assert "left out" in blocks[1]["text"]

    def test_unsigned_thinking_is_cut_like_text(self) -> None:
        message: Any = {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "why " * 5000}],
        }
        [capped] = GroupCapper(counter).cap([message], 300)
        assert counter.count(capped) <= 300

    def test_parts_that_are_no_blocks_and_unknown_fields_stay(self) -> None:
        message: Any = {
            "role": "toolResult",
            "toolCallId": "a",
            "content": ["odd", {"type": "text", "text": "x " * 5000, "extra": 1}],
            "details": {"original": "x " * 5000},
        }
        capped: Any = cap_group([message], 300, counter)[0]
        assert capped["content"][0] == "odd"
        assert capped["content"][1]["extra"] == 1
        assert capped["details"] is message["details"]

    def test_parallel_results_share_the_room(self) -> None:
        """C93: several medium results overflow together."""
        calls: Any = [{"id": f"c{n}", "name": "read", "arguments": {}} for n in range(10)]
        messages = [assistant("", tool_calls=calls)]
        messages += [tool_result(f"c{n}", "read", "data " * 20_000) for n in range(10)]
        capped = GroupCapper(counter).cap(messages, 4000)
        assert sum(map(counter.count, capped)) <= 4000
        sizes = [len(text_of(message)) for message in capped[1:]]
        assert min(sizes) == max(sizes) > 800

    def test_what_was_cut_once_is_remembered(self) -> None:
        capper = GroupCapper(counter)
        messages = [user("please " * 5000)]
        assert capper.cap(messages, 300)[0] is capper.cap(messages, 300)[0]

    def test_the_memory_of_cuts_is_bounded_and_never_mixes_messages_up(self) -> None:
        capper = GroupCapper(counter, remembered=1)
        first, second = user("first " * 5000), user("second " * 5000)
        for message, word in [(first, "first"), (second, "second"), (first, "first")]:
            assert text_of(capper.cap([message], 300)[0]).startswith(word)


class TestHostileSizes:
    @pytest.mark.parametrize(
        "text", ["x" * 2_000_000, "log line 1234\n" * 150_000, "中文" * 700_000, " " * 2_000_000]
    )
    def test_a_result_of_megabytes_is_cut_in_seconds(self, text: str) -> None:
        """C93: one result added 180,000 tokens."""
        messages = [calling(path="a"), tool_result("a", "read", text)]
        began = time.monotonic()
        capped = GroupCapper(counter).cap(messages, 8000)
        assert time.monotonic() - began < 20
        assert sum(map(counter.count, capped)) <= 8000
        assert result_call_id(capped[1]) == "a"

    def test_groups_of_a_capped_conversation_are_the_same(self) -> None:
        messages = [user("q"), calling(path="a"), tool_result("a", "read", "x " * 50_000)]
        capped = GroupCapper(counter).cap(messages, 500)
        assert group_messages(capped) == group_messages(messages)
