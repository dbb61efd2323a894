"""The memory flush of the offline model: durable lines of a conversation, in its own words (memory 8)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from hermitcrab.messages.text import text_of
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatRequest
from hermitcrab.models.offline.salience import (
    Kind,
    find_kind,
    has_detail,
    is_prose,
    is_trivial,
    only_asks,
)
from hermitcrab.models.offline.text import (
    cost,
    cut,
    excerpt,
    is_question,
    keywords,
    one_line,
    plain,
    prose_lines,
    sentences,
)

WRITE_TOOL = "write"
NO_REPLY = "NO_REPLY"
MAX_BULLETS = 40
BULLET_CHARACTERS = 240

_TARGET = re.compile(r"\bmemory/\d{4}-\d{2}-\d{2}\.md")
_TIME_LINE = re.compile(r"current time:([^\n]{0,200})", re.IGNORECASE)
_CLOCK = re.compile(r"(?<!\d)(\d{1,2}):(\d{2})(?!\d)(?::\d{2})?\s{0,2}([ap]m)?", re.IGNORECASE)
_CITATION = re.compile(r"[\w/.-]{1,200}\.md#L\d+")
#: The tag of a compaction's summary stands within this many characters of its message.
_SUMMARY_LEAD_CHARACTERS = 300
_RECALLED = ("<relevant-memories>", "</relevant-memories>")
#: The cost, in thirds of a token, of a sentence that says something: 12 Latin or 4 CJK characters.
_SHORT = 12
_ANSWER_CHARACTERS = 60
_QUESTION_CHARACTERS = 160
_PASTED_LINES = 25

_USER_WORTH = 3
_WORTH = {
    Kind.DECISION: 4,
    Kind.CONSTRAINT: 4,
    Kind.PREFERENCE: 4,
    Kind.CONCLUSION: 3,
    Kind.FACT: 2,
    Kind.OPEN: 1,
}
_ASSISTANT_MINIMUM = 3


@frozen(kw_only=True)
class WriteNotes:
    """What the flush has to write, and where."""

    path: str
    content: str


@frozen
class _Note:
    """A line worth keeping; a higher worth survives longer when there are too many."""

    text: str
    worth: int


def _packed(sentences_with_worth: Iterable[tuple[str, int]]) -> list[_Note]:
    """The sentences of one message, put into as few bullets as hold them."""
    notes: list[_Note] = []
    for text, worth in sentences_with_worth:
        joined = f"{notes[-1].text} {text}" if notes else ""
        if joined and len(joined) <= BULLET_CHARACTERS:
            notes[-1] = _Note(joined, max(notes[-1].worth, worth))
        else:
            notes.append(_Note(text, worth))
    return notes


def flush(request: ChatRequest) -> WriteNotes | None:
    """What to write into today's file, or None if it was written already or nothing is worth it."""
    prompt_at = _prompt_index(request.messages)
    if prompt_at is None or not any(tool.name == WRITE_TOOL for tool in request.tools):
        return None
    if any(message["role"] == "toolResult" for message in request.messages[prompt_at + 1 :]):
        return None
    prompt = text_of(request.messages[prompt_at])
    target = _TARGET.search(prompt)
    bullets = durable_lines(request.messages[:prompt_at])
    if target is None or not bullets:
        return None
    lines = [_heading(prompt), *(f"- {bullet}" for bullet in bullets)]
    return WriteNotes(path=target[0], content="\n".join(lines) + "\n")


def _prompt_index(messages: Sequence[Message]) -> int | None:
    """Where the flush prompt stands: the last user message that names the file."""
    for index in reversed(range(len(messages))):
        if messages[index]["role"] == "user" and _TARGET.search(text_of(messages[index])):
            return index
    return None


def _heading(prompt: str) -> str:
    line = _TIME_LINE.search(prompt)
    clock = _CLOCK.search(line[1]) if line else None
    if clock is None:
        return "## Session notes"
    hour = int(clock[1])
    if clock[3]:
        hour = hour % 12 + (12 if clock[3].lower() == "pm" else 0)
    return f"## {hour:02d}:{clock[2]}"


def durable_lines(messages: Sequence[Message]) -> list[str]:
    """The lines of a conversation worth searching for later, in its order, at most 40."""
    notes = _without_repeats(_notes(_without_summary(messages)))
    # Among lines of equal worth the newest stay: the older ones had an earlier flush.
    ranked = sorted(range(len(notes)), key=lambda index: (-notes[index].worth, -index))
    return [notes[index].text for index in sorted(ranked[:MAX_BULLETS])]


