"""Changing a value in the text of config.yaml, so that comments, order and quotes stay.

Pure: text in, text out. ruamel.yaml is loaded when a text is changed.
"""

from __future__ import annotations

import io
import re
from collections.abc import MutableMapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from hermitcrab.errors import ConfigError

if TYPE_CHECKING:
    from ruamel.yaml import YAML

__all__ = ["REMOVED", "Change", "changed_text", "parse_path"]

_SEGMENT = re.compile(r'"(?P<quoted>[^"]+)"|\[(?P<index>\d+)\]|(?P<name>[^.\[\]"]+)')
_WIDEST = 10_000


class _Removed:
    """Stands for no value at all."""

    def __repr__(self) -> str:
        return "REMOVED"


#: The value of a key that is to go.
REMOVED = _Removed()


@frozen
class Change:
    """A new ``value`` for the key at ``path``; :data:`REMOVED` takes the key away."""

    path: str
    value: Any


def parse_path(path: str) -> tuple[str | int, ...]:
    """``agents.list[0].model`` as names and indices; a name with dots stands in double quotes.

    :raises ConfigError: if it is no path.
    """
    parts: list[str | int] = []
    at = 0
    while at < len(path):
        match = _SEGMENT.match(path, at)
        if match is None:
            break
        parts.append(int(match["index"]) if match["index"] else match["quoted"] or match["name"])
        at = match.end()
        if path[at : at + 1] == "." and at + 1 < len(path):
            at += 1
        elif path[at : at + 1] not in ("", "["):
            break
    if not parts or at < len(path) or isinstance(parts[0], int):
        hint = 'Write it as agents.defaults.model, agents.list[0].id or models.providers."a.b".api'
        raise ConfigError(f"{path!r} is no path of a key", where="config", hint=hint)
    return tuple(parts)


def changed_text(text: str, changes: Sequence[Change]) -> str:
    """``text`` with ``changes``; nothing else is touched, as far as YAML allows.

    A list may grow by one, at its end. A mapping that a removal leaves empty goes too.

    :raises ConfigError: if the text is not YAML, or a path leads through a value that has no keys.
    """
    from hermitcrab.config.yaml_text import parse_yaml

    parse_yaml(text, where="config.yaml")  # whose messages never show a value
    yaml = _round_trip(text)
    document = yaml.load(text)
    is_blank = document is None
    document = {} if is_blank else document
    for change in changes:
        if change.value is REMOVED:
            _remove(document, parse_path(change.path))
        else:
            _set(document, parse_path(change.path), change)
    if is_blank and not document:
        return text
    stream = io.StringIO()
    yaml.dump(document, stream)
    if not is_blank:
        return stream.getvalue()
    # What is all comments has no document to which they could belong.
    before = text.rstrip("\n")
    return (f"{before}\n\n" if before else "") + stream.getvalue()


def _round_trip(text: str) -> YAML:
    """A reader and writer that keeps comments, with the indentation of ``text``."""
    from ruamel.yaml import YAML
    from ruamel.yaml.util import load_yaml_guess_indent

    _, indent, offset = load_yaml_guess_indent(text)
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDEST
    mapping = 2 if indent is None or offset else indent
    yaml.indent(mapping=mapping, sequence=indent or 4, offset=2 if offset is None else offset)
    return yaml


def _set(document: Any, parts: tuple[str | int, ...], change: Change) -> None:
    node, rest = document, parts
    while True:
        key, after = _next_key(node, rest, change.path)
        if not after:
            _put(node, key, change.value)
            return
        if _child(node, key) is None:
            _put(node, key, [] if isinstance(after[0], int) else {})
        node, rest = node[key], after


def _remove(document: Any, parts: tuple[str | int, ...]) -> None:
    above: list[tuple[Any, str | int]] = []
    node, rest = document, parts
    while rest:
        if not isinstance(node, MutableMapping | MutableSequence):
            return
        key, rest = _next_key(node, rest, "")
        if isinstance(node, MutableMapping) and key not in node:
            return
        if isinstance(key, int) and key >= len(node):
            return
        above.append((node, key))
        node = _child(node, key)
    last, key = above.pop()
    del last[key]
    while above and isinstance(last, MutableMapping) and not last:
        last, key = above.pop()
        del last[key]


def _next_key(
    node: Any, rest: tuple[str | int, ...], path: str
) -> tuple[str | int, tuple[str | int, ...]]:
    """The key of ``node`` that ``rest`` begins with: the longest that is there, since names may contain dots."""
    if isinstance(node, MutableSequence) and isinstance(rest[0], int):
        return rest[0], rest[1:]
    if not isinstance(node, MutableMapping) or isinstance(rest[0], int):
        kind = "a list" if isinstance(node, MutableSequence) else "a single value"
        if isinstance(node, MutableMapping):
            kind = "a mapping"
        raise ConfigError(
            f'"{path}" leads through {kind}',
            where="config.yaml",
            hint="`hermitcrab config get` without a path shows what is there",
        )
    names = [part for part in rest if isinstance(part, str)]
    for count in range(len(names), 1, -1):
        joined = ".".join(names[:count])
        if tuple(names[:count]) == rest[:count] and joined in node:
            return joined, rest[count:]
    return rest[0], rest[1:]


def _child(node: Any, key: str | int) -> Any:
    if isinstance(node, MutableMapping):
        return node.get(key)
    return node[key] if int(key) < len(node) else None


def _put(node: Any, key: str | int, value: Any) -> None:
    if not isinstance(key, int) or key < len(node):
        node[key] = value
    elif key == len(node):
        node.append(value)
    else:
        raise ConfigError(
            f"the list has {len(node)} items, so the next index is {len(node)}, not {key}",
            where="config.yaml",
        )
