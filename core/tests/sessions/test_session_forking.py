"""What a forked session takes over: whole pairs, since the last compaction, and nothing of the parent's entry."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.messages import assistant, tool_result, user
from hermitcrab.messages.text import result_call_id, tool_calls_of
from hermitcrab.sessions.context import context_items
from hermitcrab.sessions.forking import forked_entries
from hermitcrab.sessions.format import ENTRY_CHANGE


def entry(kind, id, **values):
    return {
        "type": kind,
        "id": id,
        "parentId": "above",
        "timestamp": "2026-06-10T12:00:00.000Z",
    } | values


def message(id, value):
    return entry("message", id, message=value)


def calling(*ids):
    return assistant("", tool_calls=[{"id": id, "name": "read", "arguments": {}} for id in ids])


def ids_of(entries):
    return [each["id"] for each in entries]


def test_a_call_that_is_still_open_stays_behind():
    path = [
        message("u", user("go")),
        message("a", calling("c1", "c2")),
        message("r", tool_result("c1", "read", "one")),
    ]
    assert ids_of(forked_entries(path)) == ["u"]


def test_answered_calls_come_along():
    path = [
        message("u", user("go")),
        message("a", calling("c1", "c2")),
        message("r1", tool_result("c1", "read", "one")),
        message("r2", tool_result("c2", "read", "two")),
        message("b", assistant("done")),
    ]
    assert ids_of(forked_entries(path)) == ["u", "a", "r1", "r2", "b"]


def test_the_summary_comes_along_and_what_it_stands_for_does_not():
    path = [
        message("old", user("long ago")),
        message("kept", user("kept")),
        entry("compaction", "c", summary="What was.", firstKeptEntryId="kept"),
        message("new", user("now")),
    ]
    forked = forked_entries(path)
    assert ids_of(forked) == ["kept", "c", "new"]
    assert "What was." in str(context_items(forked)[0].message)


def test_the_parents_session_entry_stays_behind():
    """Otherwise a table made again from transcripts would give the parent's key to the child."""
    path = [
        entry("custom", "x", customType=ENTRY_CHANGE, data={"key": "agent:main:main"}),
        entry("custom", "y", customType="crab.state", data={}),
        entry("label", "l", targetId="u", label="here"),
        message("u", user("go")),
    ]
    forked = forked_entries(path)
    assert ids_of(forked) == ["y", "u"]
    assert all("parentId" not in each for each in forked)
    assert "parentId" in path[0]


@given(st.lists(st.sampled_from(["user", "call", "result", "text"]), max_size=12))
def test_a_fork_never_ends_in_an_open_call(kinds):
    path, calls = [], []
    for number, kind in enumerate(kinds):
        if kind == "user":
            path.append(message(f"e{number}", user("go")))
        elif kind == "text":
            path.append(message(f"e{number}", assistant("so")))
        elif kind == "call" and not calls:
            calls = [f"c{number}", f"d{number}"]
            path.append(message(f"e{number}", calling(*calls)))
        elif kind == "result" and calls:
            path.append(message(f"e{number}", tool_result(calls.pop(0), "read", "text")))
    forked = [item.message for item in context_items(forked_entries(path))]
    asked = [[call["id"] for call in tool_calls_of(each)] for each in forked]
    answered = {result_call_id(each) for each in forked if each["role"] == "toolResult"}
    assert set(next(filter(None, reversed(asked)), ())) <= answered
