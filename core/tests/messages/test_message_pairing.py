from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.pairing import (
    MISSING_RESULT_TEXT,
    PairingFaults,
    find_faults,
    group_messages,
    is_broken,
    is_empty,
    repair_pairing,
)
from hermitcrab.messages.text import result_call_id, text_of, tool_calls_of
from hermitcrab.messages.types import Message

ids = st.sampled_from(["a", "b", "c", ""])
names = st.sampled_from(["read", "write", ""])


def calling(*call_ids: str, stop_reason: str | None = None, text: str = "") -> Message:
    calls: Any = [{"id": call_id, "name": "read", "arguments": {}} for call_id in call_ids]
    return assistant(text, tool_calls=calls, stop_reason=stop_reason, timestamp=1)


def result(call_id: str, text: str = "done") -> Message:
    return tool_result(call_id, "read", text, timestamp=2)


@st.composite
def any_message(draw: st.DrawFn) -> Message:
    kind = draw(st.sampled_from(["user", "assistant", "calls", "result", "custom", "strange"]))
    if kind == "user":
        return user(draw(st.sampled_from(["hello", "", "more"])), timestamp=1)
    if kind == "assistant":
        return assistant("text", stop_reason=draw(st.sampled_from([None, "error"])), timestamp=1)
    if kind == "calls":
        calls: Any = [
            {"id": draw(ids), "name": draw(names), "arguments": {}}
            for _ in range(draw(st.integers(1, 3)))
        ]
        stop = draw(st.sampled_from([None, None, None, "aborted", "error"]))
        return assistant(
            draw(st.sampled_from(["", "t"])), tool_calls=calls, stop_reason=stop, timestamp=1
        )
    if kind == "result":
        return tool_result(draw(ids), draw(names), "r", timestamp=1)
    if kind == "custom":
        return {"role": "custom", "content": "note"}
    strange: Any = draw(
        st.sampled_from(
            [
                {"role": "assistant", "content": None},
                {"role": "user", "content": 5},
                {"role": "assistant", "content": ["x", {"type": 3}], "stopReason": ["stop"]},
                {"role": "toolResult"},
            ]
        )
    )
    message: Message = strange
    return message


conversations = st.lists(any_message(), max_size=12)


class TestRepairLaws:
    @settings(max_examples=200)
    @given(conversations)
    def test_a_repaired_conversation_has_no_faults(self, messages: list[Message]) -> None:
        """C5, C44, #9958, #9964, #10310, #16823, #21985: nothing that a provider refuses for ever is in the view."""
        assert find_faults(repair_pairing(messages).messages) == PairingFaults(0, 0)

    @settings(max_examples=200)
    @given(conversations, st.booleans())
    def test_repairing_twice_changes_nothing_more(
        self, messages: list[Message], drop_broken: bool
    ) -> None:
        once = repair_pairing(messages, drop_broken=drop_broken).messages
        assert repair_pairing(once, drop_broken=drop_broken).messages is once

    @given(conversations, st.booleans())
    def test_what_people_wrote_is_never_lost_and_keeps_its_order(
        self, messages: list[Message], drop_broken: bool
    ) -> None:
        """C48."""
        repaired = repair_pairing(messages, drop_broken=drop_broken).messages
        for role in ("user", "custom"):
            before = [id(message) for message in messages if message.get("role") == role]
            after = [id(message) for message in repaired if message.get("role") == role]
            assert after == before

    @given(conversations)
    def test_the_input_is_left_as_it_was(self, messages: list[Message]) -> None:
        before = [dict(message) for message in messages]
        repair_pairing(messages)
        assert messages == before

    @given(conversations)
    def test_every_result_follows_its_call_at_once_in_the_order_of_the_calls(
        self, messages: list[Message]
    ) -> None:
        repaired = repair_pairing(messages).messages
        for index, message in enumerate(repaired):
            wanted = [call["id"] for call in tool_calls_of(message)]
            behind = repaired[index + 1 : index + 1 + len(wanted)]
            assert [result_call_id(one) for one in behind] == wanted


