"""What of a message is kept beside its transcript: media, and the texts of very large tool results (design 5).

In their place stands a member ``blob``: the SHA-256 and the size of the bytes that were taken out, how they are
encoded, and the ``field`` that they belong to. A media block has no data then; a text keeps its head and its tail, with
a note of how much is left out, so that whoever knows nothing of blobs still reads a valid message. Nothing here touches
a file.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from attrs import define, field, frozen

from hermitcrab.errors import TranscriptError
from hermitcrab.messages.media import (
    MEDIA_FIELDS,
    MEDIA_MEMBERS,
    MEDIA_TYPES,
    media_bytes,
    media_field,
    media_name,
    shown_size,
)
from hermitcrab.messages.text import is_block
from hermitcrab.messages.types import Message

#: A tool result with more text than this, in bytes of UTF-8, is kept beside the transcript.
LARGE_RESULT = 1_048_576
#: Media with less data than this, in characters, stay where they are: a reference would take as much.
SMALLEST_MEDIA = 256
#: How many characters of a large text stay in the transcript.
PREVIEW_HEAD, PREVIEW_TAIL = 6_000, 4_000
#: Texts that are not longer than this stay whole, also in a large result.
_LONG_TEXT = 2 * (PREVIEW_HEAD + PREVIEW_TAIL)

_SHA256 = re.compile(r"[0-9a-f]{64}")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "media": MEDIA_FIELDS,
    "text": ("text",),
    "message": ("content", "output"),
}
#: The field with the text of a message that stands outside of blocks, by role.
_RESULT_FIELDS = {"toolResult": "content", "bashExecution": "output"}

Kind = Literal["media", "text", "message"]
Holder = dict[str, Any]
#: Gets the bytes of a reference; raises TranscriptError if they are missing or not the right ones.
Load = Callable[["BlobReference"], bytes]


@frozen
class BlobReference:
    """The member ``blob`` of a stored message: which bytes belong into ``field``.

    ``encoding`` says how: ``base64`` bytes stand there as base64 text, ``utf-8`` bytes are the text itself.
    """

    sha256: str
    bytes: int
    encoding: Literal["base64", "utf-8"]
    field: str


def _nothing(text: str) -> None:
    return None


def _same(text: str) -> str:
    return text


def _never(reference: BlobReference) -> bool:
    return False


def externalise(
    message: Message,
    *,
    is_kept: Callable[[BlobReference], bool] = _never,
    clean: Callable[[str], str] = _same,
) -> tuple[Message, dict[str, bytes]]:
    """The message as the transcript holds it, and what is kept beside it by SHA-256.

    It is the same object if there is nothing to do. What looks like a reference already is marked as a literal, so
    that :func:`restore` gives back what was written.

    :param is_kept: tells whether a reference in the message is one of ours, to be left as it is.
    :param clean: what becomes of each text before it is taken out.
    """
    if not _may_change(message):
        return message, {}
    work = _Externaliser(is_kept, clean, _result_field(message) if _is_large(message) else None)
    stored: Any = work.holder(
        _with_parts(message, lambda part: _mapped(part, work.holder)), "message"
    )
    result: Message = stored
    return result, work.blobs


def restore(
    message: Message,
    load: Load,
    *,
    texts: bool = True,
    report: Callable[[str], None] = _nothing,
) -> Message:
    """The message as it was before :func:`externalise`; the same object if nothing of it is kept elsewhere.

    What cannot be loaded is reported, and a sentence that says so takes its place.

    :param texts: whether large texts are wanted too; media always are.
    """

    def change(holder: Holder, kind: Kind) -> Holder:
        return _restored(holder, kind, load, texts=texts)

    def part_of(part: Any) -> Any:
        try:
            return _mapped(part, change)
        except TranscriptError as error:
            report(str(error))
            if part["type"] in MEDIA_TYPES:
                return _unreadable_media(part, error)
            return _unreadable_text(part, "text", error)

    whole: Any = _with_parts(message, part_of)
    try:
        whole = change(whole, "message")
    except TranscriptError as error:
        report(str(error))
        whole = _unreadable_text(whole, "message", error)
    result: Message = whole
    return result


def references_in(message: Message) -> Iterator[BlobReference]:
    """What of a stored message is kept beside its transcript."""
    found: list[BlobReference] = []

    def look(holder: Holder, kind: Kind) -> Holder:
        reference = _reference(holder, kind)
        if reference is not None:
            found.append(reference)
        return holder

    _with_parts(message, lambda part: _mapped(part, look))
    fields: Any = message
    look(fields, "message")
    return iter(found)


def has_references(message: Message) -> bool:
    """Whether :func:`restore` may have something to do; costs next to nothing where it has not."""
    content: Any = message.get("content")
    parts = content if isinstance(content, list) else ()
    return "blob" in message or any(is_block(part) and _names_blob(part) for part in parts)


def _names_blob(part: Mapping[str, Any]) -> bool:
    if "blob" in part or part["type"] not in MEDIA_TYPES:
        return "blob" in part
    members = (part.get(name) for name in MEDIA_MEMBERS)
    return any(isinstance(member, dict) and "blob" in member for member in members)


# -- going through a message -------------------------------------------------------------------


def _with_parts(message: Message, change: Callable[[Any], Any]) -> Any:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    parts = [change(part) for part in content]
    if all(new is old for new, old in zip(parts, content, strict=True)):
        return message
    return {**message, "content": parts}


def _mapped(part: Any, change: Callable[[Holder, Kind], Holder]) -> Any:
    """A part of the content with all changed that may hold data: itself, and the members of media."""
    if not is_block(part):
        return part
    if part["type"] == "text":
        return change(part, "text")
    if part["type"] not in MEDIA_TYPES:
        return part
    changes: dict[str, Any] = {}
    for name in MEDIA_MEMBERS:
        member = part.get(name)
        if isinstance(member, dict) and (changed := change(member, "media")) is not member:
            changes[name] = changed
    return change({**part, **changes} if changes else part, "media")


def _reference(holder: Mapping[str, Any], kind: Kind) -> BlobReference | None:
    blob = holder.get("blob")
    if not isinstance(blob, dict):
        return None
    fields: Any = blob
    sha256, size = fields.get("sha256"), fields.get("bytes")
    is_right = (
        isinstance(sha256, str)
        and _SHA256.fullmatch(sha256) is not None
        and type(size) is int
        and size >= 0
        and fields.get("encoding") in ("base64", "utf-8")
        and fields.get("field") in _FIELDS[kind]
    )
    return BlobReference(sha256, size, fields["encoding"], fields["field"]) if is_right else None


def _is_literal(blob: object) -> bool:
    return isinstance(blob, dict) and blob.keys() == {"literal"}


# -- taking out --------------------------------------------------------------------------------


def _may_change(message: Message) -> bool:
    """A look at types and lengths alone, which costs next to nothing for an ordinary message."""
    fields: Any = message
    if "blob" in fields:
        return True
    content = fields.get("content")
    length = len(content) if isinstance(content, str) else 0
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict):
                continue
            kind = part.get("type")
            if "blob" in part or (isinstance(kind, str) and kind in MEDIA_TYPES):
                return True
            text = part.get("text")
            length += len(text) if isinstance(text, str) else 0
    output = fields.get("output")
    length += len(output) if isinstance(output, str) else 0
    return length > LARGE_RESULT // 4 and _result_field(message) is not None


def _result_field(message: Message) -> str | None:
    """Where the text of a tool result stands, and of nothing else."""
    role: Any = message.get("role")
    return _RESULT_FIELDS.get(role) if isinstance(role, str) else None


def _is_large(message: Message) -> bool:
    fields: Any = message
    value = fields.get(_result_field(message))
    texts = [value] if isinstance(value, str) else []
    if isinstance(value, list):
        texts = [part.get("text") for part in value if is_block(part) and part["type"] == "text"]
    return sum(_utf8_bytes(text) for text in texts if isinstance(text, str)) > LARGE_RESULT


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


@define
class _Externaliser:
    """Takes out of one message what is to be kept beside the transcript."""

    is_kept: Callable[[BlobReference], bool]
    clean: Callable[[str], str]
    result_field: str | None
    blobs: dict[str, bytes] = field(factory=dict)

    def holder(self, holder: Holder, kind: Kind) -> Holder:
        if "blob" in holder:
            return self._with_literal(holder, kind)
        name = media_field(holder) if kind == "media" else self._text_field(kind)
        value = None if name is None else holder.get(name)
        if name is None or not isinstance(value, str):
            return holder
        if len(value) < (SMALLEST_MEDIA if kind == "media" else _LONG_TEXT):
            return holder
        value = self.clean(value)
        blob = self._keep(value, name)
        if kind == "media":
            return {
                "blob" if key == name else key: blob if key == name else each
                for key, each in holder.items()
            }
        return {**holder, name: _preview(value), "blob": blob}

    def _text_field(self, kind: Kind) -> str | None:
        return "text" if self.result_field and kind == "text" else self.result_field

    def _with_literal(self, holder: Holder, kind: Kind) -> Holder:
        """A holder whose own member ``blob`` cannot be mistaken for one of ours."""
        reference = _reference(holder, kind)
        if reference is None and not _is_literal(holder["blob"]):
            return holder
        if reference is not None and self.is_kept(reference):
            return holder
        return {**holder, "blob": {"literal": holder["blob"]}}

    def _keep(self, value: str, name: str) -> dict[str, Any]:
        raw = _decoded(value)
        content = value.encode("utf-8", "surrogatepass") if raw is None else raw
        sha256 = hashlib.sha256(content).hexdigest()
        self.blobs[sha256] = content
        encoding = "utf-8" if raw is None else "base64"
        return {"sha256": sha256, "bytes": len(content), "encoding": encoding, "field": name}


def _decoded(value: str) -> bytes | None:
    """The bytes that a text is the one base64 spelling of; ``None`` if it is not."""
    try:
        raw = base64.b64decode(value, validate=True)
    except ValueError:
        return None
    return raw if base64.b64encode(raw).decode("ascii") == value else None


def _preview(text: str) -> str:
    left_out = len(text) - PREVIEW_HEAD - PREVIEW_TAIL
    note = (
        f"[… {left_out:,} characters are left out here; the whole text of {len(text):,} characters is kept beside"
        " the transcript …]"
    )
    return f"{text[:PREVIEW_HEAD]}\n{note}\n{text[-PREVIEW_TAIL:]}"


# -- putting back ------------------------------------------------------------------------------


def _restored(holder: Holder, kind: Kind, load: Load, *, texts: bool) -> Holder:
    if "blob" not in holder:
        return holder
    if _is_literal(holder["blob"]):
        return {**holder, "blob": holder["blob"]["literal"]}
    reference = _reference(holder, kind)
    if reference is None or (kind != "media" and not texts):
        return holder
    value, name = _encoded(load(reference), reference), reference.field
    if name in holder:
        return {
            key: value if key == name else each for key, each in holder.items() if key != "blob"
        }
    return {
        name if key == "blob" else key: value if key == "blob" else each
        for key, each in holder.items()
    }


def _encoded(content: bytes, reference: BlobReference) -> str:
    if reference.encoding == "base64":
        return base64.b64encode(content).decode("ascii")
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise TranscriptError(f"blob {reference.sha256} is no text: {error}") from error


def _unreadable_media(part: Holder, error: TranscriptError) -> Holder:
    """The sentence in the place of media that cannot be put back."""
    size = media_bytes(part) or 0
    note = f"[{media_name(part)}, {shown_size(size)}: it stood here and cannot be read: {error.message}]"
    return {"type": "text", "text": note}


def _unreadable_text(holder: Holder, kind: Kind, error: TranscriptError) -> Holder:
    """A text that stays without its middle."""
    reference = _reference(holder, kind)
    name = "text" if reference is None else reference.field
    note = f"[What is left out above cannot be read: {error.message}]"
    rest = {key: value for key, value in holder.items() if key != "blob"}
    return {**rest, name: f"{holder.get(name, '')}\n{note}"}
