"""A transcript as text for an index: who said what, and on which line of the file it stands (memory 3.9)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from attrs import define, field, frozen

from hermitcrab.memory.longterm.sanitising import LONGEST_INPUT, sanitised, without_recalled
from hermitcrab.memory.silent import strip_silent
from hermitcrab.memory.startup import without_startup_notes
from hermitcrab.memory.transcripts.machinery import is_machinery
from hermitcrab.messages.identifiers import redact
from hermitcrab.messages.provenance import is_from_session
from hermitcrab.messages.text import text_of
from hermitcrab.messages.types import Message
from hermitcrab.sessions.format import decode_line, parse_time, reference

#: Stored with an index; another number means that transcripts must be rendered again.
RENDERING_VERSION = 1

#: The longest content of a line, in characters, without the label before it.
WIDTH = 800

_LABELS = {"user": "User", "assistant": "Assistant"}
# Numbers below are seconds, from here on milliseconds (memory 3.9).
_LEAST_MILLISECONDS = 1e11


@frozen
class Rendered:
    """A transcript as lines of text.

    For each line of ``text``, ``lines`` has the line of the JSONL file that it comes from, counted from 1, and
    ``moments`` when it was said, in milliseconds since the epoch, ``None`` where the file does not say.
    """

    text: str = ""
    lines: tuple[int, ...] = ()
    moments: tuple[int | None, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all that is here."""
        data = json.dumps([self.text, self.lines, self.moments])
        return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()


@define
class _Page:
    texts: list[str] = field(factory=list)
    lines: list[int] = field(factory=list)
    moments: list[int | None] = field(factory=list)


def render(lines: Iterable[bytes]) -> Rendered:
    """What users and assistants said in the ``lines`` of a transcript file, one or more lines of text for each message.

    Tool calls, their results, images, thoughts, what another session sent, and machinery are left out; envelopes of
    channels are taken off, credentials replaced. A message that was rewritten counts as it stands now. Lines that are
    no entry, such as one that is being written, count as lines and have no text.
    """
    entries = [(number, decoded) for number, line in enumerate(lines, 1) if (decoded := _of(line))]
    replaced = {reference(entry.get("rewriteOf")) for _, entry in entries} - {None}
    page = _Page()
    for number, entry in entries:
        if entry.get("id") in replaced:
            continue
        said = spoken(entry["message"])
        if said is None:
            continue
        moment = _moment(entry)
        for text in wrapped(*said):
            page.texts.append(text)
            page.lines.append(number)
            page.moments.append(moment)
    return Rendered("\n".join(page.texts), tuple(page.lines), tuple(page.moments))


def spoken(message: Message) -> tuple[str, str] | None:
    """The label of who says it, and what it says on one line; ``None`` where there is nothing to keep."""
    role = message.get("role")
    label = _LABELS.get(str(role))
    if label is None or is_from_session(message):
        return None
    text = text_of(message)
    if is_machinery(str(role), text):
        return None
    text = _without_envelopes(text) if role == "user" else strip_silent(without_recalled(text))
    text = " ".join(text.split())
    if not text or is_machinery(str(role), text):
        return None
    return label, redact(text)


def wrapped(label: str, content: str, width: int = WIDTH) -> Iterator[str]:
    """``content`` in lines of at most ``width`` characters behind the label, cut at spaces where there are any."""
    while len(content) > width:
        space = content.rfind(" ", 1, width + 1)
        cut = space if space > 0 else width
        yield f"{label}: {content[:cut]}"
        content = content[cut:].removeprefix(" ")
    yield f"{label}: {content}"


def _of(line: bytes) -> dict[str, Any] | None:
    """The entry of a message that a line holds."""
    if not line.strip():
        return None
    value = decode_line(line)
    if value is None or value["type"] != "message" or not isinstance(value.get("message"), dict):
        return None
    return value


def _without_envelopes(text: str) -> str:
    """Without what channels put around a text; newlines and fences tell where that ends (#63921).

    Envelopes stand before what was said; of a long text only the beginning is searched for them.
    """
    text = without_startup_notes(text)
    return sanitised(text[:LONGEST_INPUT]) + text[LONGEST_INPUT:]


def _moment(entry: Mapping[str, Any]) -> int | None:
    for value in (entry["message"].get("timestamp"), entry.get("timestamp")):
        if isinstance(value, int | float) and value < _LEAST_MILLISECONDS:
            value = value * 1000
        moment = parse_time(value)
        if moment is not None:
            return int(moment.timestamp() * 1000)
    return None
