from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.compaction.chunks import (
    SAFETY_MARGIN,
    chunk_limit,
    chunk_ratio,
    normal_parts,
    prune_for_share,
    split_by_share,
    split_by_size,
)
from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.pairing import group_messages
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

count = TokenCounter().count


def flat(chunks: list[list[Message]]) -> list[Message]:
    return [message for chunk in chunks for message in chunk]


def assert_whole_groups(messages: list[Message], chunks: list[list[Message]]) -> None:
    """All messages are there in order, and no group lies in two chunks."""
    joined = flat(chunks)
    assert len(joined) == len(messages)
    assert all(a is b for a, b in zip(joined, messages, strict=True))
    starts = {0}
    for chunk in chunks:
        starts.add(max(starts) + len(chunk))
    for group in group_messages(messages):
        assert not any(group[0] < start <= group[-1] for start in starts)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), limit=st.integers(1, 3_000))
def test_chunks_by_size_keep_groups_whole_and_stay_within_the_limit(
    conversations: st.SearchStrategy[list[Message]], data: st.DataObject, limit: int
) -> None:
    messages = data.draw(conversations)
    chunks = split_by_size(messages, limit, count)
    assert_whole_groups(messages, chunks)
    for chunk in chunks:
        assert chunk
        tokens = sum(map(count, chunk))
        assert tokens <= max(1, int(limit / SAFETY_MARGIN)) or len(group_messages(chunk)) == 1


@settings(max_examples=80, deadline=None)
@given(data=st.data(), parts=st.integers(1, 6))
def test_chunks_by_share_keep_groups_whole_and_are_not_too_many(
    conversations: st.SearchStrategy[list[Message]], data: st.DataObject, parts: int
) -> None:
    messages = data.draw(conversations)
    chunks = split_by_share(messages, parts, count)
    assert_whole_groups(messages, chunks)
    assert len(chunks) <= max(1, parts)


def test_shares_are_about_equal() -> None:
    messages = [user("word " * 100, timestamp=1) for _ in range(20)]
    assert [len(chunk) for chunk in split_by_share(messages, 4, count)] == [5, 5, 5, 5]


def test_a_call_and_its_results_are_never_separated() -> None:
    """P2: [A] of context 4.4 could split them."""
    calls: Any = [{"id": one, "name": "read", "arguments": {}} for one in "ab"]
    group = [
        assistant("", tool_calls=calls),
        tool_result("a", "read", "x" * 4_000),
        tool_result("b", "read", "y" * 4_000),
    ]
    messages = [user("go"), *group, user("on")]
    assert split_by_size(messages, 10, count) == [[messages[0]], group, [messages[-1]]]


@pytest.mark.parametrize(
    ("parts", "messages", "normal"),
    [
        (float("nan"), 10, 1),
        (float("inf"), 10, 1),
        (-3, 10, 1),
        (0, 10, 1),
        (1, 10, 1),
        (2.9, 10, 2),
        (20, 10, 10),
        (3, 0, 1),
    ],
)
def test_parts_are_normalised(parts: float, messages: int, normal: int) -> None:
    assert normal_parts(parts, messages) == normal


def test_the_ratio_shrinks_where_messages_are_large() -> None:
    """Context 4.5: 20 messages of 20,000 tokens in a window of 200,000 give 0.16 and 27,904 tokens."""
    messages = [user("x", timestamp=1) for _ in range(20)]
    assert chunk_ratio(messages, 200_000, lambda message: 20_000) == pytest.approx(0.16)
    assert chunk_limit(messages, 200_000, lambda message: 20_000) == 27_904


@pytest.mark.parametrize(
    ("tokens", "ratio"), [(1, 0.4), (16_000, 0.4), (17_000, 0.196), (50_000, 0.15), (10**9, 0.15)]
)
def test_the_ratio_has_a_floor_and_a_ceiling(tokens: int, ratio: float) -> None:
    messages = [user("x", timestamp=1)] * 3
    assert chunk_ratio(messages, 200_000, lambda message: tokens) == pytest.approx(ratio)


def test_nothing_to_chunk() -> None:
    assert split_by_size([], 100, count) == []
    assert split_by_share([], 3, count) == []
    assert chunk_ratio([], 8_000, count) == 0.4


@pytest.mark.parametrize("window", [1, 100, 4_000, 8_000])
def test_a_small_window_still_has_room_for_a_chunk(window: int) -> None:
    assert chunk_limit([user("x")], window, lambda message: window) >= 1


def test_a_small_window_is_not_spent_on_overhead() -> None:
    assert chunk_limit([user("x")], 8_000, lambda message: 10) == 2_200


def test_the_oldest_messages_are_given_up_until_the_rest_fits_its_share() -> None:
    """Context 4.9: half after half, in whole groups."""
    messages = [user(f"{number}", timestamp=1) for number in range(16)]
    given_up, kept = prune_for_share(messages, 40, lambda message: 10)
    assert [*given_up, *kept] == messages
    assert len(kept) == 4
    assert prune_for_share(messages, 160, lambda message: 10) == ([], messages)
    assert prune_for_share([], 1, count) == ([], [])
    assert prune_for_share(messages[:1], 1, lambda message: 10) == ([], messages[:1])


def test_giving_up_never_separates_a_call_from_its_results() -> None:
    """P2"""
    call: Any = {"id": "c", "name": "read", "arguments": {}}
    group = [assistant("", tool_calls=[call]), tool_result("c", "read", "x")]
    given_up, kept = prune_for_share([user("a"), *group], 10, lambda message: 10)
    assert (given_up, kept) == ([user("a", timestamp=given_up[0]["timestamp"])], group)
