from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.messages.text import text_of
from hermitcrab.sessions.context import SUMMARY_LEAD_IN, context_items, last_compaction, message_of

STAMP = "2026-03-01T12:00:00.000Z"


def message(entry_id: str, text: str, role: str = "user") -> Any:
    return {"type": "message", "id": entry_id, "message": {"role": role, "content": text}}


def compaction(entry_id: str, first_kept: Any, summary: Any = "what happened") -> Any:
    return {
        "type": "compaction",
        "id": entry_id,
        "summary": summary,
        "firstKeptEntryId": first_kept,
        "timestamp": STAMP,
    }


def texts(path: Any) -> list[str]:
    return [text_of(item.message) for item in context_items(path)]


def test_the_summary_comes_first_as_a_user_message_then_what_was_kept_then_the_rest() -> None:
    """Context 9.3."""
    path = [
        message("a", "old"),
        message("b", "kept"),
        compaction("x", "b"),
        message("c", "new", "assistant"),
    ]
    first, *rest = context_items(path)
    assert first.is_summary
    assert first.entry_id == "x"
    assert first.message["role"] == "user"
    assert first.message["timestamp"] == 1772366400000
    assert text_of(first.message) == (f"{SUMMARY_LEAD_IN}\n<summary>\nwhat happened\n</summary>")
    assert [(item.entry_id, text_of(item.message)) for item in rest] == [
        ("b", "kept"),
        ("c", "new"),
    ]
    assert not any(item.is_summary for item in rest)


@pytest.mark.parametrize("first_kept", ["x", "gone", None, 7])
def test_a_compaction_that_keeps_nothing_known_leaves_only_its_summary(first_kept: Any) -> None:
    """Context 9.3."""
    path = [message("a", "old"), compaction("x", first_kept), message("b", "new")]
    assert texts(path)[1:] == ["new"]


def test_only_the_last_compaction_counts_and_earlier_ones_are_never_shown() -> None:
    """Context 9.3."""
    path = [
        message("a", "old"),
        compaction("x", "a", "first summary"),
        message("b", "kept"),
        compaction("y", "a", "second summary"),
    ]
    assert last_compaction(path) is path[3]
    found = texts(path)
    assert "second summary" in found[0]
    assert found[1:] == ["old", "kept"]


def test_without_a_compaction_all_messages_are_there() -> None:
    path = [message("a", "one"), message("b", "two")]
    assert last_compaction(path) is None
    assert texts(path) == ["one", "two"]
    assert context_items([]) == []


def test_messages_are_the_very_objects_of_the_transcript() -> None:
    path = [message("a", "one")]
    assert context_items(path)[0].message is path[0]["message"]


def test_a_custom_message_is_a_user_message() -> None:
    """Context 9.2."""
    entry: Any = {"type": "custom_message", "id": "a", "content": "note", "timestamp": STAMP}
    assert message_of(entry) == {
        "role": "user",
        "content": [{"type": "text", "text": "note"}],
        "timestamp": 1772366400000,
    }
    blocks = [{"type": "text", "text": "note"}]
    assert message_of({**entry, "content": blocks})["content"] is blocks  # type: ignore[index]


def test_a_branch_summary_is_a_user_message() -> None:
    """Context 9.2."""
    entry: Any = {"type": "branch_summary", "id": "a", "fromId": "root", "summary": "tried ports"}
    found = message_of(entry)
    assert found is not None
    assert found["role"] == "user"
    assert "<summary>\ntried ports\n</summary>" in text_of(found)


@pytest.mark.parametrize(
    "kind",
    ["custom", "model_change", "thinking_level_change", "session_info", "label", "leaf", "of_2031"],
)
def test_other_entries_are_not_shown_to_the_model(kind: str) -> None:
    entry: Any = {"type": kind, "id": "a", "data": {"text": "x"}, "name": "n", "label": "l"}
    assert message_of(entry) is None


@pytest.mark.parametrize("content", [None, "text", [], {}, {"role": None}, {"role": ["user"]}])
def test_an_entry_whose_message_cannot_be_read_is_not_shown(content: Any) -> None:
    assert message_of({"type": "message", "id": "a", "message": content}) is None


@pytest.mark.parametrize("missing", [{}, {"summary": None}])
def test_a_summary_that_is_missing_is_empty_and_not_the_word_none(missing: Any) -> None:
    entry: Any = {"type": "compaction", "id": "x", **missing}
    assert "None" not in texts([entry])[0]
    note: Any = {"type": "custom_message", "id": "y"}
    assert text_of(message_of(note)) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize("stamp", [None, "yesterday", 10**30, "9999-12-31T23:59:59-23:59"])
def test_a_time_out_of_range_is_left_out(stamp: Any) -> None:
    entry: Any = {**compaction("x", "x"), "timestamp": stamp}
    assert "timestamp" not in context_items([entry])[0].message
