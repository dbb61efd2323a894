from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.compaction.budget import Budget
from hermitcrab.compaction.plan import (
    CompactionPlan,
    NothingToCompact,
    latest_ask,
    plan_compaction,
    takes_at_least,
)
from hermitcrab.compaction.view import ViewBuilder
from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.pairing import group_messages
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message
from hermitcrab.sessions.context import ContextItem

IMAGE: Any = {"type": "image", "data": "QUJD", "mimeType": "image/png"}


def budget(usable: int = 5_000, keep_recent: int = 1_000) -> Budget:
    return Budget(
        window=usable + 3_000,
        reserve=2_000,
        fixed=1_000,
        usable=usable,
        keep_recent=keep_recent,
        compact_at=usable,
        flush_at=usable - keep_recent,
        summary=usable // 5,
        group=usable // 2,
    )


def items(messages: Sequence[Message], *, summary: bool = False) -> list[ContextItem]:
    made = [ContextItem(f"entry{index}", message) for index, message in enumerate(messages)]
    if summary:
        made.insert(0, ContextItem("summary", user("earlier notes", timestamp=1), is_summary=True))
    return made


def measure(messages: Sequence[Message]) -> int:
    return ViewBuilder(TokenCounter()).measure(messages, budget())


def sized(*tokens: int) -> Callable[[Sequence[Message]], int]:
    """A measure by which the message ``m<n>`` takes ``tokens[n]``."""

    def total(messages: Sequence[Message]) -> int:
        return sum(tokens[int(str(message["content"]).removeprefix("m"))] for message in messages)

    return total


def talk(count: int) -> list[Message]:
    return [
        {"role": "user" if index % 2 == 0 else "assistant", "content": f"m{index}"}
        for index in range(count)
    ]


def planned(*args: Any, **options: Any) -> CompactionPlan:
    plan = plan_compaction(*args, **options)
    assert isinstance(plan, CompactionPlan)
    return plan


def test_whole_groups_are_kept_until_enough_is_kept() -> None:
    plan = planned(items(talk(8)), budget(), sized(*[400] * 8))
    assert [item.entry_id for item in plan.kept] == ["entry5", "entry6", "entry7"]
    assert plan.tokens_before == 3_200
    assert plan.first_kept_entry_id == "entry5"


def test_no_group_is_kept_that_would_take_more_than_half_of_the_window() -> None:
    plan = planned(items(talk(4)), budget(), sized(100, 100, 2_450, 100))
    assert [item.entry_id for item in plan.kept] == ["entry3"]


def test_the_last_group_stays_however_large_it_is() -> None:
    plan = planned(items(talk(4)), budget(), sized(100, 100, 100, 9_000))
    assert [item.entry_id for item in plan.kept] == ["entry3"]


def test_the_caller_can_keep_more_or_less() -> None:
    measured = sized(*[400] * 8)
    assert len(planned(items(talk(8)), budget(), measured, keep_recent=1).kept) == 1
    assert len(planned(items(talk(8)), budget(), measured, keep_recent=2_000).kept) == 5


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("summary", [False, True])
def test_a_conversation_that_is_all_recent_is_left_alone(count: int, summary: bool) -> None:
    """C29: three messages, all in the kept tail."""
    plan = plan_compaction(items(talk(count), summary=summary), budget(), measure)
    assert isinstance(plan, NothingToCompact)
    assert plan.reason


def test_one_group_is_never_compacted() -> None:
    call: Any = {"id": "a", "name": "read", "arguments": {}}
    group = [assistant("", tool_calls=[call]), tool_result("a", "read", "x" * 90_000)]
    assert isinstance(plan_compaction(items(group), budget(), measure), NothingToCompact)


def test_the_last_summary_is_neither_kept_nor_summarised_as_a_message() -> None:
    found = items(talk(8), summary=True)
    plan = planned(found, budget(), lambda messages: 400 * len(messages))
    assert not any(item.is_summary for item in (*plan.summarised, *plan.kept))
    assert [*plan.summarised, *plan.kept] == found[1:]
    assert plan.tokens_before == 9 * 400