def _without_summary(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages without the summary that stands for compacted ones: those had an earlier flush."""
    text = text_of(messages[0]).rstrip() if messages else ""
    begins = "\n<summary>\n" in text[:_SUMMARY_LEAD_CHARACTERS]
    return messages[1:] if begins and text.endswith("\n</summary>") else messages


def _notes(messages: Sequence[Message]) -> Iterator[_Note]:
    question = ""
    for message in messages:
        yield from _notes_of(message, question)
        question = _open_question(message)


def _without_repeats(notes: Iterable[_Note]) -> list[_Note]:
    kept: dict[str, _Note] = {}
    for note in notes:
        kept.setdefault(plain(note.text), note)
    return list(kept.values())


def _notes_of(message: Message, question: str) -> list[_Note]:
    """The notes of one message; ``question`` is what the assistant had asked before it, if anything."""
    text = _without_recalled(text_of(message))
    if message["role"] == "assistant":
        return _packed(_assistant_sentences(text))
    if message["role"] != "user":
        return []
    if question and len(text) <= _ANSWER_CHARACTERS and _answers(text):
        return [_Note(cut(one_line(f"{question} {text}"), BULLET_CHARACTERS), _USER_WORTH)]
    return _packed(_user_sentences(text))


def _answers(text: str) -> bool:
    return bool(plain(text)) and not only_asks(text) and not text.startswith(("/", "!"))


def _open_question(message: Message) -> str:
    """The question that an assistant message ends with, if it is one that an answer needs as its context."""
    if message["role"] != "assistant":
        return ""
    last = list(prose_lines(text_of(message)))[-1:]
    question = next((sentences(line)[-1] for line in last if sentences(line)), "")
    short = len(question) <= _QUESTION_CHARACTERS
    return question if short and is_question(question) and len(keywords(question)) >= 3 else ""


def _user_sentences(text: str) -> Iterator[tuple[str, int]]:
    """What the user said, except what is trivial; a long paste counts less than what was typed."""
    if is_trivial(text):
        return
    lines = list(prose_lines(text))
    base = _USER_WORTH if len(lines) <= _PASTED_LINES else 1
    for line in lines:
        for sentence in sentences(line):
            worth = _user_worth(sentence, base)
            kept = _shown(sentence, by_user=True)
            if worth > 0 and kept:
                yield kept, worth


def _user_worth(sentence: str, base: int) -> int:
    # A note of a question would be found by the same question, ahead of its answer.
    if is_trivial(sentence) or only_asks(sentence) or _CITATION.search(sentence):
        return 0
    found = find_kind(sentence, by_user=True)
    detail = int(has_detail(sentence))
    if cost(sentence) < _SHORT and not detail and found is None:
        return 0
    worth = base + detail + (_WORTH[found[0]] if found else 0)
    return worth if is_prose(sentence) else worth - 2


def _assistant_sentences(text: str) -> Iterator[tuple[str, int]]:
    """What the assistant concluded; its quotes of memory are in memory already (C76)."""
    if is_trivial(text):
        return
    for line in prose_lines(text):
        if not is_prose(line) or _CITATION.search(line):
            continue
        for sentence in sentences(line):
            worth = _assistant_worth(sentence)
            kept = _shown(sentence, by_user=False)
            if worth >= _ASSISTANT_MINIMUM and kept:
                yield kept, worth - 1


def _assistant_worth(sentence: str) -> int:
    if is_question(sentence) or cost(sentence) < _SHORT:
        return 0
    found = find_kind(sentence, by_user=False)
    return (_WORTH[found[0]] if found else 0) + 2 * int(has_detail(sentence))


def _shown(sentence: str, *, by_user: bool) -> str:
    found = find_kind(sentence, by_user=by_user)
    if found is None:
        return cut(sentence, BULLET_CHARACTERS)
    return excerpt(sentence, BULLET_CHARACTERS, found[1])


def _without_recalled(text: str) -> str:
    """The text without memories that a plugin put into it."""
    opening, closing = _RECALLED
    kept: list[str] = []
    while (start := text.find(opening)) >= 0:
        kept.append(text[:start])
        end = text.find(closing, start)
        text = text[end + len(closing) :] if end >= 0 else ""
    return "".join([*kept, text])
