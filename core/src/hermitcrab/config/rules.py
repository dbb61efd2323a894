"""What a value must satisfy beyond its type, written into the annotation: ``Annotated[int, Range(minimum=1)]``.

The reader, the JSON Schema and the reference table in the documentation all read the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from hermitcrab.config.scalars import read_boolean
from hermitcrab.config.units import DurationUnit, parse_duration_ms, parse_size

__all__ = [
    "ByteSize",
    "Duration",
    "HttpUrl",
    "NoneMeans",
    "Pattern",
    "Range",
    "Rule",
    "Switch",
    "TimeZone",
]


@frozen
class Rule:
    """A rule that allows everything; the others override what they need."""

    @property
    def limits(self) -> str:
        """What is allowed, in words for messages and the documentation."""
        return ""

    @property
    def json_schema(self) -> Mapping[str, Any]:
        """The keywords of JSON Schema that say the same."""
        return {}

    def prepare(self, value: object) -> object:
        """The value to check, from a value as it stands in the file.

        :raises ValueError: if it cannot be read.
        """
        return value

    def accepts(self, value: Any) -> bool:
        """Whether a value of the right type is allowed."""
        return True

    def hint(self, value: Any) -> str | None:
        """What the writer of a refused value probably meant."""
        return None


@frozen
class Range(Rule):
    """A number between two bounds that are themselves allowed, or above one that is not."""

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None

    @property
    def limits(self) -> str:
        if self.above is not None:
            return f"more than {self.above}"
        if self.maximum is None:
            return f"at least {self.minimum}"
        return f"{self.minimum} to {self.maximum}"

    @property
    def json_schema(self) -> Mapping[str, Any]:
        keywords = {
            "minimum": self.minimum,
            "maximum": self.maximum,
            "exclusiveMinimum": self.above,
        }
        return {name: bound for name, bound in keywords.items() if bound is not None}

    def accepts(self, value: Any) -> bool:
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.above is None or value > self.above)
        )


@frozen
class Pattern(Rule):
    """Text that ``expression`` matches as a whole; ``form`` says the same in words."""

    expression: str
    form: str

    @property
    def limits(self) -> str:
        return self.form

    @property
    def json_schema(self) -> Mapping[str, Any]:
        return {"pattern": f"^{self.expression}$"}

    def accepts(self, value: Any) -> bool:
        return re.fullmatch(self.expression, value) is not None

    def hint(self, value: Any) -> str | None:
        simpler = value.strip().lower()
        return f"Did you mean {simpler}?" if simpler != value and self.accepts(simpler) else None


@frozen
class TimeZone(Rule):
    """The name of a time zone in the IANA database of this machine."""

    @property
    def limits(self) -> str:
        return "a time zone such as Europe/Berlin"

    def accepts(self, value: Any) -> bool:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            return False
        return True

    def hint(self, value: Any) -> str | None:
        from difflib import get_close_matches
        from zoneinfo import available_timezones

        names = available_timezones()
        if not names:
            return "This machine has no time zone database: pip install tzdata"
        nearest = get_close_matches(value, sorted(names), n=1)
        return f"Did you mean {nearest[0]}?" if nearest else None


@frozen
class ByteSize(Rule):
    """A number of bytes, or a text such as ``2mb`` (sessions 2.7)."""

    @property
    def limits(self) -> str:
        return "a number of bytes, or a size such as 2mb"

    @property
    def json_schema(self) -> Mapping[str, Any]:
        text = {"type": "string", "pattern": r"^\s*(\d+(\.\d*)?|\.\d+)\s*[kmgtKMGT]?[bB]?\s*$"}
        return {"anyOf": [{"type": "integer", "minimum": 0}, text]}

    def prepare(self, value: object) -> object:
        return parse_size(value)


@frozen
class Duration(Rule):
    """A time above zero as text, such as ``30d`` or ``1h30m`` (sessions 2.7).

    ``unit`` is that of a bare number. With ``may_be_off``, false stands for null.
    """

    unit: DurationUnit
    may_be_off: bool = False

    @property
    def limits(self) -> str:
        return f"a duration such as 30{self.unit} or 1h30m{', or false' if self.may_be_off else ''}"

    @property
    def json_schema(self) -> Mapping[str, Any]:
        part = r"(\d+(\.\d*)?|\.\d+)\s*([mM][sS]|[sSmMhHdD])\s*"
        text = {"type": "string", "pattern": rf"^\s*(({part})+|\d+(\.\d*)?|\.\d+)\s*$"}
        off = [{"const": False}] if self.may_be_off else []
        return {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, text, *off]}

    def prepare(self, value: object) -> object:
        if value is None or (self.may_be_off and read_boolean(value) is False):
            return None
        milliseconds = parse_duration_ms(value, default_unit=self.unit)
        text = str(value).strip()
        # A bare number gets its unit, so that the text says everything.
        is_bare = isinstance(value, int | float) or not text[-1].isalpha()
        return f"{milliseconds}ms" if is_bare and "e" in text else text + self.unit * is_bare

    def accepts(self, value: Any) -> bool:
        return value is None or parse_duration_ms(value, default_unit=self.unit) > 0


_HTTP_URL = r"https?://[^\s/@?#]+(/[^\s@]*)?"


@frozen
class HttpUrl(Rule):
    """An address of a server, without credentials in it: those belong into a key that is kept secret."""

    @property
    def limits(self) -> str:
        return "an address http://… or https://… without credentials"

    @property
    def json_schema(self) -> Mapping[str, Any]:
        return {"pattern": f"^{_HTTP_URL}$"}

    def accepts(self, value: Any) -> bool:
        return re.fullmatch(_HTTP_URL, value) is not None


@frozen
class Switch(Rule):
    """A section that ``true`` and ``false`` may stand for: they set its key ``enabled``."""

    @property
    def limits(self) -> str:
        return "true and false stand for {enabled: …}"

    def prepare(self, value: object) -> object:
        enabled = read_boolean(value)
        return value if enabled is None else {"enabled": enabled}


@frozen
class NoneMeans(Rule):
    """The word ``none``, in any case, stands for ``meaning``."""

    meaning: str

    @property
    def limits(self) -> str:
        return f"`none` means `{self.meaning}`"

    def prepare(self, value: object) -> object:
        is_none = isinstance(value, str) and value.strip().lower() == "none"
        return self.meaning if is_none else value
