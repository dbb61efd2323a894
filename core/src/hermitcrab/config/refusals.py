"""Values that cattrs could not structure, as problems with a path."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)

from hermitcrab.config.keys import Kind
from hermitcrab.config.names import camel_case
from hermitcrab.config.problems import Path, Problem, is_secret_name, nearest_name, show_value

__all__ = ["KIND_WORDS", "RefusedError", "problems_in"]

#: What each kind of value is called in messages.
KIND_WORDS: dict[Kind, str] = {
    "section": "a mapping",
    "map": "a mapping",
    "list": "a list",
    "text": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "free": "any value",
    "choice": "one of",
}

_MOST_NAMES_LISTED = 12

#: Keys of other programs whose sense is met without them.
_NOT_HERE = {
    "truncateAfterCompaction": "Leave it out: a transcript is never rewritten, and what a compaction"
    " has summarised is not read again",
}


class RefusedError(ValueError):
    """A value that is not allowed where it stands; the path is added on the way up."""

    def __init__(self, value: object, expected: str, hint: str | None = None) -> None:
        super().__init__(expected)
        self.value = value
        self.expected = expected
        self.hint = hint

    def problem(self, path: Path) -> Problem:
        """The same as a problem at ``path``."""
        shown = show_value(self.value, path)
        if self.expected == KIND_WORDS["section"] and isinstance(self.value, str):
            shown = "text"  # what stands in the place of a whole provider may be its credential
        return Problem(path, f"{shown} is not allowed, expected {self.expected}", self.hint)


def problems_in(error: BaseValidationError, path: Path) -> Iterator[Problem]:
    """The single problems in what cattrs raised for the value at ``path``."""
    for cause in error.exceptions:
        place = _place(cause, path)
        if isinstance(cause, BaseValidationError):
            yield from problems_in(cause, place)
        elif isinstance(cause, ForbiddenExtraKeysError):
            for name in sorted(cause.extra_fields):
                yield _unknown_key(name, cause.cl, path)
        elif isinstance(cause, RefusedError):
            yield cause.problem(place)
        elif isinstance(cause, KeyError) and place != path:
            yield Problem(place, "missing, and it must be given")
        else:
            yield _foreign_problem(cause, place)


def _place(error: Exception, path: Path) -> Path:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return (*path, camel_case(note.name))
        if isinstance(note, IterableValidationNote):
            return (*path, note.index)
    return path


def _unknown_key(name: str, cls: type, path: Path) -> Problem:
    if name in _NOT_HERE:
        return Problem((*path, name), "unknown key", _NOT_HERE[name])
    valid = sorted(camel_case(attribute.name) for attribute in attrs.fields(cls))
    nearest = nearest_name(name, valid)
    if nearest is not None:
        spelling = ", keys are written in camelCase" if "_" in name else ""
        hint = f"Did you mean {nearest}?{spelling}"
    elif valid and len(valid) <= _MOST_NAMES_LISTED:
        hint = f"Known keys: {', '.join(valid)}"
    else:
        hint = None
    return Problem((*path, name), "unknown key", hint)


def _foreign_problem(error: Exception, path: Path) -> Problem:
    """What the validator of a plugin's own class says, unless it would repeat a secret."""
    if any(map(is_secret_name, path)):
        return Problem(path, "the value is not allowed")
    reason = error.args[0] if error.args else type(error).__name__
    return Problem(path, f"not allowed: {reason}")