def test_a_turn_that_is_split_is_named_apart() -> None:
    call: Any = {"id": "a", "name": "read", "arguments": {}}
    messages = [
        user("first"),
        assistant("done"),
        user("second"),
        assistant("", tool_calls=[call]),
        tool_result("a", "read", "word " * 300),
        assistant("", tool_calls=[{**call, "id": "b"}]),
        tool_result("b", "read", "word " * 1_200),
    ]
    plan = planned(items(messages), budget(), measure)
    assert [item.entry_id for item in plan.history] == ["entry0", "entry1"]
    assert [item.entry_id for item in plan.turn_prefix] == ["entry2", "entry3", "entry4"]
    assert [item.entry_id for item in plan.kept] == ["entry5", "entry6"]


@pytest.mark.parametrize("role", ["user", "bashExecution", "custom"])
def test_a_cut_at_the_start_of_a_turn_splits_none(role: str) -> None:
    messages = talk(6)
    messages[4]["role"] = role
    plan = planned(items(messages), budget(), sized(*[500] * 6))
    assert plan.first_kept_entry_id == "entry4"
    assert plan.turn_prefix == ()
    assert len(plan.history) == 4


def test_a_turn_without_a_beginning_is_all_prefix() -> None:
    messages = [assistant(f"step {index}") for index in range(6)]
    plan = planned(items(messages), budget(), lambda found: 500 * len(found))
    assert plan.history == ()
    assert len(plan.turn_prefix) == 4


@pytest.mark.parametrize("unseen_from", range(9))
def test_what_the_flush_has_not_seen_is_never_cut(unseen_from: int) -> None:
    plan = plan_compaction(items(talk(8)), budget(), sized(*[400] * 8), unseen_from=unseen_from)
    if unseen_from == 0:
        assert isinstance(plan, NothingToCompact)
    else:
        assert isinstance(plan, CompactionPlan)
        assert len(plan.summarised) == min(5, unseen_from)


@pytest.mark.parametrize("unseen_from", [2, 3, 4])
@pytest.mark.parametrize("summary", [False, True])
def test_a_cut_moved_back_into_a_group_moves_before_it(unseen_from: int, summary: bool) -> None:
    calls: Any = [{"id": one, "name": "read", "arguments": {}} for one in "ab"]
    messages = [
        user("go"),
        assistant("", tool_calls=calls),
        tool_result("a", "read", "x"),
        tool_result("b", "read", "y"),
        *[assistant("word " * 800) for _ in range(5)],
    ]
    plan = planned(
        items(messages, summary=summary), budget(), measure, unseen_from=unseen_from + summary
    )
    assert len(plan.summarised) == (1 if unseen_from < 4 else 4)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), usable=st.integers(300, 8_000), unseen=st.none() | st.integers(0, 60))
