"""Which summaries are asked for, seen from a writer that only notes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hermitcrab.compaction import Draft, FinishedSummary, SummaryWish
from hermitcrab.errors import CompactionError
from hermitcrab.hooks import SessionBeforeCompact
from hermitcrab.messages import text_of, user
from hermitcrab_compaction_safeguard.safeguard import Safeguard


class Writer:
    """Notes wishes; every message takes 100 tokens, every answer is numbered."""

    latest_ask = None
    unresolved_ask = None
    limits = SimpleNamespace(tokens=1_000, characters=4_000)
    files = SimpleNamespace(read=[], modified=[])

    def __init__(self, *, fails_at: int = 0, **settings: Any) -> None:
        self.settings: Any = SimpleNamespace(
            mode="safeguard",
            provider=None,
            identifier_policy="off",
            quality_guard=SimpleNamespace(enabled=False, max_retries=0),
            recent_turns_preserve=0,
            max_history_share=settings.get("share", 0.5),
            post_compaction_sections=(),
        )
        self.fails_at = fails_at
        self.wishes: list[SummaryWish] = []

    def count(self, message: Any) -> int:
        return 100

    def count_text(self, text: str) -> int:
        return len(text) // 4

    async def write(self, wish: SummaryWish) -> Draft:
        self.wishes.append(wish)
        if len(self.wishes) == self.fails_at:
            raise CompactionError("gone")
        answer = f"answer {len(self.wishes)}"
        sections = dict.fromkeys(("## Decisions", "## Exact identifiers"), answer)
        return Draft(sections=sections, answer=answer, mode="model")

    def finish(self, draft: Draft) -> FinishedSummary:
        return FinishedSummary(text=draft.answer, mode="model", tokens=5, identifiers_required=0)


def event_for(writer: Writer, messages: int, tokens_before: int | None) -> Any:
    return SessionBeforeCompact(
        session_key="agent:main:main",
        session_id="s",
        messages=[user(f"message {number}") for number in range(messages)],
        turn_prefix_messages=[user("the turn")],
        previous_summary="the last one",
        custom_instructions="the login",
        tokens_before=tokens_before,
        context_window=10_000,
        writer=writer,
    )


async def test_where_much_is_kept_the_oldest_history_is_summarised_first() -> None:
    """Context 4.9: what is kept takes more than the share, so history is halved until it takes less."""
    writer = Writer(share=0.1)
    decision = await Safeguard(event_for(writer, 32, 6_000), writer, None).decide()  # type: ignore[arg-type]
    first, second = writer.wishes
    assert (decision.summary, decision.rejected) == ("answer 2", None)
    assert [text_of(message) for message in (*first.messages, *second.messages)] == [
        f"message {number}" for number in range(32)
    ]
    assert len(second.messages) == 8
    assert (first.previous_summary, second.previous_summary) == ("the last one", "answer 1")
    assert first.turn_prefix == ()
    assert [text_of(message) for message in second.turn_prefix] == ["the turn"]
    assert first.focus == second.focus == "the login"


@pytest.mark.parametrize(("messages", "tokens"), [(32, 4_400), (32, None), (8, 6_000)])
async def test_otherwise_one_summary_is_asked_for(messages: int, tokens: int | None) -> None:
    """The share is not reached, unknown, or the history is small already."""
    writer = Writer(share=0.1 if tokens != 6_000 else 0.5)
    await Safeguard(event_for(writer, messages, tokens), writer, None).decide()  # type: ignore[arg-type]
    (wish,) = writer.wishes
    assert len(wish.messages) == messages


async def test_if_the_oldest_history_cannot_be_summarised_nothing_is_dropped() -> None:
    writer = Writer(share=0.1, fails_at=1)
    decision = await Safeguard(event_for(writer, 32, 6_000), writer, None).decide()  # type: ignore[arg-type]
    assert decision.summary is None
    assert decision.rejected == "compaction safeguard: could not summarise the session: gone"
    assert len(writer.wishes) == 1
