"""Dates that a query names, in numbers, English and CJK writing: days, months and years."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import date

from attrs import frozen

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_SHORT = {name[:3]: number for number, name in enumerate(_MONTHS, start=1)} | {"sept": 9}
_NAMES = {name: number for number, name in enumerate(_MONTHS, start=1)} | _SHORT
_NAME = r"(?P<name>" + "|".join(sorted(_NAMES, key=len, reverse=True)) + r")\b\.?"
_DAY = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?(?![0-9])"
_YEAR = r"(?P<year>(?:19|20)[0-9]{2})(?![0-9])"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![0-9])(?P<year>(?:19|20)[0-9]{{2}})[-/.](?P<month>[01]?[0-9])(?:[-/.]{_DAY})?",
        r"(?:(?P<year>(?:19|20)[0-9]{2})\s*[年년]\s*)?(?<![0-9])(?P<month>[01]?[0-9])\s*[月월]"
        r"(?:\s*(?P<day>[0-3]?[0-9])\s*[日号號일])?",
        rf"(?<![0-9]){_DAY}\s+(?:of\s+)?{_NAME}(?:,?\s+{_YEAR})?",
        rf"\b{_NAME}\s+{_DAY}(?:,?\s+{_YEAR})?",
        rf"\b{_NAME},?\s+(?:of\s+)?{_YEAR}",
        r"\b(?:in|of|during|since|last|this|early|late|mid)[\s-]+" + _NAME,
    )
)


@frozen
class NamedDate:
    """A day or a month; what is ``None`` may be any."""

    month: int
    day: int | None = None
    year: int | None = None

    def covers(self, day: date) -> bool:
        """Whether ``day`` is that day, or lies in that month."""
        return (
            self.month == day.month
            and self.day in (None, day.day)
            and self.year in (None, day.year)
        )


def named_dates(query: str) -> Callable[[date], bool] | None:
    """Whether a day is one that ``query`` names; ``None`` if it names none.

    Of dates that lie in each other, such as a month and a day of it, the narrowest counts.
    """
    found = tuple(dict.fromkeys(_found(unicodedata.normalize("NFKC", query))))
    if not found:
        return None
    return lambda day: any(named.covers(day) for named in found)


def _found(query: str) -> Iterator[NamedDate]:
    rest = query
    for pattern in _DATES:
        for match in pattern.finditer(rest):
            named = _named(match.groupdict())
            if named is not None:
                yield named
        rest = pattern.sub(lambda match: " " * len(match[0]), rest)


def _named(parts: dict[str, str | None]) -> NamedDate | None:
    name, month, day, year = (parts.get(key) for key in ("name", "month", "day", "year"))
    number = _NAMES[name.lower()] if name else int(month or 0)
    if not 1 <= number <= 12 or (day is not None and not 1 <= int(day) <= 31):
        return None
    return NamedDate(number, None if day is None else int(day), None if year is None else int(year))
