"""The settings under ``plugins.entries.memory-lancedb.config``, and where the tables stand (memory 9.4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from hermitcrab.memory.longterm import LongTermSettings

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@|[?#].*")


def _no_embedding(instance: LanceDbConfig, attribute: Any, value: object) -> None:
    if value is not None:
        raise ValueError(
            "embeddings are set for all memories in one place: agents.defaults.memorySearch.provider, .model, "
            ".outputDimensionality and .remote"
        )


@frozen(kw_only=True)
class LanceDbConfig(LongTermSettings):
    """``db_path`` is a folder, relative ones below the home, or an address such as ``s3://bucket/path``.

    ``storage_options`` go to LanceDB as they are. ``embedding`` is refused with the keys that take its place.
    """

    db_path: str | None = None
    storage_options: Mapping[str, str] = field(factory=dict, repr=False)
    embedding: Any = field(default=None, validator=_no_embedding)


@frozen
class Location:
    """Where tables stand: a folder of this machine, or an address; ``options`` may hold credentials."""

    uri: str
    options: Mapping[str, str] = field(factory=dict, repr=False)

    @property
    def folder(self) -> Path | None:
        """The folder; ``None`` for an address."""
        return None if _ADDRESS.match(self.uri) else Path(self.uri)

    def __str__(self) -> str:
        return self.uri if self.folder is not None else _CREDENTIALS.sub("", self.uri)


def locations(config: LanceDbConfig, home: Path) -> tuple[Location, Location]:
    """Where the memories stand, and where the index of the files does.

    That index says what the files of this machine hold, so it never leaves the machine.
    """
    default = home / "memory" / "lancedb"
    text = (config.db_path or "").strip()
    if _ADDRESS.match(text):
        return Location(text, dict(config.storage_options)), Location(str(default))
    folder = home / Path(text).expanduser() if text else default
    place = Location(str(folder), dict(config.storage_options))
    return place, place
