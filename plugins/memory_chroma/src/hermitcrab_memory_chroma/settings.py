"""What may stand under ``plugins.entries.memory-chroma.config``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import Attribute, Factory, field, frozen

from hermitcrab.memory.longterm import LongTermSettings

if TYPE_CHECKING:
    from hermitcrab.memory import MemoryContext

DEFAULT_HOST = "localhost"
DEFAULT_PORT = 8000
DEFAULT_TENANT = "default_tenant"
DEFAULT_DATABASE = "default_database"

# Chroma allows 3 to 512 characters; ours get an ending.
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,99}")
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+")


def _key(attribute: Attribute[Any]) -> str:
    """The key as it stands in YAML."""
    first, *rest = attribute.name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _only_in(mode: str) -> Any:
    """A key that means something in one mode only: in the other it is a mistake, not a wish to be ignored."""

    def check(settings: Any, attribute: Attribute[Any], value: Any) -> None:
        if settings.mode != mode and value not in (None, {}, False):
            raise ValueError(
                f"'{_key(attribute)}' belongs to mode: {mode}, but mode is {settings.mode}"
            )

    return check


def _matches(pattern: re.Pattern[str], form: str) -> Any:
    def check(settings: Any, attribute: Attribute[Any], value: Any) -> None:
        if value is not None and not pattern.fullmatch(value):
            raise ValueError(f"'{_key(attribute)}' must be {form}")

    return check


def _within(least: float, most: float) -> Any:
    def check(settings: Any, attribute: Attribute[Any], value: Any) -> None:
        if value is not None and not least <= value <= most:
            raise ValueError(f"'{_key(attribute)}' must be {least:g} to {most:g}")

    return check


def _is_plain_headers(settings: Any, attribute: Attribute[Any], value: Mapping[str, str]) -> None:
    for name, text in value.items():
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise ValueError(f"'{_key(attribute)}' has a name that no header can have")
        if any(ord(character) < 32 or ord(character) > 126 for character in text):
            raise ValueError(f"the value of the header '{name}' has characters that cannot be sent")


@frozen(kw_only=True)
class ChromaConfig(LongTermSettings):
    """``embedded`` is a folder of this machine for one process; ``server`` is a Chroma server that many share.

    ``path`` belongs to the first, ``host``, ``port``, ``ssl``, ``headers``, ``tenant`` and ``database`` to the second.
    ``share_files`` lets a search find passages of this agent's files that other hosts have indexed; it needs a server.
    """

    mode: Literal["embedded", "server"] = "embedded"
    path: str | None = field(default=None, validator=_only_in("embedded"))
    host: str | None = field(
        default=None,
        validator=[_only_in("server"), _matches(_HOST, "a host name or address without http://")],
    )
    port: int | None = field(default=None, validator=[_only_in("server"), _within(1, 65535)])
    ssl: bool = field(default=False, validator=_only_in("server"))
    headers: Mapping[str, str] = field(
        default=Factory(dict), repr=False, validator=[_only_in("server"), _is_plain_headers]
    )
    tenant: str | None = field(default=None, validator=_only_in("server"))
    database: str | None = field(default=None, validator=_only_in("server"))
    collection_prefix: str = field(
        default="hermitcrab",
        validator=_matches(_PREFIX, "2 to 100 letters, digits, dots, dashes and underscores"),
    )
    connect_timeout_seconds: float = field(default=3.0, validator=_within(0.1, 60))
    timeout_seconds: float = field(default=20.0, validator=_within(0.5, 600))
    share_files: bool = field(default=False, validator=_only_in("server"))

    def folder(self, home: Path) -> Path:
        """Where an embedded Chroma keeps its data."""
        if self.path is None:
            return home / "memory" / "chroma"
        return (home / Path(self.path).expanduser()).absolute()

    @property
    def address(self) -> str:
        """The server's address, without anything secret."""
        scheme = "https" if self.ssl else "http"
        return f"{scheme}://{self.host or DEFAULT_HOST}:{self.port or DEFAULT_PORT}"


def config_of(context: MemoryContext) -> ChromaConfig:
    """The plugin's settings; without any, the defaults."""
    config = context.plugin_config
    return config if isinstance(config, ChromaConfig) else ChromaConfig()