class TestRepairRules:
    def test_the_same_list_comes_back_when_nothing_is_wrong(self) -> None:
        messages = [user("q"), calling("a"), result("a"), assistant("done")]
        repaired = repair_pairing(messages)
        assert repaired.messages is messages
        assert repaired.orphan_results == repaired.missing_results == 0

    def test_a_result_without_its_call_is_dropped_and_counted(self) -> None:
        """C5: an orphan result at the start made every later request fail."""
        question = user("q")
        repaired = repair_pairing([result("a"), question])
        assert repaired.messages == [question]
        assert repaired.orphan_results == 1

    def test_a_view_that_starts_behind_a_call_loses_its_result(self) -> None:
        """C44, C45: [user, call, result, user] cut to its last two messages."""
        messages = [user("q"), calling("a"), result("a"), user("next")]
        assert repair_pairing(messages[-2:]).messages == [messages[-1]]

    def test_one_missing_result_of_parallel_calls_is_filled_in(self) -> None:
        """C46."""
        messages = [calling("a", "b", "c"), result("a"), result("c")]
        repaired = repair_pairing(messages)
        assert repaired.missing_results == 1
        assert [result_call_id(one) for one in repaired.messages[1:]] == ["a", "b", "c"]
        filled = repaired.messages[2]
        assert filled["isError"] is True
        assert filled["toolName"] == "read"
        assert text_of(filled) == MISSING_RESULT_TEXT

    def test_results_move_behind_their_call_in_call_order(self) -> None:
        call, first, second = calling("a", "b"), result("a"), result("b")
        note = user("meanwhile")
        repaired = repair_pairing([call, note, second, first])
        assert list(repaired.messages) == [call, first, second, note]

    def test_a_second_result_for_one_call_is_dropped_and_counted(self) -> None:
        messages = [calling("a"), result("a", "first"), result("a", "second")]
        repaired = repair_pairing(messages)
        assert repaired.duplicate_results == 1
        assert list(repaired.messages) == messages[:2]

    def test_an_id_used_again_in_a_later_round_is_not_a_duplicate(self) -> None:
        messages = [calling("a"), result("a"), calling("a"), result("a")]
        assert repair_pairing(messages).messages is messages

    def test_a_result_is_not_taken_from_behind_the_next_call(self) -> None:
        first, second = calling("a"), calling("b")
        repaired = repair_pairing([first, second, result("b"), result("a")])
        assert [result_call_id(one) for one in repaired.messages] == ["", "a", "", "b"]
        assert (repaired.missing_results, repaired.orphan_results) == (1, 1)

    def test_a_result_without_an_id_adopts_that_of_the_only_call_of_its_name(self) -> None:
        anonymous: Any = {"role": "toolResult", "toolName": "read", "content": "r"}
        repaired = repair_pairing([calling("a"), anonymous])
        assert result_call_id(repaired.messages[1]) == "a"
        assert repaired.messages[1]["isError"] is True

    @pytest.mark.parametrize(
        ("call", "name"), [(calling("a", "b"), "read"), (calling("a"), "write")]
    )
    def test_a_result_without_an_id_is_dropped_where_it_could_be_anyones(
        self, call: Message, name: str
    ) -> None:
        anonymous: Any = {"role": "toolResult", "toolName": name, "content": "r"}
        assert repair_pairing([call, anonymous]).orphan_results == 1

    def test_a_missing_tool_name_is_filled_in_from_the_call(self) -> None:
        nameless: Any = {"role": "toolResult", "toolCallId": "a", "content": "r"}
        assert repair_pairing([calling("a"), nameless]).messages[1]["toolName"] == "read"

    @pytest.mark.parametrize("reason", ["aborted", "error"])
    def test_a_broken_assistant_goes_with_its_results_when_told_to(self, reason: str) -> None:
        """#9958, #21985: aborted turns; no result is made up for their calls."""
        question = user("q")
        repaired = repair_pairing([question, calling("a", stop_reason=reason), result("a")])
        assert list(repaired.messages) == [question]
        assert repaired.dropped_calls == 1

    @pytest.mark.parametrize("reason", ["aborted", "error"])
    def test_a_broken_assistant_otherwise_stays_with_the_results_it_has(self, reason: str) -> None:
        messages = [calling("a", "b", stop_reason=reason), result("a")]
        assert repair_pairing(messages, drop_broken=False).messages is messages

    def test_a_broken_assistant_without_calls_stays(self) -> None:
        messages = [user("q"), assistant("half an ans", stop_reason="aborted")]
        assert repair_pairing(messages).messages is messages

    def test_calls_without_id_or_name_are_dropped_with_an_empty_message(self) -> None:
        """Sessions 9.3: empty ids made every later request fail."""
        question = user("q")
        repaired = repair_pairing([question, calling("")])
        assert list(repaired.messages) == [question]
        assert repaired.dropped_calls == 1

    def test_a_call_that_repeats_an_id_of_its_message_is_dropped(self) -> None:
        repaired = repair_pairing([calling("a", "a", text="t"), result("a")])
        assert [call["id"] for call in tool_calls_of(repaired.messages[0])] == ["a"]
        assert text_of(repaired.messages[0]) == "t"
        assert repaired.dropped_calls == 1

    def test_signed_thinking_stays_with_its_call_untouched(self) -> None:
        """C49."""
        thinking: Any = {"type": "thinking", "thinking": "why", "thinkingSignature": "sig"}
        call = calling("a")
        call["content"] = [thinking, *call["content"]]  # type: ignore[list-item]
        repaired = repair_pairing([call, user("now"), result("a")])
        assert repaired.messages[0] is call


