"""Chosen sections of a workspace's ``AGENTS.md`` (context 5.9)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["RULES_FILE", "rules_sections", "sections_named"]

RULES_FILE = "AGENTS.md"
#: What is read of the file at most, in bytes.
_MOST_BYTES = 1 << 20
#: Sections by their present names, and the names that older workspaces have for them.
_PRESENT = frozenset({"session startup", "red lines"})
_OLDER = ("Every Session", "Safety")

_HEADING = re.compile(r"(?P<level>#{1,6})[ \t]+(?P<title>[^\r\n]*)")
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})")


def rules_sections(workspace: Path, names: Sequence[str]) -> list[str]:
    """The sections of ``AGENTS.md`` with these titles, those of older workspaces where the usual two are asked for.

    Blocks: call it in a worker thread.

    :raises OSError: if the file cannot be read, or lies outside of the workspace.
    """
    text = _read(workspace)
    found = sections_named(text, names)
    if not found and {name.strip().casefold() for name in names} == _PRESENT:
        return sections_named(text, _OLDER)
    return found


def _read(workspace: Path) -> str:
    """The file, if it lies in the workspace once links are followed."""
    root = workspace.resolve()
    file = (root / RULES_FILE).resolve()
    if not file.is_relative_to(root):
        raise PermissionError(f"{file} lies outside of the workspace")
    if not file.is_file():
        return ""
    with file.open("rb") as stream:
        return stream.read(_MOST_BYTES).decode("utf-8", errors="replace")


def sections_named(text: str, names: Sequence[str]) -> list[str]:
    """The sections of the second and third level with these titles, in the order of the names; case does not count.

    A section ends at the next heading of the same or a higher level. What is fenced as code has no headings. Titles
    are set in bold letters, so that they are no headings where the sections are put.
    """
    wanted: dict[str, list[str]] = {name.strip().casefold(): [] for name in names if name.strip()}
    current: list[str] | None = None
    depth = 0
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark["fence"].startswith(fence)):
            fence = "" if fence else mark["fence"]
        heading = None if fence else _HEADING.fullmatch(line)
        if heading is not None:
            level, title = len(heading["level"]), heading["title"].strip().strip("#").strip()
            if current is None or level <= depth:
                current = wanted.get(title.casefold()) if level in (2, 3) else None
                depth = level
            if current is not None:
                current.append(f"**{title}**")
        elif current is not None:
            current.append(line)
    return [section for lines in wanted.values() if (section := "\n".join(lines).strip())]