def test_every_plan_is_safe(
    conversations: st.SearchStrategy[list[Message]],
    data: st.DataObject,
    usable: int,
    unseen: int | None,
) -> None:
    """C37, C44, P2: groups stay whole, the newest stays, and what is kept leaves room."""
    found = items(data.draw(conversations), summary=data.draw(st.booleans()))
    sizes = budget(usable, max(1, usable // 3))
    view = ViewBuilder(TokenCounter())

    def count(messages: Sequence[Message]) -> int:
        return view.measure(messages, sizes)

    plan = plan_compaction(found, sizes, count, unseen_from=unseen)
    if isinstance(plan, NothingToCompact):
        return
    body = [item for item in found if not item.is_summary]
    assert [*plan.history, *plan.turn_prefix, *plan.kept] == body
    assert plan.summarised
    assert plan.kept
    start = len(plan.summarised)
    groups = group_messages([item.message for item in body])
    assert start in {group[0] for group in groups}
    if unseen is not None:
        assert start <= max(0, unseen - (len(found) - len(body)))
        return
    last = count([body[index].message for index in groups[-1]])
    kept = [[body[i].message for i in group] for group in groups if group[0] >= start]
    assert sum(map(count, kept)) <= max(sizes.keep_recent, sizes.group, last)
    if plan.turn_prefix:
        first = plan.turn_prefix[0].message["role"]
        assert first in {"user", "custom", "bashExecution"} or not plan.history
        assert not any(
            item.message["role"] in {"user", "custom", "bashExecution"}
            for item in plan.turn_prefix[1:]
        )


def _said(*roles: str) -> list[Message]:
    return [{"role": role, "content": f"m{index}"} for index, role in enumerate(roles)]


def test_messages_that_nobody_has_answered_are_kept_whatever_is_wanted() -> None:
    """Context 4.11, version B: a cut never lies behind a request that waits for its answer."""
    messages = _said("user", "assistant", "user", "assistant", "user", "user", "user")
    plan = planned(items(messages), budget(), sized(*[300] * 7), keep_recent=0)
    assert [item.entry_id for item in plan.kept] == ["entry4", "entry5", "entry6"]


def test_waiting_messages_take_no_more_than_half_of_what_is_usable() -> None:
    """Otherwise a session in which every turn fails would be stuck."""
    messages = _said("assistant", *["user"] * 9)
    plan = planned(items(messages), budget(), sized(*[600] * 10), keep_recent=0)
    assert len(plan.kept) == 4
    assert sum(600 for _ in plan.kept) <= budget().group


def test_what_nobody_has_said_to_the_agent_waits_for_no_answer() -> None:
    messages = _said("user", "assistant", "user", "user", "user")
    found = items(messages)
    found[3:] = [ContextItem(item.entry_id, item.message, is_synthetic=True) for item in found[3:]]
    plan = planned(found, budget(), sized(*[300] * 5), keep_recent=0)
    assert [item.entry_id for item in plan.kept] == ["entry2", "entry3", "entry4"]
    found[2] = ContextItem("entry2", messages[2], is_synthetic=True)
    plan = planned(found, budget(), sized(*[300] * 5), keep_recent=0)
    assert [item.entry_id for item in plan.kept] == ["entry4"]


def test_only_what_may_be_kept_is_measured_apart() -> None:
    """P24: with 10,000 messages the rest is measured once, all together."""
    sizes: list[int] = []

    def watched(messages: Sequence[Message]) -> int:
        sizes.append(len(messages))
        return 400 * len(messages)

    plan = planned(items(talk(200)), budget(), watched)
    assert len(plan.kept) == 3
    assert sizes == [200, 1, 1, 1]
    assert takes_at_least(talk(200), 1_500, watched)
    assert sizes[4:] == [1, 1, 1, 1]
    assert not takes_at_least(talk(2), 801, watched)


def test_the_latest_ask_is_the_last_user_message_with_text() -> None:
    messages = [user("first"), user("second"), assistant("yes"), user("  ")]
    assert latest_ask(items(messages)) == "second"
    assert latest_ask(items([assistant("hello")])) is None
    assert latest_ask([]) is None


def test_what_no_user_has_written_is_not_taken_for_an_ask() -> None:
    note = ContextItem("note", user("The build is green."), is_synthetic=True)
    assert latest_ask([*items([user("Fix the login.")]), note]) == "Fix the login."


def test_an_ask_that_is_an_image_is_not_an_older_ask() -> None:
    """The older request was answered; putting it among the pending ones would have it done again."""
    messages = [user("Draw a crab."), assistant("Done."), user([IMAGE])]
    assert latest_ask(items(messages)) == "[1 image not shown]"
    shown = items([user([{"type": "text", "text": "Like this?"}, IMAGE])])
    assert latest_ask(shown) == "Like this?\n[1 image not shown]"
