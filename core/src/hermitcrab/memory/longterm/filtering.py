"""One comparison over memories, and their order, as the command line writes them (memory 7.6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, cast, get_args

from attrs import frozen

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory.longterm.contract import Memory

Column = Literal["id", "text", "importance", "category", "createdAt"]
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "LIKE"]

COLUMNS: tuple[Column, ...] = get_args(Column)
NUMBERS: frozenset[str] = frozenset({"importance", "createdAt"})
LONGEST_FILTER = 200

_COMPARISON = re.compile(
    r"\s*(?P<column>\w+)\s*(?P<operator><=|>=|<>|!=|=|<|>|\blike\b)\s*(?P<value>.+?)\s*",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_EXAMPLE = (
    "Write one comparison, such as category = 'fact', importance >= 0.8 or text LIKE '%port%'"
)

_READ: Mapping[Column, Callable[[Memory], str | float]] = {
    "id": lambda memory: memory.id,
    "text": lambda memory: memory.text,
    "importance": lambda memory: memory.importance,
    "category": lambda memory: memory.category,
    "createdAt": lambda memory: memory.created_at_ms,
}


@frozen
class MemoryFilter:
    """One comparison; ``value`` is a number for ``importance`` and ``createdAt`` (ms), else a text.

    ``LIKE`` is case-sensitive: ``%`` stands for any text, ``_`` for one character.
    """

    column: Column
    operator: Operator
    value: str | float

    @classmethod
    def parse(cls, text: str) -> MemoryFilter:
        """The comparison that ``text`` writes; quotes within a text are doubled, ``<>`` means ``!=``.

        :raises MemoryBackendError: over 200 characters, or not exactly one comparison on a known column.
        """
        if len(text) > LONGEST_FILTER:
            raise _refusal(
                f"a filter has at most {LONGEST_FILTER} characters, this one {len(text)}"
            )
        found = _COMPARISON.fullmatch(text)
        if found is None:
            raise _refusal("this is not a filter")
        column = _column(found["column"])
        sign = found["operator"].upper()
        operator = cast(Operator, "!=" if sign == "<>" else sign)
        if operator == "LIKE" and column in NUMBERS:
            raise _refusal(f"LIKE compares texts, {column} is a number")
        return cls(column, operator, _value(column, found["value"]))

    def matches(self, memory: Memory) -> bool:
        """Whether the comparison holds for ``memory``."""
        left = _READ[self.column](memory)
        if self.operator == "LIKE":
            return _like(str(self.value)).fullmatch(str(left)) is not None
        # Both sides are of the column's type: parse saw to it.
        return _COMPARE[self.operator](left, self.value)


@frozen
class MemoryOrder:
    """By which column memories are ordered; ties go by id, ascending."""

    column: Column = "createdAt"
    descending: bool = True

    @classmethod
    def parse(cls, text: str) -> MemoryOrder:
        """The order that ``column``, ``column:asc`` or ``column:desc`` writes.

        :raises MemoryBackendError: an unknown column or direction.
        """
        name, _, direction = text.partition(":")
        if direction not in ("", "asc", "desc"):
            raise MemoryBackendError(
                f"{direction!r} is not a direction", hint="Write column:asc or column:desc"
            )
        return cls(_column(name), direction == "desc")

    def apply(self, memories: Iterable[Memory]) -> list[Memory]:
        """``memories`` in this order."""
        by_id = sorted(memories, key=lambda memory: memory.id)
        return sorted(by_id, key=_READ[self.column], reverse=self.descending)


_COMPARE: Mapping[str, Callable[[object, object], bool]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,  # type: ignore[operator]
    "<=": lambda left, right: left <= right,  # type: ignore[operator]
    ">": lambda left, right: left > right,  # type: ignore[operator]
    ">=": lambda left, right: left >= right,  # type: ignore[operator]
}


def _column(name: str) -> Column:
    known = {column.lower(): column for column in COLUMNS}
    column = known.get(name.strip().lower())
    if column is None:
        raise MemoryBackendError(
            f"memories have no column {name.strip()!r}", hint=f"There are {', '.join(COLUMNS)}"
        )
    return column


def _value(column: Column, text: str) -> str | float:
    if column in NUMBERS:
        if _NUMBER.fullmatch(text) is None:
            raise _refusal(f"{column} is compared with a number, not with {text}")
        return float(text) if "." in text else int(text)
    if _QUOTED.fullmatch(text) is None:
        raise _refusal(f"{column} is compared with one text in quotes, not with {text}")
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


def _like(pattern: str) -> re.Pattern[str]:
    parts = {"%": ".*", "_": "."}
    return re.compile("".join(parts.get(c, re.escape(c)) for c in pattern), re.DOTALL)


def _refusal(problem: str) -> MemoryBackendError:
    return MemoryBackendError(problem, hint=_EXAMPLE)