class TestGroups:
    @settings(max_examples=200)
    @given(conversations)
    def test_groups_cover_every_index_once_in_order(self, messages: list[Message]) -> None:
        groups = group_messages(messages)
        assert list(chain.from_iterable(groups)) == list(range(len(messages)))
        assert all(groups)

    @settings(max_examples=200)
    @given(conversations)
    def test_no_group_boundary_separates_a_call_from_a_result_that_repair_would_use(
        self, messages: list[Message]
    ) -> None:
        """C44: what repair makes of the groups one by one is what it makes of the whole."""
        whole = repair_pairing(messages)
        parts = [
            repair_pairing([messages[index] for index in group])
            for group in group_messages(messages)
        ]
        assert sum(part.missing_results for part in parts) == whole.missing_results

    def test_what_stands_between_a_call_and_its_last_result_belongs_to_the_group(self) -> None:
        messages = [
            user("q"),
            calling("a", "b"),
            result("a"),
            user("steer"),
            assistant("noted"),
            result("b"),
            user("next"),
        ]
        assert group_messages(messages) == [[0], [1, 2, 3, 4, 5], [6]]

    def test_an_unanswered_call_does_not_swallow_what_follows(self) -> None:
        messages = [calling("a"), user("q"), assistant("done")]
        assert group_messages(messages) == [[0], [1], [2]]

    def test_calls_of_broken_assistants_open_no_group(self) -> None:
        messages = [calling("a", stop_reason="aborted"), result("a")]
        assert group_messages(messages) == [[0], [1]]

    def test_a_result_without_an_id_belongs_to_the_group_and_does_not_cut_it_short(self) -> None:
        messages = [calling("a", "b"), result(""), result("b"), result("")]
        assert group_messages(messages) == [[0, 1, 2, 3]]

    def test_thousands_of_messages_before_a_late_result_are_grouped_fast(self) -> None:
        messages = [calling("a"), *(user("q") for _ in range(20_000)), result("a")]
        assert group_messages(messages) == [list(range(20_002))]


class TestFaultsAndEmptiness:
    def test_faults_are_counted_without_changing_anything(self) -> None:
        messages = [result("x"), calling("a", "b"), result("a"), user("q"), result("b")]
        assert find_faults(messages) == PairingFaults(orphan_results=2, missing_results=1)

    @pytest.mark.parametrize(
        "message",
        [
            {"role": "user", "content": "  \n"},
            {"role": "user", "content": []},
            {"role": "user"},
            {"role": "assistant", "content": [{"type": "text", "text": ""}, "junk"]},
        ],
    )
    def test_a_message_that_shows_nothing_is_empty(self, message: Any) -> None:
        assert is_empty(message)

    @pytest.mark.parametrize(
        "message",
        [
            user("x"),
            calling("a"),
            {"role": "bashExecution", "command": "ls", "output": ""},
            {"role": "user", "content": [{"type": "image", "data": "", "mimeType": "image/png"}]},
        ],
    )
    def test_a_message_that_shows_something_is_not_empty(self, message: Any) -> None:
        assert not is_empty(message)

    def test_only_aborted_and_failed_messages_are_broken(self) -> None:
        odd: Any = {"role": "assistant", "stopReason": {"why": "?"}}
        assert is_broken(calling("a", stop_reason="aborted"))
        assert not is_broken(calling("a"))
        assert not is_broken(odd)
