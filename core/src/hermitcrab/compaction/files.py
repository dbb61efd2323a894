"""Which files a conversation read and changed, as the calls of its tools say (context 4.11, C55)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from hermitcrab.messages.text import tool_calls_of
from hermitcrab.messages.types import Message

#: Paths kept in each list, the newest of them.
MOST_FILES = 200
_READING = frozenset({"read"})
_CHANGING = frozenset({"write", "edit"})
_PATCHING = "apply_patch"
_PATH_ARGUMENTS = ("path", "file_path", "filePath")
_PATCH_ARGUMENTS = ("input", "patch")
#: A line of a patch that names a file.
_PATCHED = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (\S[^\n]{0,1000})", re.MULTILINE
)


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
            name = _tool_of(call["name"])
            if name == _PATCHING:
                modified |= dict.fromkeys(_patched(call["arguments"]))
            path = _path_of(call["arguments"])
            if path and name in _CHANGING:
                modified[path] = None
            elif path and name in _READING:
                read[path] = None
    only_read = [path for path in read if path not in modified]
    return FileLists(read=only_read[-MOST_FILES:], modified=list(modified)[-MOST_FILES:])


def _paths(value: object) -> list[str]:
    return [path for path in value if isinstance(path, str)] if isinstance(value, list) else []


def _path_of(arguments: Mapping[str, Any]) -> str | None:
    values = (arguments.get(name) for name in _PATH_ARGUMENTS)
    return next((value for value in values if isinstance(value, str) and value), None)


def _tool_of(name: str) -> str:
    """The name of a tool without that of the server that offers it, such as ``mcp__files__``."""
    return name.rpartition("__")[2].lower()


def _patched(arguments: Mapping[str, Any]) -> list[str]:
    values = (arguments.get(name) for name in _PATCH_ARGUMENTS)
    patch = next((value for value in values if isinstance(value, str)), "")
    return [path.strip() for path in _PATCHED.findall(patch)]
