"""A conversation as Markdown: texts as quotations, so that nothing in them can pass for the page itself. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterator

from hermitcrab.sessions.exporting.parts import Folded, Picture, Said, Section
from hermitcrab.sessions.exporting.text import fenced, one_line, plain, quoted

_ESCAPED = str.maketrans({character: f"\\{character}" for character in "\\`*_[]#|~"})


def opening(title: str, facts: list[tuple[str, str]]) -> Iterator[str]:
    """What stands above the first message."""
    yield f"# {_inline(title)}\n\n"
    for name, value in facts:
        yield f"- {_inline(name)}: {_inline(value)}\n"


def remark(text: str) -> str:
    """A sentence of ours between the messages."""
    return f"\n*{_inline(text)}*\n"


def branch_title(text: str) -> str:
    """The title of a branch that was left."""
    return f"\n---\n\n# {_inline(text)}\n"


def section(shown: Section) -> Iterator[str]:
    """One entry of the conversation."""
    if shown.kind == "change":
        yield remark(shown.title)
        return
    time = f" · {shown.time}" if shown.time else ""
    label = f" · {one_line(shown.label)}" if shown.label else ""
    if shown.kind in {"compaction", "branch_summary"}:
        yield "\n---\n"
    yield f"\n## {_inline(shown.title + time + label)}\n"
    for part in shown.parts:
        if isinstance(part, Said):
            yield f"\n{quoted(part.text)}\n"
        elif isinstance(part, Picture):
            yield remark(f"[{part.name}]")
        else:
            yield from _folded(part)


def _folded(part: Folded) -> Iterator[str]:
    text = fenced(part.text) if part.is_code else quoted(part.text)
    title = html.escape(one_line(part.title))
    yield f"\n<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>\n"


def closing() -> str:
    """What stands below the last message."""
    return ""


def _inline(text: str) -> str:
    """A text on one line that is no markup."""
    return html.escape(plain(one_line(text)).translate(_ESCAPED), quote=False)
