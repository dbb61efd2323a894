"""What is wrong with a configuration, in words: every problem names its path, value and remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from hermitcrab.config.scalars import FromEnvironment
from hermitcrab.errors import ConfigError

__all__ = [
    "Path",
    "Problem",
    "config_error",
    "is_secret_name",
    "nearest_name",
    "show_path",
    "show_value",
]

#: The keys and list indices that lead to a value.
Path = tuple[str | int, ...]

_MOST_PROBLEMS_SHOWN = 20
_LONGEST_VALUE_SHOWN = 60
_HIDDEN = "<hidden>"
#: Shorter texts are no secrets worth the damage that striking them out does to a message.
_SHORTEST_SECRET = 6
_SECRET_NAME = re.compile(
    r"((api|access|private|signing)[_-]?key|secret|password|passwd|passphrase|authorization"
    r"|token|headers?|cookie)$",
    re.IGNORECASE,
)
_URL_WITH_CREDENTIALS = re.compile(r"//[^/\s]*@")


@frozen
class Problem:
    """One thing that is wrong at ``path``, and what would be right."""

    path: Path
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{show_path(self.path)}: {self.message}" if self.path else self.message


def config_error(
    problems: Sequence[Problem], *, where: str, document: object = None
) -> ConfigError:
    """All problems in one error, the first on its first line, later ones of the same path left out.

    :param document: the configuration; texts below its secret names are struck out of the message.
    """
    distinct = list({problem.path: problem for problem in reversed(problems)}.values())[::-1]
    first, *others = distinct
    if not others:
        hint = None if first.hint is None else _without_secrets(first.hint, document)
        return ConfigError(_without_secrets(str(first), document), where=where, hint=hint)
    shown = distinct[:_MOST_PROBLEMS_SHOWN]
    lines = [str(p) if p.hint is None else f"{p}. {p.hint}" for p in shown]
    lines[0] += f" ({len(distinct)} problems)"
    if len(distinct) > len(shown):
        lines.append(f"and {len(distinct) - len(shown)} more")
    return ConfigError(_without_secrets("\n  ".join(lines), document), where=where)


def is_secret_name(name: str | int) -> bool:
    """Whether what stands under ``name`` is never shown."""
    return isinstance(name, str) and _SECRET_NAME.search(name) is not None


def show_path(path: Path) -> str:
    """``agents.list[0].id``; keys that cannot be printed are quoted."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{_show_key(part)}"
    return text.removeprefix(".")


def show_value(value: object, path: Path) -> str:
    """A value for a message: short, printable, and no secret; containers are named, not shown."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if any(map(is_secret_name, path)):
        return _HIDDEN
    if isinstance(value, FromEnvironment):
        value = value.source
    if not isinstance(value, str | int | float | bool | None):
        return f"a value of type {type(value).__name__}"
    if isinstance(value, str) and _URL_WITH_CREDENTIALS.search(value):
        return _HIDDEN
    return _shorten(json.dumps(value, ensure_ascii=False)) if _is_small(value) else "a huge number"


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The valid name that ``name`` was probably meant to be."""
    from difflib import get_close_matches

    from hermitcrab.config.names import camel_case

    by_folded_name = {valid.lower(): valid for valid in names}
    folded = camel_case(name.replace("-", "_")).lower()
    if folded in by_folded_name:
        return by_folded_name[folded]
    matches = get_close_matches(folded, list(by_folded_name), n=1)
    return by_folded_name[matches[0]] if matches else None


def _show_key(key: str) -> str:
    return _shorten(key if key.isprintable() and key.strip() else json.dumps(key))


def _shorten(text: str) -> str:
    printable = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(printable) <= _LONGEST_VALUE_SHOWN:
        return printable
    return f"{printable[:_LONGEST_VALUE_SHOWN]}…"


def _is_small(value: str | int | float | bool | None) -> bool:
    # Python refuses to print integers of more than some thousand digits.
    return not isinstance(value, int) or value.bit_length() < 1000


def _without_secrets(text: str, document: object) -> str:
    for secret in sorted(set(_secrets_in(document)), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text


def _secrets_in(value: object, *, below_secret: bool = False) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _secrets_in(item, below_secret=below_secret or is_secret_name(name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets_in(item, below_secret=below_secret)
    elif below_secret and isinstance(value, str) and len(value) >= _SHORTEST_SECRET:
        yield value
