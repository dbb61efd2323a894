"""Pending requests: the unresolved one first, and none that was answered."""

from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.messages import assistant, tool_result, user
from hermitcrab_compaction_safeguard.asks import (
    MARKED_PENDING,
    NOT_FOREGROUNDED,
    Requests,
    answered_and_open,
    is_same,
    pending_in,
)
from hermitcrab_compaction_safeguard.audit import is_acceptable

ASK = "Migrate the billing database to schema 12"
DONE = "Translate the poem about the harbour"


def test_the_unresolved_request_has_to_be_the_first_one() -> None:
    requests = Requests(unresolved=ASK)
    assert requests.audit(f"- {ASK}\n- {DONE}") == []
    assert requests.audit("- Billing database: go on with the migration to schema 12") == []
    assert requests.audit(f"- {DONE}\n- {ASK}") == [NOT_FOREGROUNDED]
    assert requests.audit("None.") == [NOT_FOREGROUNDED]
    assert requests.mend(f"- {DONE}\n- {ASK}.") == f"- {ASK}\n- {DONE}"
    assert requests.mend("None.") == f"- {ASK}"


def test_where_everything_is_answered_an_honest_none_is_right() -> None:
    assert Requests(answered=[DONE]).audit("None.") == []
    assert Requests(answered=[DONE]).mend("None.") == "None."


def test_an_answered_request_is_not_pending() -> None:
    requests = Requests(answered=[DONE])
    assert requests.audit(f"- {ASK}\n- {DONE.upper()}.") == [MARKED_PENDING]
    assert requests.mend(f"- {ASK}\n  in steps\n- {DONE}\n  about") == f"- {ASK}\n  in steps"
    assert requests.mend(f"- {DONE}") == "None."


def test_a_request_made_again_and_not_answered_stays_pending() -> None:
    assert Requests(answered=[DONE], unresolved=DONE).audit(f"- {DONE}") == []
    assert Requests(answered=[DONE], open=[DONE]).audit(f"- {DONE}") == []


@pytest.mark.parametrize(
    ("item", "same"),
    [
        ("- translate the poem about the harbour!", True),
        ("Translate the long poem about the harbour", False),
        ("Translate the poem about the harbour and migrate the billing database", False),
        ("", False),
    ],
)
def test_only_what_is_surely_the_same_request_counts(item: str, same: bool) -> None:
    assert is_same(item, DONE) is same


def test_most_terms_are_enough_but_every_number_counts() -> None:
    ask = "Check deployment status production server cluster 3"
    assert is_same("Check deployment status of the production server cluster 3 please", ask)
    assert not is_same(ask.replace("3", "4"), ask)


def test_only_an_answer_in_words_resolves_a_request() -> None:
    call: Any = {"id": "c", "name": "read", "arguments": {}}
    messages = [
        user("one"),
        assistant("Looking.", tool_calls=[call]),
        tool_result("c", "read", "text"),
        assistant("Here."),
        user("two"),
        user("three"),
        assistant("Which one?"),
        user("four"),
        assistant("", tool_calls=[call]),
    ]
    assert answered_and_open(messages) == (["one"], ["two", "three", "four"])


def test_both_reasons_are_mended_by_the_host_unless_the_stored_text_is_wrong() -> None:
    assert is_acceptable([NOT_FOREGROUNDED, MARKED_PENDING])
    assert not is_acceptable([f"stored_{NOT_FOREGROUNDED}"])


def test_the_section_is_found_in_the_stored_text() -> None:
    text = f"## Decisions\n- a\n\n## Pending user asks\n- {ASK}\n\n## Exact identifiers\n- b"
    assert pending_in(text) == f"- {ASK}"


async def test_an_answered_request_is_dropped_from_the_stored_text(
    compact: Any, scripted: Any, notes: str
) -> None:
    messages = [user("hello"), assistant("word " * 9_000), user(DONE), assistant("Done: a rose.")]
    messages += [user("Thanks"), assistant("leaf " * 9_000)]
    wrong = notes.replace("Look at the module, say what is there.", f"{DONE}\n- thanks a lot")
    done = await compact(scripted(wrong), messages, keepRecentTokens=1)
    assert done.outcome.status == "compacted"
    assert MARKED_PENDING in done.safeguard["issues"]
    assert DONE not in pending_in(done.outcome.summary)
    assert f"- User: {DONE}" in done.outcome.summary
    assert "latestUnresolvedUserRequest" not in done.entry["details"]


async def test_the_unresolved_request_is_stored_first_and_in_the_details(
    compact: Any, scripted: Any, notes: str
) -> None:
    secret = "sk-" + "a1b2" * 8
    messages = [user(f"{ASK} with the key {secret}")]
    for n in range(12):
        call: Any = {"id": f"c{n}", "name": "exec", "arguments": {"command": f"step {n}"}}
        messages += [
            assistant(f"Step {n}.", tool_calls=[call]),
            tool_result(f"c{n}", "exec", "row\n" * 500),
        ]
    done = await compact(scripted(notes), messages)
    assert done.outcome.status == "compacted"
    assert pending_in(done.outcome.summary).startswith(f"- {ASK}")
    request = done.entry["details"]["latestUnresolvedUserRequest"]
    assert request.startswith(ASK)
    assert secret not in request
