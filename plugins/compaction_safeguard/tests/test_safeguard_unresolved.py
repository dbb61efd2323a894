"""Which request is unresolved, from the messages that are summarised and those that are kept."""

from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.compaction import HEADINGS
from hermitcrab.compaction.plan import CompactionPlan, unresolved_ask
from hermitcrab.messages import Message, assistant, tool_result, user
from hermitcrab.sessions.context import ContextItem
from hermitcrab_compaction_safeguard.asks import Requests, answered_and_open, is_same

CALL: Any = {"id": "c", "name": "read", "arguments": {}}
WORK = [assistant("Looking.", tool_calls=[CALL]), tool_result("c", "read", "text")]


def plan_of(history: list[Message], prefix: list[Message], kept: list[Message]) -> CompactionPlan:
    def items(messages: list[Message]) -> tuple[ContextItem, ...]:
        return tuple(ContextItem(message=one, entry_id="e") for one in messages)

    return CompactionPlan(
        history=items(history), turn_prefix=items(prefix), kept=items(kept), tokens_before=1
    )


@pytest.mark.parametrize(
    ("history", "prefix", "kept", "expected"),
    [
        ([user("one"), assistant("Done.")], [], [user("two")], None),
        ([user("one"), assistant("Done.")], [user("two"), *WORK], WORK, "two"),
        ([user("one"), assistant("Done.")], [user("two"), *WORK], [assistant("Done.")], None),
        ([user("one"), *WORK], [], [user("two")], "one"),
        ([assistant("Hello.")], [], [user("one")], None),
    ],
)
def test_a_request_is_unresolved_until_an_answer_without_calls(
    history: list[Message], prefix: list[Message], kept: list[Message], expected: str | None
) -> None:
    assert unresolved_ask(plan_of(history, prefix, kept)) == expected


@pytest.mark.parametrize(
    "unit", ["a ", "- \n", "- a\n", "文", "1", "…", "\n", "?", "## Decisions\n"]
)
def test_hostile_text_is_no_trouble(unit: str) -> None:
    text = unit * (32_000 // len(unit))
    requests = Requests(unresolved=text, answered=[text], open=[f"{text}x"])
    requests.audit(text)
    assert requests.mend(text).strip()
    assert not any(line in HEADINGS for line in requests.mend("None.").splitlines())
    is_same(text, text)
    answered_and_open([user(text), assistant(text)])
