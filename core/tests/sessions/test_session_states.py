"""The states of a session: one table, what is illegal in it, and how a state is told."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.errors import SessionStateError
from hermitcrab.messages import assistant, tool_result, user
from hermitcrab.sessions.states import (
    TRANSITIONS,
    RunStatus,
    SessionState,
    StateChange,
    describe_state,
    next_state,
    status_after,
)

STATES = get_args(SessionState)
CHANGES = get_args(StateChange)


def test_the_table_knows_every_state_and_nothing_else():
    assert set(TRANSITIONS) == set(STATES)
    assert {change for row in TRANSITIONS.values() for change in row} == set(CHANGES)
    assert {state for row in TRANSITIONS.values() for state in row.values()} == set(STATES)


def test_a_turn_with_a_compaction_in_it_comes_back_to_where_it_began():
    state = "idle"
    for change in ("turn_began", "compaction_began", "turn_resumed", "turn_ended"):
        state = next_state(state, change)
    assert state == "idle"


@pytest.mark.parametrize(
    ("state", "change"),
    [
        ("running", "turn_began"),
        ("running", "reset"),
        ("compacting", "turn_began"),
        ("compacting", "reset"),
        ("compacting", "compaction_began"),
        ("idle", "turn_ended"),
        ("idle", "compaction_ended"),
        ("archived", "turn_began"),
        ("archived", "compaction_began"),
        ("archived", "reset"),
    ],
)
def test_what_is_illegal_is_a_typed_error_that_says_why(state, change):
    with pytest.raises(SessionStateError) as caught:
        next_state(state, change, where="agent:main:main")
    assert caught.value.where == "agent:main:main"
    assert state in caught.value.message
    assert caught.value.hint


@given(st.lists(st.sampled_from(CHANGES)))
def test_nothing_leads_out_of_the_archive(changes):
    state = "archived"
    for change in changes:
        if change in TRANSITIONS[state]:
            state = next_state(state, change)
    assert state == "archived"


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (None, "done"),
        (ValueError("no"), "failed"),
        (TimeoutError(), "timeout"),
        (asyncio.CancelledError(), "killed"),
    ],
)
def test_a_turn_is_remembered_by_what_ended_it(failure, status):
    assert status_after(failure) == status
    assert status in get_args(RunStatus)


CALL = {"id": "c1", "name": "read", "arguments": {}}
ANNOUNCED = user("a result")
ANNOUNCED["provenance"] = {"kind": "inter_session"}


@pytest.mark.parametrize(
    ("state", "status", "last", "words"),
    [
        ("running", "done", None, "running"),
        ("compacting", None, None, "compacting"),
        ("archived", "done", user("hello"), "archived"),
        ("idle", None, None, "idle"),
        ("idle", "done", assistant("hi"), "idle (last turn: done)"),
        ("idle", "failed", assistant("hi"), "idle (last turn: failed)"),
        ("idle", "done", ANNOUNCED, "idle (last turn: done)"),
    ],
)
def test_a_state_is_told_in_words(state, status, last, words):
    assert describe_state(state, status, last) == words


@pytest.mark.parametrize(
    ("status", "last"),
    [
        ("running", assistant("hi")),
        ("done", user("hello")),
        ("done", tool_result("c1", "read", "text")),
        (None, assistant("", tool_calls=[CALL])),
    ],
)
def test_a_turn_whose_process_died_is_not_told_as_done(status, last):
    """A crash leaves no state behind, only a question without an answer."""
    assert "did not come to its end" in describe_state("idle", status, last)
