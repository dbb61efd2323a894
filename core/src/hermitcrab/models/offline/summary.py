"""Summaries by rule: the sentences that state something, in the conversation's own words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from attrs import field, frozen

from hermitcrab.messages.identifiers import extract_identifiers, normal_form
from hermitcrab.messages.text import text_of
from hermitcrab.models.contract import ChatRequest
from hermitcrab.models.offline.conversation_text import Segment, read_chunks, read_conversation
from hermitcrab.models.offline.salience import Kind, find_kind, has_detail, is_prose, is_trivial
from hermitcrab.models.offline.sections import (
    BULLET_CHARACTERS,
    MAX_ASKS,
    Summary,
    bullet_cost,
    merged,
    read_summary,
    write_summary,
)
from hermitcrab.models.offline.text import (
    cost,
    excerpt,
    one_line,
    prose_lines,
    sentences,
    without_repeats,
)

_THIRDS = 3
_DEFAULT_TOKENS = 4_000
_SMALLEST_TOKENS = 300
_MAX_FACTS = 12


def summarise(request: ChatRequest) -> str:
    """The five sections for the conversation in a request, with what an earlier summary held."""
    read = read_conversation(request.messages)
    budget = _budget(request)
    summary = summary_of(read.segments, budget)
    if read.previous_summary.strip():
        summary = merged(summary, read_summary(read.previous_summary))
    return write_summary(summary, budget)


def merge(request: ChatRequest) -> str:
    """The five sections of several partial summaries, the most recent one first."""
    partial = [read_summary(chunk) for chunk in read_chunks(request.messages)]
    summary = reduce(lambda older, newer: merged(newer, older), partial, Summary())
    return write_summary(summary, _budget(request))


def _budget(request: ChatRequest) -> int:
    """Thirds of a token for the answer: the request's limit, and less than what is summarised (C28)."""
    limit = request.max_tokens if request.max_tokens is not None else _DEFAULT_TOKENS
    source = sum(cost(text_of(message)) for message in request.messages)
    return min(limit * _THIRDS, max(_SMALLEST_TOKENS * _THIRDS, source * 2 // 3))


@frozen
class _Findings:
    """The sentences of a conversation by what they state, oldest first."""

    by_kind: dict[Kind, list[str]] = field(factory=lambda: {kind: [] for kind in Kind})
    rules_by_assistant: list[str] = field(factory=list)


def summary_of(segments: Sequence[Segment], budget: int) -> Summary:
    """What the messages of a conversation state, newest first.

    :param budget: thirds of a token; identifiers that could not be written are not looked for.
    """
    found = _Findings()
    for segment in segments:
        if segment.kind in ("user", "others", "assistant"):
            _collect(segment, found)
    kinds = {kind: found.by_kind[kind][::-1] for kind in Kind}
    facts = [*kinds[Kind.PREFERENCE], *kinds[Kind.FACT]][:_MAX_FACTS]
    return Summary(
        decisions=_unique([*kinds[Kind.DECISION], *facts]),
        open_todos=_unique(kinds[Kind.OPEN]),
        constraints=_unique([*kinds[Kind.CONSTRAINT], *found.rules_by_assistant[::-1]]),
        asks=_asks(segments),
        identifiers=_identifiers(segments, budget),
    )


def _unique(bullets: list[str]) -> tuple[str, ...]:
    return tuple(without_repeats(bullets))


def _collect(segment: Segment, found: _Findings) -> None:
    by_user = segment.kind == "user"
    for sentence in _sentences(segment.text):
        stated = find_kind(sentence, by_user=by_user)
        if stated is None or is_trivial(sentence):
            continue
        kind, position = stated
        if kind is Kind.FACT and not has_detail(sentence):
            continue
        bullet = excerpt(sentence, BULLET_CHARACTERS, position)
        if kind is Kind.CONSTRAINT and not by_user:
            found.rules_by_assistant.append(bullet)
        else:
            # A conclusion stands with the decisions in the order in which both were reached.
            found.by_kind[Kind.DECISION if kind is Kind.CONCLUSION else kind].append(bullet)


def _sentences(text: str) -> Iterator[str]:
    for line in prose_lines(text):
        if is_prose(line):
            yield from sentences(line)


def _asks(segments: Sequence[Segment]) -> tuple[str, ...]:
    """The latest user message, then the ones before it that ask for something."""
    texts = [one_line(segment.text) for segment in reversed(segments) if segment.kind == "user"]
    asking = [text for text in texts[1:] if not is_trivial(text)]
    return tuple(without_repeats([*texts[:1], *asking])[:MAX_ASKS])


def _identifiers(segments: Sequence[Segment], budget: int) -> tuple[str, ...]:
    """The newest identifiers, at least as many as the budget could hold."""
    found: dict[str, str] = {}
    for segment in reversed(segments):
        for identifier in extract_identifiers(segment.text):
            form = normal_form(identifier)
            if form not in found:
                found[form] = identifier
                budget -= bullet_cost(identifier)
        if budget < 0:
            break
    return tuple(found.values())
