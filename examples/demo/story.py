"""The demo itself: replay a conversation in a small window, then ask what the window has lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import frozen

from hermitcrab import Host
from hermitcrab.agent.events import Compacted, Flushed
from hermitcrab.agent.replay import ReplayOptions, ReplayProgress, replay
from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.config import Config, config_from
from hermitcrab.memory.flush import FlushOutcome
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.context import message_of
from hermitcrab.sessions.format import Entry, parse_time
from hermitcrab.sessions.reading import read_transcript

from .questions import Answer, Question, ask, load_questions

CONVERSATION = Path(__file__).with_name("conversation.jsonl")
WINDOW = 8_000


@frozen(kw_only=True)
class TurnRecord:
    """What happened in a turn; ``tokens`` is the size of its last request, ``marks`` are in the order of events."""

    turn: int
    tokens: int
    marks: tuple[FlushOutcome | CompactionOutcome, ...] = ()

    @property
    def flushes(self) -> list[FlushOutcome]:
        return [mark for mark in self.marks if isinstance(mark, FlushOutcome)]

    @property
    def compactions(self) -> list[CompactionOutcome]:
        return [mark for mark in self.marks if isinstance(mark, CompactionOutcome)]


@frozen(kw_only=True)
class Story:
    """All that the demo shows. ``fixed_tokens`` is what system prompt and tools take of every request."""

    report: dict[str, Any]
    turns: Sequence[TurnRecord]
    answers: Sequence[Answer]
    fixed_tokens: int

    @property
    def proved(self) -> bool:
        """Whether everything fitted and every question was answered from memory."""
        return self.report["overflows"] == 0 and all(answer.proved for answer in self.answers)

    def record(self) -> dict[str, Any]:
        """The story as JSON data: the report of the replay, its turns, and the answers."""
        return {
            "report": self.report,
            "turns": [
                {
                    "turn": turn.turn,
                    "tokens": turn.tokens,
                    "flushes": len(turn.flushes),
                    "compactions": len(turn.compactions),
                }
                for turn in self.turns
            ],
            "answers": [answer.record() for answer in self.answers],
            "proved": self.proved,
        }


async def tell(home: Path, on_turn: Callable[[ReplayProgress], None]) -> Story:
    """Run the demo in ``home``.

    :raises HermitcrabError: if the conversation cannot be replayed, or there is no memory to ask.
    """
    config = _config()
    turns: list[TurnRecord] = []

    def watch(progress: ReplayProgress) -> None:
        turns.append(_record_of(progress))
        on_turn(progress)

    options = ReplayOptions(source=CONVERSATION, context_window=WINDOW)
    report = await replay(options, home=home, config=config, on_turn=watch)
    transcript = read_transcript(Path(report["sessionFile"])).branch()
    end = parse_time(transcript[-1].get("timestamp")) or datetime.now(UTC)
    async with Host.open(home=home, config=config, clock=lambda: end) as host:
        session = await host.session(report["sessionKey"])
        context = await session.assemble()
        answers: list[Answer] = []
        for question in load_questions():
            said_in, compacted_in = trace(question, transcript, turns)
            answers.append(
                await ask(
                    host, question, context=context, said_in=said_in, compacted_in=compacted_in
                )
            )
    return Story(
        report=report,
        turns=turns,
        answers=answers,
        fixed_tokens=context.request_tokens - context.tokens,
    )


def _config() -> Config:
    """The defaults, with a small window, and the same dates on every machine."""
    return config_from(
        {"agents": {"defaults": {"contextTokens": WINDOW, "userTimezone": "UTC"}}},
    )


def _record_of(progress: ReplayProgress) -> TurnRecord:
    outcomes = (
        event.outcome for event in progress.events if isinstance(event, Flushed | Compacted)
    )
    return TurnRecord(
        turn=progress.turn,
        tokens=progress.window_tokens,
        marks=tuple(
            outcome
            for outcome in outcomes
            if isinstance(outcome, FlushOutcome) or outcome.compacted
        ),
    )


def trace(
    question: Question, transcript: Sequence[Entry], turns: Sequence[TurnRecord]
) -> tuple[int | None, int | None]:
    """The turn in which the answer to a question was first said, and the one in which it was compacted away."""
    said_at, said_in = _first_said(question, transcript)
    if said_at is None:
        return None, None
    positions = {entry["id"]: index for index, entry in enumerate(transcript) if "id" in entry}
    for turn in turns:
        for compaction in turn.compactions:
            kept_from = positions.get(compaction.first_kept_entry_id or "", -1)
            if kept_from > said_at:
                return said_in, turn.turn
    return said_in, None


def _first_said(question: Question, transcript: Sequence[Entry]) -> tuple[int | None, int | None]:
    """The index of the first entry with every expected word, and its turn."""
    turn = 0
    for index, entry in enumerate(transcript):
        message = message_of(entry)
        if message is None:
            continue
        turn += message.get("role") == "user"
        text = text_of(message)
        if all(word in text for word in question.expect):
            return index, turn
    return None, None
