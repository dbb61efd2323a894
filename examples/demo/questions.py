"""The questions of the demo, and the proof that memory, not the window, answered them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from hermitcrab import Host
from hermitcrab.agent.assembled import AssembledContext
from hermitcrab.memory import Hit, MemoryBackend

QUESTIONS = Path(__file__).with_name("questions.json")
SESSION_KEY = "agent:main:main"


@frozen(kw_only=True)
class Question:
    """A question and the words that its answer cannot do without."""

    text: str
    expect: tuple[str, ...]


@frozen(kw_only=True)
class Source:
    """A line of a memory file that search found; ``rank`` counts the hits from 1, ``line`` the lines of the file."""

    path: str
    line: int
    text: str
    rank: int

    @property
    def citation(self) -> str:
        return f"{self.path}#L{self.line}"


@frozen(kw_only=True)
class Answer:
    """What came of a question.

    ``found`` are the expected words in the lines that memory found, ``replied`` those in the agent's reply,
    ``left_in_window`` those that still stand in the context of the conversation after its last turn. ``said_in`` is
    the turn in which the answer was said, ``compacted_in`` the one in which it left the window.
    """

    question: Question
    reply: str
    source: Source | None
    found: tuple[str, ...]
    replied: tuple[str, ...]
    left_in_window: tuple[str, ...]
    said_in: int | None
    compacted_in: int | None

    @property
    def proved(self) -> bool:
        """Whether the answer had left the window, and memory and the reply hold all of it."""
        wanted = self.question.expect
        left = self.compacted_in is not None and not self.left_in_window
        return left and self.found == wanted and self.replied == wanted

    def record(self) -> dict[str, Any]:
        """The answer as JSON data."""
        return {
            "question": self.question.text,
            "expect": list(self.question.expect),
            "reply": self.reply,
            "source": None
            if self.source is None
            else {**asdict(self.source), "citation": self.source.citation},
            "found": list(self.found),
            "replied": list(self.replied),
            "leftInWindow": list(self.left_in_window),
            "saidInTurn": self.said_in,
            "compactedInTurn": self.compacted_in,
            "proved": self.proved,
        }


@frozen
class _Passage:
    """The lines of a hit."""

    path: str
    start: int
    lines: tuple[str, ...]


def load_questions(path: Path = QUESTIONS) -> tuple[Question, ...]:
    """The questions that the demo ships."""
    return tuple(
        Question(text=item["question"], expect=tuple(item["expect"]))
        for item in json.loads(path.read_text(encoding="utf-8"))
    )


async def ask(
    host: Host,
    question: Question,
    *,
    context: AssembledContext,
    said_in: int | None,
    compacted_in: int | None,
) -> Answer:
    """Ask in a fresh session, and look up where in memory the answer stands.

    ``context`` is what the model would get next in the old conversation.

    :raises MemoryBackendError: if there is no memory.
    """
    reply = await host.send(SESSION_KEY, question.text)
    result = await host.memory.search(question.text)
    passages = [await _passage(host.memory, hit) for hit in result.hits]
    source, found = best_source(passages, question.expect)
    return Answer(
        question=question,
        reply=reply.text,
        source=source,
        found=found,
        replied=_words_in(reply.text, question.expect),
        left_in_window=_words_in(_text_of(context), question.expect),
        said_in=said_in,
        compacted_in=compacted_in,
    )


async def _passage(memory: MemoryBackend, hit: Hit) -> _Passage:
    count = hit.end_line - hit.start_line + 1
    read = await memory.read(hit.path, start=hit.start_line, lines=count)
    return _Passage(hit.path, hit.start_line, tuple(read.text.splitlines()))


def best_source(
    passages: Sequence[_Passage], expect: Sequence[str]
) -> tuple[Source | None, tuple[str, ...]]:
    """The line with most of the expected words, in the first hit that has most of them; and those of the hit."""
    best: Source | None = None
    found: tuple[str, ...] = ()
    for rank, passage in enumerate(passages, 1):
        words = _words_in("\n".join(passage.lines), expect)
        if len(words) <= len(found):
            continue
        counts = [len(_words_in(line, expect)) for line in passage.lines]
        offset = counts.index(max(counts))
        best = Source(
            path=passage.path,
            line=passage.start + offset,
            text=passage.lines[offset],
            rank=rank,
        )
        found = words
    return best, found


def _words_in(text: str, words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word in text)


def _text_of(context: AssembledContext) -> str:
    """Everything that the model would read."""
    messages = json.dumps(list(context.messages), ensure_ascii=False)
    return f"{context.system}\n{messages}"
