"""Which files a conversation read and changed, as the calls of its tools say (context 4.11, C55)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from hermitcrab.messages.text import tool_calls_of
from hermitcrab.messages.types import Message

#: Paths kept in each list, the newest of them.
MOST_FILES = 200
_READING = frozenset({"read"})
_CHANGING = frozenset({"write", "edit"})
_PATH_ARGUMENTS = ("path", "file_path", "filePath")


@frozen
class FileLists:
    """Paths in the order of their first mention; a file that was changed is not listed as read."""

    read: Sequence[str]
    modified: Sequence[str]


def file_lists(messages: Iterable[Message], earlier: Mapping[str, Any] | None) -> FileLists:
    """The files of these messages and of the compaction before them.

    :param earlier: ``details`` of that compaction; foreign data, of which only lists of texts are used.
    """
    details = earlier or {}
    read = dict.fromkeys(_paths(details.get("readFiles")))
    modified = dict.fromkeys(_paths(details.get("modifiedFiles")))
    for message in messages:
        for call in tool_calls_of(message):
            path = _path_of(call["arguments"])
            if path and call["name"] in _CHANGING:
                modified[path] = None
            elif path and call["name"] in _READING:
                read[path] = None
    only_read = [path for path in read if path not in modified]
    return FileLists(read=only_read[-MOST_FILES:], modified=list(modified)[-MOST_FILES:])


def _paths(value: object) -> list[str]:
    return [path for path in value if isinstance(path, str)] if isinstance(value, list) else []


def _path_of(arguments: Mapping[str, Any]) -> str | None:
    values = (arguments.get(name) for name in _PATH_ARGUMENTS)
    return next((value for value in values if isinstance(value, str) and value), None)
