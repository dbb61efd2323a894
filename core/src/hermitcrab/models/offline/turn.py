"""A turn of the offline model: look the question up in memory, quote what was found."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from hermitcrab.messages.provenance import unframed
from hermitcrab.messages.text import text_of
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatRequest
from hermitcrab.models.offline.text import (
    cut,
    is_chinese,
    is_question,
    keywords,
    prose_lines,
    sentences,
    without_repeats,
)

MEMORY_TOOL = "memory_search"
QUERY_CHARACTERS = 300
_QUOTES = 5
_QUOTE_CHARACTERS = 300
_BLOCK = re.compile(r"^<([a-z][a-z-]*)>$.*?^</\1>$", re.DOTALL | re.MULTILINE)


@frozen
class MemoryQuery:
    """The search that has to happen before the answer."""

    query: str


@frozen
class Answer:
    """The text of the answer."""

    text: str


@frozen
class _Line:
    """A line that can be quoted; ``citation`` is empty for the conversation's own."""

    text: str
    citation: str = ""


@frozen(kw_only=True)
class _Phrases:
    memory: str
    conversation: str
    nothing: str
    noted: str
    unavailable: str
    about: str


_ENGLISH = _Phrases(
    memory="From memory:",
    conversation="From this conversation:",
    nothing="I found nothing about this.",
    noted="Noted: it stays in this conversation, and I can quote it when you ask.",
    unavailable="Memory could not be searched: {reason}",
    about="This is the offline model: it quotes what it finds and does not reason.",
)
_CHINESE = _Phrases(
    memory="记忆中的相关内容：",
    conversation="本次对话中的相关内容：",
    nothing="没有找到相关内容。",
    noted="记下了：这句话留在本次对话中，之后可以问我。",
    unavailable="无法搜索记忆：{reason}",
    about="这是离线模型：只引用找到的内容，不做推理。",
)


def take_turn(request: ChatRequest) -> MemoryQuery | Answer:
    """Search memory first where the tool is offered, then quote; without it, quote the conversation."""
    asked_at = _last_user_index(request.messages)
    question = _asked(request.messages[asked_at]) if asked_at is not None else ""
    since = request.messages[asked_at + 1 :] if asked_at is not None else []
    result = _last_result(since)
    if result is None and any(tool.name == MEMORY_TOOL for tool in request.tools) and question:
        return MemoryQuery(question.strip()[:QUERY_CHARACTERS])
    phrases = _CHINESE if is_chinese(question) else _ENGLISH
    return Answer(_answer(question, result, request.messages[: asked_at or 0], phrases))


def _last_user_index(messages: Sequence[Message]) -> int | None:
    indexes = (index for index in reversed(range(len(messages))) if _asks(messages[index]))
    return next(indexes, None)


def _asks(message: Message) -> bool:
    return message["role"] == "user" and bool(text_of(message).strip())


def _asked(message: Message) -> str:
    """What the user says, without the blocks that plugins have put around it, such as recalled memories."""
    return _BLOCK.sub("", text_of(unframed(message))).strip()


def _last_result(messages: Sequence[Message]) -> Message | None:
    results = (
        message
        for message in reversed(messages)
        if message["role"] == "toolResult" and message.get("toolName") == MEMORY_TOOL
    )
    return next(results, None)


def _answer(
    question: str, result: Message | None, earlier: Sequence[Message], phrases: _Phrases
) -> str:
    payload = _payload(result)
    remembered = _memory_lines(payload)
    quotes = best_lines(question, remembered) or remembered[:_QUOTES]
    lead = phrases.memory
    if not quotes:
        quotes = best_lines(question, _conversation_lines(earlier))
        lead = phrases.conversation
    parts = [phrases.unavailable.format(reason=reason) for reason in _trouble(payload)]
    if quotes:
        parts.append("\n".join([lead, *(_quoted(line) for line in quotes)]))
    else:
        asks = any(map(is_question, sentences(question)))
        parts.append(phrases.nothing if asks else phrases.noted)
    return "\n\n".join([*parts, phrases.about])


def _payload(result: Message | None) -> dict[str, Any]:
    if result is None:
        return {}
    text = text_of(result)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {"error": cut(" ".join(text.split()), _QUOTE_CHARACTERS)}
    return parsed if isinstance(parsed, dict) else {}


def _trouble(payload: dict[str, Any]) -> list[str]:
    if not (payload.get("error") or payload.get("unavailable") or payload.get("disabled")):
        return []
    said = [payload.get("error") or payload.get("warning"), payload.get("action")]
    return [" ".join(str(part) for part in said if part) or "-"]


def _memory_lines(payload: dict[str, Any]) -> list[_Line]:
    results = payload.get("results")
    lines: list[_Line] = []
    for result in results if isinstance(results, list) else []:
        if isinstance(result, dict) and result.get("path"):
            place = f"{result['path']}#L{result.get('startLine')}-L{result.get('endLine')}"
            snippet = str(result.get("snippet") or "").removesuffix(
                f"Source: {result.get('citation')}"
            )
            bodies = [line for line in snippet.splitlines() if not line.lstrip().startswith("#")]
            lines += [_Line(text, place) for text in prose_lines("\n".join(bodies))]
    return lines


def _conversation_lines(messages: Iterable[Message]) -> list[_Line]:
    texts = [
        str(message.get("summary") or text_of(message))
        for message in messages
        if message["role"] in ("user", "assistant", "compactionSummary", "branchSummary")
    ]
    own = {
        text
        for phrases in (_ENGLISH, _CHINESE)
        for text in (phrases.about, phrases.nothing, phrases.noted)
    }
    lines = without_repeats([line for text in texts for line in prose_lines(text)])
    return [_Line(line) for line in lines if line not in own]


def best_lines(question: str, lines: Sequence[_Line]) -> list[_Line]:
    """The lines that share most with the question, best first; a word counts more the fewer lines hold it."""
    asked = keywords(question)
    shared = [keywords(line.text) & asked for line in lines]
    holders = Counter(word for words in shared for word in words)
    scores = [
        sum(math.log(1 + len(lines) / holders[word]) for word in sorted(words)) for words in shared
    ]
    order = sorted(range(len(lines)), key=lambda index: (-scores[index], index))
    kept: dict[str, _Line] = {}
    for index in order[: _QUOTES * 4]:
        if scores[index] > 0 and scores[index] * 3 >= scores[order[0]]:
            kept.setdefault(lines[index].text, lines[index])
    return list(kept.values())[:_QUOTES]


def _quoted(line: _Line) -> str:
    text = cut(line.text, _QUOTE_CHARACTERS)
    return f"- {text} ({line.citation})" if line.citation else f"- {text}"
