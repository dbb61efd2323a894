"""Where the media of a message stand: images, sound and documents, in our shape and in those of providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: The types of blocks that carry media.
MEDIA_TYPES = frozenset(
    {
        "audio",
        "document",
        "file",
        "image",
        "image_url",
        "input_audio",
        "input_file",
        "input_image",
        "video",
    }
)
#: The members of such a block in which the data may stand one level deeper.
MEDIA_MEMBERS = ("source", "input_audio", "file", "image_url")
#: The fields that may hold the data; the last two do so as a data URL only.
MEDIA_FIELDS = ("data", "file_data", "url", "image_url")
_URL_FIELDS = frozenset({"url", "image_url"})
#: The names of blocks in sentences, where they are not those of their types.
_NAMES = {
    "image_url": "image",
    "input_audio": "audio",
    "input_file": "file",
    "input_image": "image",
}


def media_field(holder: Mapping[str, Any]) -> str | None:
    """Which field of a media block, or of a member of one, holds its data as text; ``None`` if none does."""
    for field in MEDIA_FIELDS:
        value = holder.get(field)
        if isinstance(value, str) and (field not in _URL_FIELDS or value.startswith("data:")):
            return field
    return None


def media_name(block: Mapping[str, Any]) -> str:
    """What to call a media block in a sentence: ``image``, ``audio``, ``document``."""
    kind = str(block["type"])
    return _NAMES.get(kind, kind)


def media_bytes(block: Mapping[str, Any]) -> int | None:
    """The bytes of the data of a media block, wherever they are kept; ``None`` if it holds none, as one with a link."""
    sizes = [size for holder in _holders(block) if (size := _size(holder)) is not None]
    return sum(sizes) if sizes else None


def _holders(block: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield block
    for name in MEDIA_MEMBERS:
        if isinstance(block.get(name), dict):
            yield block[name]


def _size(holder: Mapping[str, Any]) -> int | None:
    field = media_field(holder)
    if field is not None:
        encoded: str = holder[field]
        start = encoded.find(",") + 1 if field in _URL_FIELDS else 0
        return (len(encoded) - start) * 3 // 4 - encoded.endswith("=") - encoded.endswith("==")
    blob = holder.get("blob")
    size = blob.get("bytes") if isinstance(blob, dict) else None
    return size if type(size) is int and size >= 0 else None


def shown_size(size: int) -> str:
    """A number of bytes for people: ``812 bytes``, ``34 KB``, ``2.1 MB``."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{round(size / 1_000):,} KB" if size < 999_500 else f"{size / 1_000_000:,.1f} MB"
