"""What goes into the requests for one summary, so that none is larger than the summariser's window (context 4.4-4.8).

Everything here takes time with long conversations: it is called in a worker thread (P24).
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, field, frozen

from hermitcrab.compaction import prompts
from hermitcrab.compaction.chunks import (
    DEFAULT_PARTS,
    MINIMUM_MESSAGES_TO_SPLIT,
    Chunk,
    chunk_limit,
    split_by_share,
    split_by_size,
)
from hermitcrab.compaction.labels import last_moment_ms, part_label
from hermitcrab.compaction.prompts import Advice
from hermitcrab.compaction.reading import MessageReader
from hermitcrab.compaction.serialise import quoted
from hermitcrab.messages.build import user
from hermitcrab.messages.caps import MINIMUM_TEXT, cut_text
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

#: The smallest amount of conversation in one request, in tokens.
SMALLEST_CHUNK = 64
#: The operator's word on identifiers, and the feedback, each take at most one part in this many of the window.
_ADVICE_SHARE = 16
#: What roles, tags and labels around the parts of a request take at most, in tokens.
_FRAMING_TOKENS = 64
#: What the label above the notes on one part takes at most, with the framing of its message, in tokens.
_LABEL_TOKENS = 64


@frozen(kw_only=True)
class SummaryTask:
    """What to summarise and how. Sizes are tokens."""

    messages: Sequence[Message]
    previous_summary: str | None = None
    advice: Advice = field(factory=Advice)
    is_turn_prefix: bool = False
    max_tokens: int = 4_000


@frozen
class Room:
    """How one request divides the window: the answer, the notes so far, and the conversation, in tokens."""

    answer: int
    notes: int
    conversation: int

    def smaller(self, halvings: int) -> Room:
        """The same with less conversation in each request."""
        return evolve(self, conversation=max(SMALLEST_CHUNK, self.conversation >> halvings))


@frozen
class PartNotes:
    """The notes on one part of the conversation; on no messages if they are older than all of it."""

    messages: Sequence[Message]
    text: str


def instructions_for(task: SummaryTask, *, update: bool) -> str:
    """What the notes should be like; with ``update`` there are earlier ones."""
    if task.is_turn_prefix:
        return prompts.prefix_prompt(task.advice)
    return prompts.summarise_prompt(task.advice, update=update)


class RequestComposer:
    """Composes requests for a summariser with a window of this many tokens."""

    def __init__(self, reader: MessageReader, counter: TokenCounter, window: int) -> None:
        self._reader = reader
        self._counter = counter
        self._window = window

    def bounded(self, task: SummaryTask) -> SummaryTask:
        """The task with the longer texts of its advice cut, so that they leave room for the conversation."""
        limit = self._window // _ADVICE_SHARE
        advice = task.advice
        own = advice.identifier_instructions
        bounded = evolve(
            advice,
            identifier_instructions=None if own is None else self._fit(own, limit),
            feedback=[self._fit("\n".join(advice.feedback), limit)] if advice.feedback else (),
        )
        return evolve(task, advice=bounded)

    def room(self, task: SummaryTask) -> Room:
        """How each request for this task divides the window."""
        answer = max(1, min(task.max_tokens, self._window // 4))
        instructions = self._counter.text(self.system(task, update=True))
        free = self._window - answer - instructions - _FRAMING_TOKENS
        previous = self._counter.text(task.previous_summary or "")
        notes = min(max(previous, answer), free // 2)
        by_ratio = chunk_limit(task.messages, self._window, self._reader.tokens)
        conversation = min(max(by_ratio, self._window // 8), free - notes)
        return Room(answer, max(SMALLEST_CHUNK, notes), max(SMALLEST_CHUNK, conversation))

    def parts(self, task: SummaryTask, room: Room) -> list[Chunk]:
        """The parts that are summarised each by itself and then merged; none where one pass is enough."""
        if len(task.messages) < MINIMUM_MESSAGES_TO_SPLIT:
            return []
        if self._reader.total(task.messages) <= room.conversation:
            return []
        parts = split_by_share(task.messages, DEFAULT_PARTS, self._reader.tokens)
        return parts if len(parts) > 1 else []

    def chunks(self, messages: Sequence[Message], room: Room) -> list[Chunk]:
        """What one request after the other carries."""
        return split_by_size(messages, room.conversation, self._reader.tokens)

    def oversize(self, task: SummaryTask, room: Room) -> int:
        """How many messages are larger than what one request carries."""
        return sum(self._reader.tokens(one) > room.conversation for one in task.messages)

    def system(self, task: SummaryTask, *, update: bool) -> str:
        """The system prompt of a request to summarise."""
        return f"{prompts.SYSTEM}\n\n{instructions_for(task, update=update)}"

    def conversation(self, chunk: Sequence[Message], notes: str | None, room: Room) -> Message:
        """The message that carries one chunk, and the notes on what was before it."""
        record = self._reader.record(chunk)
        if self._reader.total(chunk) > room.conversation:
            record = self._fit(record, room.conversation)
        text = f"<conversation>\n{record}\n</conversation>"
        if notes:
            fitting = self._fit(quoted(notes), room.notes)
            text = f"<previous-summary>\n{fitting}\n</previous-summary>\n\n{text}"
        return user(text)

    def merge(
        self, task: SummaryTask, parts: Sequence[PartNotes], room: Room
    ) -> tuple[str, list[Message]]:
        """The system prompt and the messages of a request to merge the notes on several parts, oldest first."""
        system = f"{prompts.SYSTEM}\n\n{prompts.merge_prompt(task.advice)}"
        free = self._window - room.answer - self._counter.text(system) - _FRAMING_TOKENS
        share = max(SMALLEST_CHUNK, free // len(parts) - _LABEL_TOKENS)
        messages: list[Message] = []
        moment = 0
        for number, part in enumerate(parts, 1):
            label = part_label(number, len(parts), part.messages)
            moment = max(moment + 1, last_moment_ms(part.messages) or 0)
            text = f"{label}\n{self._fit(quoted(part.text), share)}"
            messages.append(user(text, timestamp=moment))
        return system, messages

    def _fit(self, text: str, limit: int) -> str:
        """Cut a text to ``limit`` tokens, so that no request can overflow the summariser's window."""
        tokens = self._counter.text(text)
        keep = len(text)
        fitting = text
        while tokens > limit and keep > MINIMUM_TEXT:
            keep = min(keep * 7 // 8, int(keep * limit / tokens))
            fitting = cut_text(text, keep, "record")
            tokens = self._counter.text(fitting)
        return fitting
