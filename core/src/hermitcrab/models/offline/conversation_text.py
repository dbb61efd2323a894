"""Reading a conversation that was written out as text for a summary (context 4.11, "Serialisation")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attrs import frozen

from hermitcrab.messages.text import text_of
from hermitcrab.messages.types import Message

_MARKER = re.compile(
    r"\[(User|Others|Assistant|Assistant tool calls)\]: ?|\[Tool (result|error)\] ([^:\n]{0,200}): ?"
)
# The serialiser puts a backslash before a line of content that looks like its own.
_QUOTED = re.compile(
    r"\\(?=\[(?:User|Others|Assistant|Tool|Chunk)\b|</?(?:conversation|previous-summary|summary)>)"
)
_KINDS = {
    "User": "user",
    "Others": "others",
    "Assistant": "assistant",
    "Assistant tool calls": "calls",
}
_TAGS = {"<previous-summary>": "previous", "<conversation>": "conversation"}
_CHUNK = re.compile(r"(?:\[User\]: ?)?\[Chunk \d")


@frozen
class Segment:
    """One message of the conversation; ``kind`` is user, others, assistant, calls, result or error."""

    kind: str
    text: str


@frozen
class ConversationText:
    """What a summary request holds: the summary so far, if any, and the conversation since."""

    previous_summary: str
    segments: Sequence[Segment]


def read_conversation(messages: Iterable[Message]) -> ConversationText:
    """The conversation in a request's messages; without the tags of the serialiser, the messages themselves."""
    listed = list(messages)
    blocks = tagged_blocks("\n".join(text_of(message) for message in listed))
    if not blocks["conversation"] and not blocks["previous"]:
        return ConversationText(
            "", [Segment(message["role"], text_of(message)) for message in listed]
        )
    segments = _segments(blocks["conversation"])
    return ConversationText("\n".join(blocks["previous"]), segments)


def tagged_blocks(text: str) -> dict[str, list[str]]:
    """The lines inside the tags, and those outside of any, as ``previous``, ``conversation`` and ``outside``."""
    blocks: dict[str, list[str]] = {"previous": [], "conversation": [], "outside": []}
    inside = "outside"
    closing = ""
    for line in text.split("\n"):
        tag = next((tag for tag in _TAGS if inside == "outside" and line.startswith(tag)), None)
        if tag:
            inside, closing = _TAGS[tag], f"</{tag[1:]}"
            line = line[len(tag) :]
            ends = line.rstrip().endswith(closing)
            line = line.rstrip().removesuffix(closing)
        else:
            ends = inside != "outside" and line.startswith(closing)
            line = "" if ends else line
        if line or not (tag or ends):
            blocks[inside].append(line)
        if ends:
            inside = "outside"
    return blocks


def _segments(lines: Iterable[str]) -> list[Segment]:
    segments: list[Segment] = []
    kind = ""
    body: list[str] = []
    for line in lines:
        marker = _MARKER.match(line)
        if marker is None:
            body.append(_unquoted(line))
            continue
        segments += _segment(kind, body)
        kind = _KINDS[marker[1]] if marker[1] else marker[2]
        body = [_unquoted(line[marker.end() :])]
    return segments + _segment(kind, body)


def _unquoted(line: str) -> str:
    return line[1:] if _QUOTED.match(line) else line


def _segment(kind: str, body: list[str]) -> list[Segment]:
    text = "\n".join(body).strip()
    return [Segment(kind, text)] if kind and text else []


def read_chunks(messages: Iterable[Message]) -> list[str]:
    """The partial summaries of a merge request, oldest first; an earlier summary goes before them.

    What stands before the first label of a message, and a message without one, is instruction and left out, unless
    there is no label at all.
    """
    previous: list[str] = []
    chunks: list[list[str]] = []
    unlabelled: list[str] = []
    for message in messages:
        blocks = tagged_blocks(text_of(message))
        previous += blocks["previous"]
        labelled = False
        for line in blocks["conversation"] or blocks["outside"]:
            if _CHUNK.match(line):
                labelled = True
                chunks.append([])
            else:
                (chunks[-1] if labelled else unlabelled).append(line)
    texts = [*([previous] if previous else []), *(chunks or [unlabelled])]
    return ["\n".join(lines) for lines in texts]
