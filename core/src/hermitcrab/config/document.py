"""A parsed document before it is checked against the schema: plain values only, variables filled in."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from attrs import define, field

from hermitcrab.config.problems import Path, Problem, show_value
from hermitcrab.config.scalars import FromEnvironment
from hermitcrab.errors import ConfigError

__all__ = ["prepare_document"]

_DEEPEST = 64
_MOST_VALUES = 100_000
_VARIABLE = re.compile(r"\$?\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)\})?")


def prepare_document(
    document: object, environ: Mapping[str, str], *, where: str
) -> tuple[Any, list[Problem]]:
    """A copy with ``${NAME}`` replaced and ``$${`` turned into ``${``, and what is wrong with it.

    What is wrong: keys that are not text, values that JSON does not know, variables that are not set.

    :raises ConfigError: if the document is too deep or too large (aliases multiply it) to look at.
    """
    preparation = _Preparation(environ, where)
    return preparation.copy(document, ()), preparation.problems


@define
class _Preparation:
    environ: Mapping[str, str]
    where: str
    problems: list[Problem] = field(factory=list)
    values: int = 0

    def copy(self, value: object, path: Path) -> Any:
        self._count(path)
        if isinstance(value, Mapping):
            return {
                key: self.copy(value[key], (*path, key)) for key in self._text_keys(value, path)
            }
        if isinstance(value, list | tuple):
            return [self.copy(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, str):
            return self._copy_text(value, path)
        if isinstance(value, float) and not math.isfinite(value):
            self._refuse(path, f"{value} is not allowed, expected a finite number")
        elif not isinstance(value, bool | int | float | None):
            self._refuse(path, f"{show_value(value, path)} is not allowed")
        return value

    def _count(self, path: Path) -> None:
        self.values += 1
        if len(path) > _DEEPEST or self.values > _MOST_VALUES:
            limit = "deeply nested" if len(path) > _DEEPEST else "large"
            raise ConfigError(f"too {limit} to be a configuration", where=self.where)

    def _text_keys(self, mapping: Mapping[Any, Any], path: Path) -> list[str]:
        for key in mapping:
            if not isinstance(key, str):
                shown = show_value(key, ())
                message = f"the key {shown} is not allowed, expected text"
                self._refuse((*path, shown), message, "Put the key into quotes")
        return [key for key in mapping if isinstance(key, str)]

    def _copy_text(self, text: str, path: Path) -> str:
        if "\0" in text or not _is_unicode(text):
            self._refuse(path, "contains characters that no text may contain")
            return ""
        filled = _VARIABLE.sub(lambda match: self._replacement(match, path), text)
        return str(text) if filled == text else FromEnvironment(filled, text)

    def _replacement(self, match: re.Match[str], path: Path) -> str:
        name = match["name"]
        if match[0].startswith("$$"):
            return match[0][1:]
        if name is None:
            hint = "Write ${ENV_NAME} to use a variable, or $${ for the characters themselves"
            self._refuse(path, "a variable of the environment begins here but has no name", hint)
            return match[0]
        if name not in self.environ:
            hint = f"Set {name}, or write $${{ for the characters themselves"
            self._refuse(path, f"the environment variable {name} is not set", hint)
        return self.environ.get(name, match[0])

    def _refuse(self, path: Path, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(path, message, hint))


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
