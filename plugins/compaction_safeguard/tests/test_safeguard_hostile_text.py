"""The audit of hostile answers takes time in proportion to them (C41); the alarm ends what does not."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from hermitcrab.compaction import HEADINGS, Draft
from hermitcrab_compaction_safeguard.audit import audit_answer, reflects, without_invented
from hermitcrab_compaction_safeguard.conversation import is_conversation, recent_turns

SIZE = 200_000
PATIENCE_S = 10
UNITS = (
    "1", "a", "a ", "[", "/a", "https://a.b/c ", "```\n", "\u200b", "\U0001f468\u200d", "\u0301",
    "文", "文.", "é", "## Decisions\n", "#", "* ", "- \n", "\r", "\u2028", "[1 image not shown]", "'",
    "a'", "ﷺ", "NO_REPLY ", " ", "_", "-",
)  # fmt: skip


@pytest.fixture(autouse=True)
def patience() -> Any:
    def give_up(number: int, frame: Any) -> None:
        pytest.fail(f"it took more than {PATIENCE_S} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("unit", UNITS)
def test_an_audit_of_a_hostile_answer_is_linear(unit: str) -> None:
    text = (unit * (SIZE // len(unit) + 1))[:SIZE]
    draft = Draft(sections=dict.fromkeys(HEADINGS, text), answer=text, tail=text, mode="model")
    assert audit_answer(draft, ask=text, invented=[text[:50]])
    without_invented(draft, [text[:50]] * 20)
    reflects(text, text)
    messages: Any = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    is_conversation(messages)
    recent_turns(messages, 3)
