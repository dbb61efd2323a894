"""The audit by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.compaction import HEADINGS, Draft, FinishedSummary
from hermitcrab.memory.files import sections_named
from hermitcrab.messages import assistant, tool_result, user
from hermitcrab_compaction_safeguard.audit import (
    audit_answer,
    audit_stored,
    is_acceptable,
    named_identifiers,
    reflects,
    without_invented,
)
from hermitcrab_compaction_safeguard.conversation import (
    is_conversation,
    recent_turns,
    tool_failures,
)

GOOD = "\n".join(f"{heading}\n- port 9003" for heading in HEADINGS)


def draft_of(answer: str, *, tail: str = "", **sections: str) -> Draft:
    found = {heading: sections.get("text", "- port 9003") for heading in HEADINGS}
    return Draft(sections=found, answer=answer, tail=tail, mode="model")


def stored(text: str, **fields: Any) -> FinishedSummary:
    return FinishedSummary(text=text, mode="model", tokens=1, identifiers_required=2, **fields)


def test_a_good_answer_has_no_issues() -> None:
    assert audit_answer(draft_of(GOOD), ask="Use port 9003", invented=()) == []


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_missing_and_a_repeated_heading_are_named(heading: str) -> None:
    missing = draft_of(GOOD.replace(heading, ""))
    assert audit_answer(missing, ask=None, invented=()) == [f"missing_section:{heading}"]
    twice = draft_of(f"{GOOD}\n{heading}")
    assert audit_answer(twice, ask=None, invented=()) == [f"duplicate_section:{heading}"]


def test_an_answer_without_any_heading_ignores_the_format() -> None:
    issues = audit_answer(draft_of("Sure!"), ask=None, invented=())
    assert issues == ["no_heading"]
    assert not is_acceptable(issues)


@pytest.mark.parametrize("text", ["", "None.", "- None.\n\n- None captured."])
def test_headings_alone_say_nothing(text: str) -> None:
    issues = audit_answer(draft_of(GOOD, text=text), ask=None, invented=())
    assert issues == ["nothing_said"]
    assert not is_acceptable(issues)


def test_invented_identifiers_are_named_and_taken_out() -> None:
    tail = "**Turn**\n#" + HEADINGS[-1] + "\n- /a/b.txt\n- /c/d.txt"
    draft = draft_of(GOOD, tail=tail, text="- /a/b.txt here\n- port 9003")
    assert "/c/d.txt" in named_identifiers(draft)
    issues = audit_answer(draft, ask=None, invented=["/a/b.txt", "2", "3", "4"])
    assert issues == ["invented_identifiers:/a/b.txt, 2, 3"]
    assert is_acceptable(issues)
    cleaned = without_invented(draft, ["/a/b.txt"])
    assert cleaned.sections[HEADINGS[-1]] == "- port 9003"
    assert "/a/b.txt" in cleaned.sections["## Decisions"]
    assert cleaned.tail == "**Turn**\n#" + HEADINGS[-1] + "\n- /c/d.txt"
    assert without_invented(draft, ["/"]).sections[HEADINGS[-1]] == "- port 9003"
    assert without_invented(draft, ["9003", "/"]).sections[HEADINGS[-1]] == "None captured."


def test_a_request_that_is_not_taken_up_is_noticed_in_the_answer_and_in_the_stored_text() -> None:
    issues = audit_answer(draft_of(GOOD), ask="Translate the poem", invented=())
    assert issues == ["latest_user_ask_not_reflected"]
    assert is_acceptable(issues)
    kept = audit_stored(stored(GOOD + "\n- User: Translate the poem"), ask="Translate the poem")
    assert kept == []
    lost = audit_stored(stored(GOOD), ask="Translate the poem")
    assert lost == ["stored_latest_user_ask_not_reflected"]
    assert not is_acceptable(lost)


def test_the_stored_text_is_what_counts() -> None:
    """C56: whatever was cut from it is missing."""
    issues = audit_stored(
        stored(GOOD.replace("## Decisions", ""), identifiers_missing=("a", "b", "c", "d")),
        ask=None,
    )
    assert issues == ["stored_section:## Decisions", "missing_identifiers:a, b, c"]
    assert not any(is_acceptable([each]) for each in issues)


@pytest.mark.parametrize(
    ("ask", "summary", "expected"),
    [
        ("Fix the login page", "The login is broken; the page too", True),
        ("Fix the login page", "The login is broken", False),
        ("Fix LOGIN", "the login", True),
        ("the and of", "the and", True),
        ("", "anything", True),
        ("!!!", "anything", True),
        ("[2 images not shown]", "anything", True),
        ("请修复登录页面的错误", "登录页面有错误", True),
        ("请修复登录页面的错误", "数据库已经迁移", False),
        ("Ｆｉｘ ｌｏｇｉｎ", "fix login", True),
    ],
)
def test_a_request_is_reflected_if_enough_of_its_words_are(
    ask: str, summary: str, expected: bool
) -> None:
    assert reflects(summary, ask) is expected


@given(st.text(max_size=300))
def test_every_text_reflects_itself(text: str) -> None:
    assert reflects(text, text)


#: Characters; the longest of them are three bytes each.
LONG = 200_000
HOSTILE = [
    "a" * LONG,
    "[" * LONG,
    "#" * LONG,
    "## " * (LONG // 3),
    "`" * LONG,
    "```\n" * (LONG // 4),
    "- " * (LONG // 2),
    " " * LONG,
    "\n" * LONG,
    "NO_REPLY" * (LONG // 8),
    "NO_REPL" * (LONG // 7),
    "/a" * (LONG // 2),
    "[1 images" * (LONG // 9),
    "[" + "1" * LONG,
    "文" * LONG,
    "ﷺ" * LONG,
    "aB" * (LONG // 2),
    "<" * LONG,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_text_of_200_kb_takes_no_time_worth_mentioning(text: str) -> None:
    """C41: patterns that are not linear would take minutes."""

    def everything() -> None:
        draft = draft_of(text, tail=text, text=text)
        audit_answer(draft, ask=text, invented=["/a/b"] * 20)
        without_invented(draft, ["/a/b"] * 20)
        audit_stored(stored(text), ask=text)
        messages = [user(text), assistant(text), tool_result("c", "read", text, is_error=True)]
        is_conversation(messages)
        recent_turns(messages, 3)
        tool_failures(messages)
        sections_named(text, ["Rules"])

    await asyncio.wait_for(asyncio.to_thread(everything), timeout=10)
