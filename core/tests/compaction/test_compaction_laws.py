"""What must hold for any conversation and any window, by rules of its own and not by those of the code under test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.compaction.budget import make_budget
from hermitcrab.compaction.chunks import prune_for_share, split_by_share, split_by_size
from hermitcrab.compaction.composing import SummaryTask
from hermitcrab.compaction.oversize import without_oversize
from hermitcrab.compaction.plan import NothingToCompact, plan_compaction
from hermitcrab.compaction.prompts import Advice
from hermitcrab.compaction.reading import MessageReader
from hermitcrab.compaction.serialise import serialise
from hermitcrab.compaction.summarise import Summariser
from hermitcrab.compaction.view import ViewBuilder
from hermitcrab.errors import CompactionError
from hermitcrab.messages import to_anthropic, to_openai
from hermitcrab.messages.build import user
from hermitcrab.messages.pairing import repair_pairing
from hermitcrab.messages.text import result_call_id, tool_calls_of
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatRequest
from hermitcrab.sessions.context import SUMMARY_LEAD_IN, ContextItem, wrapped_summary

COUNTER = TokenCounter()
WINDOWS = st.sampled_from([4_000, 5_000, 8_000, 32_000, 128_000])
LARGE = st.builds(
    lambda unit, times: unit * times,
    st.sampled_from(["word ", "中文", "\U0001f44d\U0001f3fd", "{}[]", "0x1f ", "\n# a"]),
    st.sampled_from([1, 40, 900, 6_000]),
)


def answered_by(messages: Sequence[Message]) -> list[tuple[Message, Message]]:
    """Each call's message with each result that answers it: those that follow before other calls are made."""
    pairs: list[tuple[Message, Message]] = []
    for index, message in enumerate(messages):
        if message.get("stopReason") in {"aborted", "error"}:
            continue
        open_ids = [call["id"] for call in tool_calls_of(message)]
        for follower in messages[index + 1 :]:
            if tool_calls_of(follower):
                break
            if follower.get("role") == "toolResult" and result_call_id(follower) in open_ids:
                open_ids.remove(result_call_id(follower))
                pairs.append((message, follower))
    return pairs


def places(chunks: Sequence[Sequence[Message]]) -> dict[int, int]:
    return {id(message): number for number, chunk in enumerate(chunks) for message in chunk}


def assert_same(joined: Sequence[Message], messages: Sequence[Message]) -> None:
    assert [id(message) for message in joined] == [id(message) for message in messages]


@settings(max_examples=150, deadline=None)
@given(data=st.data(), limit=st.integers(1, 3_000), parts=st.integers(1, 6))
def test_no_chunk_separates_a_call_from_its_results_and_all_chunks_together_are_the_input(
    conversations: st.SearchStrategy[list[Message]], data: st.DataObject, limit: int, parts: int
) -> None:
    """P2"""
    messages = data.draw(conversations)
    count = MessageReader(COUNTER).tokens
    given_up, kept = prune_for_share(messages, limit, count)
    for chunks in (
        split_by_size(messages, limit, count),
        split_by_share(messages, parts, count),
        [given_up, kept],
    ):
        assert_same([message for chunk in chunks for message in chunk], messages)
        place = places(chunks)
        assert all(place[id(call)] == place[id(result)] for call, result in answered_by(messages))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), window=st.integers(100, 6_000))
def test_what_is_left_out_for_its_size_leaves_neither_half_of_a_pair(
    conversations: st.SearchStrategy[list[Message]], data: st.DataObject, window: int
) -> None:
    """Context 4.7"""
    messages = data.draw(conversations)
    count = MessageReader(COUNTER).tokens
    kept, notes = without_oversize(messages, window, count)
    stays = {id(message) for message in kept}
    assert all(
        (id(call) in stays) == (id(result) in stays) for call, result in answered_by(messages)
    )
    assert all(count(message) * 1.2 <= window * 0.5 for message in kept)
    assert bool(notes) == (len(kept) < len(messages))


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    window=WINDOWS,
    keep_recent=st.none() | st.integers(0, 40_000),
    has_summary=st.booleans(),
)
def test_behind_every_cut_roles_are_legal_and_no_pair_is_separated(
    conversations: st.SearchStrategy[list[Message]],
    settings: Any,
    data: st.DataObject,
    window: int,
    keep_recent: int | None,
    has_summary: bool,
) -> None:
    """P2, and the roles that two families of providers accept."""
    messages = data.draw(conversations)
    budget = make_budget(window, 300, settings())
    view = ViewBuilder(COUNTER)
    summary = user(wrapped_summary(SUMMARY_LEAD_IN, "notes"), timestamp=1)
    items = [ContextItem(str(number), message) for number, message in enumerate(messages)]
    if has_summary:
        items.insert(0, ContextItem("summary", summary, is_summary=True))
    plan = plan_compaction(
        items, budget, lambda some: view.measure(some, budget), keep_recent=keep_recent
    )
    if isinstance(plan, NothingToCompact):
        return
    parts = [[item.message for item in part] for part in (plan.summarised, plan.kept)]
    assert_same([message for part in parts for message in part], messages)
    place = places(parts)
    assert all(place[id(call)] == place[id(result)] for call, result in answered_by(messages))
    assert_legal(view.build([summary, *parts[1]], budget).messages)


