"""Texts of a conversation, made harmless for whoever reads them in a terminal, an editor or a browser. Pure."""

from __future__ import annotations

import re

from hermitcrab.messages.text import scrub_text

#: What a terminal could obey and no text needs, newline and tab excepted.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
#: What turns the order of the characters behind it, so that a text reads as something else than it is.
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_LINE_BREAK = re.compile(r"\r\n?|[\u0085\u2028\u2029]")
_FENCE_LINE = re.compile(r"(`{3,}|~{3,})([^`]*)")
_MAY_OPEN_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_BACKTICKS = re.compile(r"`+")


def plain(text: str) -> str:
    """``text`` with visible signs in the place of characters that act instead of being shown."""
    text = _LINE_BREAK.sub("\n", scrub_text(text))
    text = _TURNING.sub(lambda match: f"[U+{ord(match.group()):04X}]", text)
    return _CONTROL.sub("\ufffd", text)


def one_line(text: str) -> str:
    """The same on one line."""
    return " ".join(plain(text).split())


def fenced(text: str) -> str:
    """A text as a fenced block of Markdown; the fence is longer than any in it."""
    text = plain(text)
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def quoted(text: str) -> str:
    """A text that is Markdown itself, as a quotation: what it leaves open ends with it, and it holds no HTML."""
    return "\n".join(f"> {line}" if line else ">" for line in without_html(plain(text)).split("\n"))


def without_html(text: str) -> str:
    """Markdown in which no ``<`` begins a tag; in code, where none could, it stays as it is.

    Where it is not certain what is code, nothing is taken for code.
    """
    lines = text.split("\n")
    if any(_is_doubtful(line) for line in lines):
        return _MAY_OPEN_TAG.sub("&lt;", text)
    fence = ""
    within_paragraph = True
    for number, line in enumerate(lines):
        match = _FENCE_LINE.fullmatch(line)
        if match is not None and not fence:
            fence = match[1]
            within_paragraph = True
        elif fence:
            if match is not None and match[1].startswith(fence) and not match[2].strip():
                fence = ""
        elif not line.strip():
            within_paragraph = True
        else:
            lines[number], is_whole = _line_without_html(line, may_hold_code=within_paragraph)
            within_paragraph = within_paragraph and is_whole
    return "\n".join(lines)


def _is_doubtful(line: str) -> bool:
    """Whether a fence stands somewhere else than at the beginning of a line, as in a list."""
    return ("```" in line or "~~~" in line) and _FENCE_LINE.fullmatch(line) is None


def _line_without_html(line: str, *, may_hold_code: bool) -> tuple[str, bool]:
    """A line of a paragraph, and whether all code in it ends in it."""
    runs = list(_BACKTICKS.finditer(line))
    if not may_hold_code or "\\`" in line:
        return _MAY_OPEN_TAG.sub("&lt;", line), not runs
    pieces: list[str] = []
    position, number = 0, 0
    while number < len(runs):
        opening = runs[number]
        closing = next(
            (run for run in runs[number + 1 :] if len(run.group()) == len(opening.group())), None
        )
        if closing is None:
            return _MAY_OPEN_TAG.sub("&lt;", line), False
        pieces.append(_MAY_OPEN_TAG.sub("&lt;", line[position : opening.start()]))
        pieces.append(line[opening.start() : closing.end()])
        position = closing.end()
        number = runs.index(closing) + 1
    pieces.append(_MAY_OPEN_TAG.sub("&lt;", line[position:]))
    return "".join(pieces), True
