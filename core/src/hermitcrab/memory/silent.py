"""The silent reply: a model that has nothing to say answers ``NO_REPLY`` (context 6.10)."""

from __future__ import annotations

import json
import re

SILENT_TOKEN = "NO_REPLY"

#: The silent reply in JSON, without spaces.
_ACTION = f'{{"action":"{SILENT_TOKEN}"}}'
_REASONING = re.compile(r"\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)


def is_silent(text: str) -> bool:
    """Whether ``text`` as a whole is a silent reply.

    Case, whitespace, repeats and leading reasoning blocks do not matter; ``{"action": "NO_REPLY"}`` counts too.
    """
    body = _without_reasoning(text).strip()
    tokens = body.upper().split()
    if tokens:
        return all(token.replace(SILENT_TOKEN, "") == "" for token in tokens) or _is_action(body)
    return False


def strip_silent(text: str) -> str:
    """``text`` without the silent tokens at its end; a silent reply becomes an empty text."""
    if is_silent(text):
        return ""
    body = text.rstrip()
    while _ends_with_token(body):
        body = body[: -len(SILENT_TOKEN)].rstrip()
        text = body
    return text


class SilentGate:
    """Holds a streamed text back for as long as it may still become a silent reply."""

    def __init__(self) -> None:
        self._held = ""
        self._open = False

    def let_through(self, piece: str) -> str:
        """What may be shown now that ``piece`` has arrived."""
        if self._open:
            return piece
        self._held += piece
        self._open = not _may_become_silent(self._held)
        return self.rest() if self._open else ""

    def rest(self) -> str:
        """What was held back and is no silent reply; call it at the end of the text."""
        held, self._held = self._held, ""
        return "" if is_silent(held) else held


def _may_become_silent(text: str) -> bool:
    *words, last = text.split() or [""]
    if text.lstrip().startswith("{"):
        return _ACTION.startswith("".join(text.split()))
    return all(word == SILENT_TOKEN for word in words) and SILENT_TOKEN.startswith(last)


def _without_reasoning(text: str) -> str:
    while match := _REASONING.match(text):
        text = text[match.end() :]
    return text


def _ends_with_token(text: str) -> bool:
    if not text.upper().endswith(SILENT_TOKEN):
        return False
    before = text[: -len(SILENT_TOKEN)][-1:]
    return not (before.isalnum() or before == "_")


def _is_action(text: str) -> bool:
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    action = value.get("action")
    return isinstance(action, str) and action.strip().upper() == SILENT_TOKEN
