"""Conversations with questions about them, out of a file of LoCoMo's form or of ``zh-memory``'s."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import frozen

# An id as it should be is D8:6; some have zeros in front, stand together in one text, or are cut off.
_EVIDENCE_ID = re.compile(r"D0*(?P<session>[0-9]+):0*(?P<turn>[0-9]+)(?![0-9:])")
_SESSION = re.compile(r"session_(?P<number>[0-9]+)")
_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


@frozen(kw_only=True)
class Question:
    """A question, what kind it is, and the texts of which each should be found."""

    text: str
    category: str
    evidence: tuple[str, ...]


@frozen(kw_only=True)
class Collection:
    """The notes of one person by path, and the questions about them."""

    name: str
    notes: dict[str, str]
    questions: tuple[Question, ...]


class UnknownFormError(Exception):
    """The file is of neither form."""


def load_collections(path: Path) -> list[Collection]:
    """The collections of a file; a question whose evidence is missing or points nowhere is left out.

    :raises UnknownFormError: the file is of neither form.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, list) or not data or not isinstance(data[0], dict):
        raise UnknownFormError(f"{path} is no list of conversations")
    if "conversation" in data[0]:
        return [_locomo(sample) for sample in data]
    if "history" in data[0]:
        return [_zh_memory(user) for user in data]
    raise UnknownFormError(f"{path} has neither conversations nor histories")


def _locomo(sample: dict[str, Any]) -> Collection:
    """One file for each session with its date, one line for each utterance."""
    conversation = sample["conversation"]
    notes: dict[str, str] = {}
    utterances: dict[str, str] = {}
    for number, turns in _sessions(conversation):
        when = conversation[f"session_{number}_date_time"]
        lines = []
        for turn in turns:
            text = " ".join(turn["text"].split())
            utterances[turn["dia_id"]] = text
            lines.append(f"{turn['speaker']}: {text}")
        day = datetime.strptime(when, "%I:%M %p on %d %B, %Y").date()
        body = "\n".join(lines)
        notes[f"memory/{day.isoformat()}-session-{number}.md"] = f"# {when}\n\n{body}\n"
    questions = (
        Question(
            text=asked["question"],
            category=_CATEGORIES.get(asked.get("category"), str(asked.get("category"))),
            evidence=_texts(evidence_ids(asked.get("evidence", [])), utterances),
        )
        for asked in sample["qa"]
    )
    return Collection(
        name=str(sample.get("sample_id", "")),
        notes=notes,
        questions=tuple(question for question in questions if question.evidence),
    )


def evidence_ids(given: Any) -> list[str]:
    """The ids of evidence as utterances have them, from one text or several, however they are written."""
    texts = given if isinstance(given, list) else [given]
    found = (match for text in texts for match in _EVIDENCE_ID.finditer(str(text)))
    return list(dict.fromkeys(f"D{match['session']}:{match['turn']}" for match in found))


def _sessions(conversation: dict[str, Any]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    for key, turns in conversation.items():
        match = _SESSION.fullmatch(key)
        if match is not None and turns:
            yield int(match["number"]), turns


def _zh_memory(user: dict[str, Any]) -> Collection:
    """One file for each day, one block for each exchange."""
    notes: dict[str, str] = {}
    exchanges: dict[str, dict[str, str]] = {}
    for day, given in user["history"].items():
        blocks = []
        for exchange in given:
            asked, answered = (" ".join(exchange[key].split()) for key in ("query", "response"))
            exchanges[exchange["id"]] = {"query": asked, "response": answered}
            blocks.append(f"用户：{asked}\nAI：{answered}")
        notes[f"memory/{day}.md"] = f"# {day}\n\n" + "\n\n".join(blocks) + "\n"
    questions = (
        Question(
            text=asked["question"],
            category=str(asked.get("kind")),
            evidence=tuple(
                text
                for evidence_id in asked["evidence"]
                for text in exchanges.get(evidence_id, {}).values()
            ),
        )
        for asked in user["qa"]
    )
    return Collection(
        name=str(user.get("user", "")),
        notes=notes,
        questions=tuple(question for question in questions if question.evidence),
    )


def _texts(ids: list[str], utterances: dict[str, str]) -> tuple[str, ...]:
    return tuple(utterances[each] for each in ids if each in utterances)
