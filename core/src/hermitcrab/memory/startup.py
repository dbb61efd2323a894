"""The daily notes that a new conversation begins with: which ones, and how the model is shown them (memory 1.4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import cast

from attrs import frozen

from hermitcrab.memory.prompts import MORE_NOTES, STARTUP_NOTICE
from hermitcrab.messages.types import Message

#: How many files with a slug are taken for one day.
SLUGGED_PER_DAY = 4
#: Stands where a note was cut.
CUT_MARK = "… [truncated]"

_OPENING, _CLOSING = "<daily-notes>", "</daily-notes>"
_OWN_TAG = re.compile(r"<(?=\s*/?\s*daily-notes)", re.IGNORECASE)
_NOT_IN_LABEL = re.compile(r"[^\w./ -]")
_LABEL_CHARACTERS = 120


@frozen
class StartupNote:
    """A daily note; ``path`` is relative to the workspace, ``text`` is all that the file says."""

    path: str
    text: str


@frozen
class ListedFile:
    """A regular file of the folder ``memory``."""

    name: str
    mtime_ns: int


def day_stamps(now: datetime, zone: tzinfo, days: int) -> tuple[str, ...]:
    """The dates of the last days, newest first, each in the user's zone and in UTC; a naive ``now`` is in UTC.

    Near midnight these are more than ``days``.
    """
    aware = now if now.tzinfo is not None else now.replace(tzinfo=UTC)
    today = (aware.astimezone(zone).date(), aware.astimezone(UTC).date())
    dates = (date - timedelta(days=offset) for offset in range(days) for date in today)
    return tuple(dict.fromkeys(date.isoformat() for date in dates))


def names_of_day(stamp: str, listed: Iterable[ListedFile]) -> list[str]:
    """The files of a day: the daily file, and then the newest with a slug; the later name first where times agree."""
    slugged = [
        file for file in listed if file.name.startswith(f"{stamp}-") and file.name.endswith(".md")
    ]
    slugged.sort(key=lambda file: (file.mtime_ns, file.name), reverse=True)
    return [f"{stamp}.md", *(file.name for file in slugged[:SLUGGED_PER_DAY])]


def compose_notes(
    notes: Sequence[StartupNote],
    *,
    file_characters: int,
    total_characters: int,
    is_partial: bool = False,
) -> str | None:
    """What the model is shown of the notes, before the user's first words; ``None`` where there is nothing to show.

    The blocks of the notes and the words about what is missing take at most ``total_characters``.

    :param is_partial: whether notes were left out already.
    """
    shown = [note for note in notes if note.text.strip()]
    blocks = [_block(note, file_characters) for note in shown]
    fitting = "\n\n".join(blocks)
    if is_partial or len(fitting) > total_characters:
        fitting = _fitting(shown, blocks, file_characters, total_characters)
    return (
        "\n\n".join((f"{_OPENING}\n{STARTUP_NOTICE}", f"{fitting}\n{_CLOSING}"))
        if fitting
        else None
    )


def without_startup_notes(text: str) -> str:
    """A user's message without the notes that the conversation began with: they are not the user's words."""
    if not text.startswith(_OPENING):
        return text
    _, _, rest = text.partition(_CLOSING)
    return rest.lstrip()


def without_notes(messages: Iterable[Message]) -> list[Message]:
    """The messages of a conversation without those notes, for what saves anew what was said; none is changed."""
    return [_without_notes(message) for message in messages]


def _without_notes(message: Message) -> Message:
    content = message.get("content")
    if message.get("role") != "user" or not content:
        return message
    if isinstance(content, str):
        return cast("Message", {**message, "content": without_startup_notes(content)})
    first = content[0]
    if first.get("type") != "text" or not str(first.get("text")).startswith(_OPENING):
        return message
    words = {**first, "text": without_startup_notes(str(first["text"]))}
    return cast("Message", {**message, "content": [words, *content[1:]]})


def _fitting(
    notes: Sequence[StartupNote], blocks: Sequence[str], file_characters: int, total: int
) -> str:
    """As many blocks as fit with the words that there are more; the last one may be cut shorter."""
    left = total - len(MORE_NOTES)
    kept: list[str] = []
    for note, block in zip(notes, blocks, strict=True):
        room = left - len("\n\n")
        if len(block) > room:
            shorter = _largest_block(note, min(file_characters, len(note.text.strip())), room)
            kept += [] if shorter is None else [shorter]
            break
        kept.append(block)
        left = room - len(block)
    return "\n\n".join([*kept, MORE_NOTES]) if kept else ""


def _largest_block(note: StartupNote, longest: int, room: int) -> str | None:
    """The block with the longest beginning of a note that takes at most ``room`` characters."""
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        if len(_block(note, middle)) <= room:
            low = middle
        else:
            high = middle - 1
    return _block(note, low) if low else None


def _block(note: StartupNote, characters: int) -> str:
    text = note.text.strip()
    cut = text if len(text) <= characters else f"{text[:characters].rstrip()}\n{CUT_MARK}"
    label = _NOT_IN_LABEL.sub("_", note.path)[:_LABEL_CHARACTERS]
    quoted = _OWN_TAG.sub("&lt;", cut.replace("```", r"\`\`\`"))
    return f"[Untrusted daily note: {label}]\nBEGIN_QUOTED_NOTE\n```text\n{quoted}\n```\nEND_QUOTED_NOTE"
