"""Sizes and durations as people write them (sessions 2.7)."""

from __future__ import annotations

import math
import re
from typing import Literal, TypeGuard

from hermitcrab.errors import ConfigError

__all__ = ["DurationUnit", "parse_duration_ms", "parse_size"]

DurationUnit = Literal["ms", "s", "m", "h", "d"]

_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(?:([kmgt])?b?)", re.IGNORECASE | re.ASCII)
_SIZE_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}

_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|h|d)\s*", re.IGNORECASE | re.ASCII)
_DURATION_FACTORS: dict[str, int] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}

#: Texts longer than this are no size and no duration; the limit keeps hostile input cheap.
_LONGEST_TEXT = 64


def parse_size(value: object) -> int:
    """Bytes of ``2097152``, ``"2mb"``, ``"1.5 G"``; units are 1024-based, the default unit is the byte.

    Numbers are rounded down, texts to the nearest byte.

    :raises ConfigError: for anything else, a negative number included.
    """
    if _is_amount(value):
        return int(value)
    match = _SIZE.fullmatch(value.strip()) if _is_short_text(value) else None
    if match is None:
        raise ConfigError(
            "not a size in bytes", hint='Write a number of bytes, or a size such as "2mb"'
        )
    return round(float(match[1]) * _SIZE_FACTORS[(match[2] or "").lower()])


def parse_duration_ms(value: object, *, default_unit: DurationUnit = "ms") -> int:
    """Milliseconds of ``30``, ``"30s"``, ``"1h30m"``; a bare number counts in ``default_unit``.

    :raises ConfigError: for anything else; a composite needs a unit on each part.
    """
    if _is_amount(value):
        return round(value * _DURATION_FACTORS[default_unit])
    text = value.strip() if _is_short_text(value) else ""
    if _NUMBER.fullmatch(text):
        return round(float(text) * _DURATION_FACTORS[default_unit])
    parts = list(_DURATION_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise ConfigError("not a duration", hint='Write a duration such as "30s" or "1h30m"')
    return round(sum(float(part[1]) * _DURATION_FACTORS[part[2].lower()] for part in parts))


def _is_amount(value: object) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value >= 0 and (isinstance(value, int) or math.isfinite(value))


def _is_short_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT
