"""Single memories as Markdown: a list item each, which keeps its id, its time and the rest in a comment.

This is where memories go when the new backend keeps no single ones: every backend indexes the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from urllib.parse import quote

from hermitcrab.memory.longterm import Memory

#: Where the memories of a backend are written, relative to the workspace.
PATH = "memory/memories-of-{backend}.md"

_HEADING = "# Memories of {backend}\n"
_ID = re.compile(r"^- \[\w+\] .*<!-- ([0-9a-f-]{36}) [^<>]*-->$", re.MULTILINE)


def ids_in(text: str) -> frozenset[str]:
    """The ids of the memories that stand in a file."""
    return frozenset(_ID.findall(text))


def with_memories(text: str, memories: Iterable[Memory], backend: str) -> str:
    """The text of a file with ``memories`` at its end; an empty file gets a heading."""
    lines = "".join(map(_item, memories))
    if not lines:
        return text
    head = text or _HEADING.format(backend=backend) + "\n"
    return head + ("" if head.endswith("\n") else "\n") + lines


def _item(memory: Memory) -> str:
    """The first line ends with the comment, so that nothing in a text can be taken for one."""
    first, *more = memory.text.splitlines() or [""]
    rest = "".join(f"\n  {line}" for line in more)
    return f"- [{memory.category}] {first} <!-- {_facts(memory)} -->{rest}\n"


def _facts(memory: Memory) -> str:
    facts = [memory.id, _time(memory.created_at_ms), f"{memory.importance:g}"]
    facts += [f"scope={memory.scope}"] if memory.scope else []
    facts += [f"session={quote(memory.session_key, safe=':/@')}"] if memory.session_key else []
    return " ".join(facts)


def _time(milliseconds: int) -> str:
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):  # beyond the calendar
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds")
