from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.compaction.budget import make_budget
from hermitcrab.compaction.view import IMAGE_LEFT_OUT, ViewBuilder
from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.pairing import find_faults, is_empty
from hermitcrab.messages.text import text_of
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

IMAGE: Any = {"type": "image", "data": "QUJD", "mimeType": "image/png"}


@pytest.fixture
def view() -> ViewBuilder:
    return ViewBuilder(TokenCounter())


@settings(max_examples=100, deadline=None)
@given(data=st.data(), window=st.sampled_from([4_000, 8_000, 32_000]))
def test_no_request_has_orphans_or_missing_results_and_the_last_resort_fits(
    conversations: st.SearchStrategy[list[Message]],
    settings: Any,
    data: st.DataObject,
    window: int,
) -> None:
    """C44-C46, C48, P2"""
    messages = data.draw(conversations)
    budget = make_budget(window, 300, settings())
    builder = ViewBuilder(TokenCounter())
    asked = [m for m in messages if m["role"] == "user" and not is_empty(m)]
    for made in (builder.build(messages, budget), builder.build_within(messages, budget)):
        faults = find_faults(made.messages)
        assert (faults.orphan_results, faults.missing_results) == (0, 0)
        assert made.tokens == TokenCounter().messages(made.messages)
        assert sum(m["role"] == "user" for m in made.messages) == len(asked)
    assert made.tokens <= budget.usable


def test_messages_that_need_no_change_are_the_same_objects(
    view: ViewBuilder, settings: Any, work: Any
) -> None:
    messages = work(3)
    made = view.build(messages, make_budget(32_000, 0, settings()))
    assert all(a is b for a, b in zip(made.messages, messages, strict=True))


def test_messages_that_say_nothing_are_left_out(view: ViewBuilder, settings: Any) -> None:
    messages = [user("go"), assistant(""), user("  "), assistant("yes")]
    made = view.build(messages, make_budget(8_000, 0, settings()))
    assert made.messages == [messages[0], messages[3]]


def test_the_originals_are_not_touched(view: ViewBuilder, settings: Any) -> None:
    message = tool_result("a", "read", "x" * 90_000)
    call: Any = {"id": "a", "name": "read", "arguments": {}}
    view.build_within(
        [assistant("", tool_calls=[call]), message], make_budget(4_000, 0, settings())
    )
    assert text_of(message) == "x" * 90_000


def test_a_last_user_message_larger_than_the_window_stays_cut(
    view: ViewBuilder, settings: Any
) -> None:
    """C48: the provider refuses a request without it."""
    budget = make_budget(4_000, 0, settings())
    made = view.build_within(
        [user("old"), assistant("yes"), user("start " + "word " * 20_000 + "end")], budget
    )
    assert made.tokens <= budget.usable
    text = text_of(made.messages[-1])
    assert text.startswith("start")
    assert text.endswith("end")
    assert "left out" in text


def test_many_medium_results_fit_in_the_end(view: ViewBuilder, settings: Any) -> None:
    """C93: ten results of 100 KB."""
    messages: list[Message] = [user("go")]
    for number in range(10):
        call: Any = {"id": f"c{number}", "name": "read", "arguments": {}}
        messages += [
            assistant("", tool_calls=[call]),
            tool_result(f"c{number}", "read", "word " * 20_000),
        ]
    budget = make_budget(8_000, 0, settings())
    made = view.build_within(messages, budget)
    assert made.tokens <= budget.usable
    assert len(made.messages) == len(messages)


def test_the_output_of_a_command_is_cut_like_any_other_text(
    view: ViewBuilder, settings: Any
) -> None:
    message: Message = {
        "role": "bashExecution",
        "command": "make",
        "output": "start " + "word " * 20_000 + "error",
    }
    budget = make_budget(4_000, 0, settings())
    made = view.build([message, user("so?")], budget)
    assert made.tokens <= budget.usable
    assert made.messages[0]["output"].startswith("start")
    assert made.messages[0]["output"].endswith("error")
    assert made.messages[0]["command"] == "make"


def test_images_give_way_to_a_note_where_nothing_else_helps(
    view: ViewBuilder, settings: Any
) -> None:
    budget = make_budget(8_000, 0, settings())
    old, new = (
        user([{"type": "text", "text": text}, IMAGE, IMAGE]) for text in ("old one", "new one")
    )
    assert view.build([old, new], budget).tokens > budget.usable
    made = view.build_within([old, assistant("yes"), new], budget)
    assert made.tokens <= budget.usable
    assert text_of(made.messages[0]) == f"old one\n{IMAGE_LEFT_OUT}\n{IMAGE_LEFT_OUT}"
    assert made.messages[-1] is new


def test_even_the_last_message_loses_images_that_cannot_fit(
    view: ViewBuilder, settings: Any
) -> None:
    budget = make_budget(4_000, 0, settings())
    made = view.build_within([user([{"type": "text", "text": "these"}, *[IMAGE] * 5])], budget)
    assert made.tokens <= budget.usable
    assert text_of(made.messages[0]).startswith("these")


def test_groups_are_not_cut_to_sizes_at_which_they_surely_do_not_fit(settings: Any) -> None:
    """With thousands of messages, cutting all of them again and again takes minutes."""
    counted: list[str] = []
    counter = TokenCounter(lambda text: counted.append(text) or len(text) // 4)  # type: ignore[func-returns-value]
    messages = [user("word " * 200, timestamp=1) for _ in range(400)]
    budget = make_budget(8_000, 300, settings())
    made = ViewBuilder(counter).build_within(messages, budget)
    assert made.tokens > budget.usable
    assert len(counted) == len(messages)