def assert_legal(messages: Sequence[Message]) -> None:
    """The first message is the user's, and each call is answered at once and once, for both families."""
    pending: set[str] = set()
    for number, message in enumerate(to_openai(messages)):
        assert number > 0 or message["role"] == "user"
        if message["role"] == "tool":
            assert message["tool_call_id"] in pending
            pending.remove(message["tool_call_id"])
        else:
            assert not pending
            pending = {call["id"] for call in message.get("tool_calls") or ()}
    assert not pending
    asked: set[str] = set()
    last = "assistant"
    for message in to_anthropic(messages):
        assert message["role"] != last
        last = message["role"]
        blocks = message["content"]
        assert {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"} == asked
        asked = {block["id"] for block in blocks if block["type"] == "tool_use"}
    assert not asked


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_repaired_conversation_is_legal_and_repairing_it_again_changes_nothing(
    conversations: st.SearchStrategy[list[Message]], data: st.DataObject
) -> None:
    """Whatever was lost, delivered twice, or came in the wrong order."""
    messages = data.draw(conversations)
    places = st.integers(0, max(0, len(messages) - 1))
    for index in data.draw(st.lists(places, max_size=4)) if messages else ():
        messages.insert(data.draw(places), messages[index])
    once = repair_pairing(messages).messages
    assert_legal([user("hello"), *once])
    again = repair_pairing(once)
    assert again.messages is once
    assert (again.orphan_results, again.missing_results, again.dropped_calls) == (0, 0, 0)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_record_never_takes_more_than_its_messages(
    conversations: st.SearchStrategy[list[Message]], data: st.DataObject
) -> None:
    """What is known to fit is not counted again."""
    messages = data.draw(conversations)
    reader = MessageReader(COUNTER)
    assert reader.record(messages) == serialise(messages)
    assert COUNTER.text(serialise(messages)) <= reader.total(messages)


def request_tokens(request: ChatRequest) -> int:
    return (
        COUNTER.text(request.system)
        + COUNTER.messages(request.messages)
        + (request.max_tokens or 0)
    )


@settings(max_examples=120, deadline=None)
@given(data=st.data(), window=WINDOWS, max_tokens=st.integers(1, 9_000), times=st.integers(1, 30))
def test_no_request_of_any_kind_exceeds_the_window_of_the_summariser(
    conversations: st.SearchStrategy[list[Message]],
    scripted: Any,
    data: st.DataObject,
    window: int,
    max_tokens: int,
    times: int,
) -> None:
    """C31: system prompt, messages and answer together, when a request fails half-way too."""
    messages = data.draw(conversations) * times
    messages.insert(data.draw(st.integers(0, len(messages))), user(data.draw(LARGE)))
    failing = data.draw(st.integers(1, 6))
    answer = data.draw(LARGE) + "x"
    requests: list[ChatRequest] = []

    def step(request: ChatRequest) -> Any:
        requests.append(request)
        return "" if len(requests) % 6 == failing else answer

    task = SummaryTask(
        messages=messages,
        previous_summary=data.draw(st.none() | LARGE),
        advice=Advice(
            focus=data.draw(st.none() | LARGE), feedback=data.draw(st.lists(LARGE, max_size=2))
        ),
        is_turn_prefix=data.draw(st.booleans()),
        max_tokens=max_tokens,
    )
    summariser = Summariser(scripted(step), COUNTER, window=window, timeout_s=10)

    with suppress(CompactionError):  # all of its answers were empty
        asyncio.run(summariser.summarise(task))
    assert requests
    assert max(map(request_tokens, requests)) <= window
