"""Hostile texts: each step that reads a summary or a conversation takes time in proportion to the text (C41).

A pattern that is not linear takes minutes or days on one of these: the alarm ends it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hermitcrab.compaction import headings_in
from hermitcrab.compaction.prompts import untrusted
from hermitcrab.compaction.serialise import plain_text, quoted, serialise_message
from hermitcrab.compaction.structure import (
    HEADINGS,
    SummaryLimits,
    cut_answer,
    finish_summary,
    split_tail,
    with_headings,
)
from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.identifiers import extract_identifiers, missing_identifiers, redact
from hermitcrab.messages.tokens import TokenCounter

SIZE = 60_000
#: Seconds; each step takes far less than one, with 200 KB too.
PATIENCE_S = 10

UNITS = {
    "digits": "1",
    "letters": "a",
    "capitals": "A",
    "hex": "deadbeef",
    "open brackets": "[",
    "brackets": "[]",
    "parentheses": "https://x.org/((",
    "words": "a ",
    "path": "/a",
    "deep path": "/..",
    "slashes": "/",
    "windows path": "C:\\a\\",
    "open fences": "```\n",
    "tildes": "~~~ ",
    "urls": "http://a ",
    "schemes": "a://b:c",
    "user data": "://a:",
    "zero width spaces": "\u200b",
    "joined emoji": "\U0001f468\u200d",
    "combining marks": "\u0301",
    "flags": "\U0001f1e9",
    "dashes": "-",
    "dots": ".",
    "colons": "a:",
    "at signs": "a@",
    "ports": "a.b:80 ",
    "tickets": "AB-1",
    "half uuids": "00000000-0000-",
    "names": "a.b.",
    "files": "a.py/",
    "long names": "a" * 254 + ".",
    "han": "文",
    "han files": "文.md",
    "han dots": "文.",
    "han almost files": "文.pyx",
    "secrets": "secret_",
    "tokens": "token=",
    "keys": "sk-",
    "web tokens": "eyJ" + "a" * 20 + ".",
    "private keys": "-----BEGIN ",
    "bearers": "bearer ",
    "spaces": " ",
    "newlines": "\n",
    "returns": "\r",
    "separators": "\u2028[User",
    "headings": "## Decisions\n",
    "hashes": "#",
    "stars": "**\n",
    "tags": "<conversation>",
    "open tags": "< ",
    "speakers": "[User]: ",
    "backslashes": "\\",
    "zeros": "\x00",
}
TEXTS = {name: (unit * (SIZE // len(unit) + 1))[:SIZE] for name, unit in UNITS.items()} | {
    "one path": "/" + "a" * SIZE,
    "one url": "https://" + "a" * SIZE,
    "user data in one url": "https://" + "a" * SIZE + ":" + "b" * SIZE,
    "nested brackets": "[" * (SIZE // 2) + "]" * (SIZE // 2),
}


@contextmanager
def patience() -> Iterator[None]:
    """Fails what takes longer than :data:`PATIENCE_S`, in the midst of a pattern too."""

    def give_up(number: int, frame: Any) -> None:
        pytest.fail(f"it took more than {PATIENCE_S} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def finish(text: str) -> None:
    limits = SummaryLimits(tokens=1_000)
    made = finish_summary(
        with_headings(text),
        required=["/srv/app/main.py", "deadbeefcafe"],
        latest_ask=text,
        tail=text,
        limits=limits,
        counter=TokenCounter(),
        keep_credentials=False,
    )
    assert headings_in(made)[: len(HEADINGS)] == list(HEADINGS)
    assert missing_identifiers(made, ["/srv/app/main.py", "deadbeefcafe"]) == []
    assert len(made) <= limits.characters
    assert TokenCounter().text(made) <= limits.tokens


def look_for(text: str) -> None:
    """Many identifiers that nearly stand in the text."""
    near = [text[start : start + 300] for start in range(0, 30_000, 6_000)]
    missing_identifiers(text, [*near, *(f"{one}x" for one in near), "deadbeefdeadbeef"])


def shown(text: str) -> None:
    call: Any = {"id": "c", "name": "write", "arguments": {"path": text, "list": [text]}}
    for message in (user(text), tool_result("c", text, text), assistant(text, tool_calls=[call])):
        serialise_message(message)
        plain_text(message)


STEPS: dict[str, Callable[[str], Any]] = {
    "extract": extract_identifiers,
    "redact": redact,
    "look for": look_for,
    "finish": finish,
    "headings": headings_in,
    "tail": lambda text: split_tail(f"{HEADINGS[-1]}\n{text}"),
    "cut": lambda text: cut_answer(text, 1_000),
    "quote": quoted,
    "show": shown,
    "frame": lambda text: untrusted("focus", text, 800),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_linear_in_every_hostile_text(step: str) -> None:
    for text in TEXTS.values():
        with patience():
            STEPS[step](text)
