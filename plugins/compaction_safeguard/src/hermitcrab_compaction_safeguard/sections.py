"""What follows the five sections of a summary: parts, each cut to its room in whole segments (context 5.9). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from attrs import frozen

from hermitcrab.messages import Message
from hermitcrab_compaction_safeguard.conversation import recent_turns, tool_failures

RECENT_TURNS = "## Recent turns preserved verbatim"
TOOL_FAILURES = "## Tool Failures"
EARLIER_LEFT_OUT = "[Earlier preserved messages truncated]"
#: Failures of tools that are listed.
MOST_FAILURES = 8
#: The longest list of files, and the longest of the other parts, in characters.
FILE_CHARACTERS = 900
PART_CHARACTERS = 8_000

Fits = Callable[[str], bool]


@frozen(kw_only=True)
class Part:
    """One part: ``segments`` between an opening and a closing line.

    Where it is too long, segments go from its end, or with ``newest_last`` from its beginning. ``left_out`` stands for
    them, with ``{}`` for their number. There are never more than ``most`` of them, or ``characters``.
    """

    segments: Sequence[str]
    opening: str = ""
    closing: str = ""
    left_out: str = ""
    newest_last: bool = False
    characters: int = PART_CHARACTERS
    most: int | None = None

    def render(self, kept: int) -> str:
        """The part with ``kept`` of its segments; empty without any."""
        if kept <= 0:
            return ""
        gone = len(self.segments) - kept
        marker = self.left_out.format(gone) if gone > 0 else ""
        shown = self.segments[-kept:] if self.newest_last else self.segments[:kept]
        body = (marker, *shown) if self.newest_last else (*shown, marker)
        return "\n".join(filter(None, (self.opening, *body, self.closing)))

    def whole(self) -> str | None:
        """The part as far as it may ever go; None if that is too long."""
        text = self.render(self._most())
        return text if len(text) <= self.characters else None

    def _most(self) -> int:
        count = len(self.segments)
        return count if self.most is None else min(count, self.most)

    def cut(self, fits: Fits) -> str:
        """As many segments as fit, none if not even one does."""
        low, high = 0, self._most()
        while low < high:
            middle = (low + high + 1) // 2
            text = self.render(middle)
            if len(text) <= self.characters and fits(text):
                low = middle
            else:
                high = middle - 1
        return self.render(low)


def own_part(tail: str) -> Part:
    """What the host has put behind the sections already, such as the beginning of a split turn."""
    return Part(segments=tail.splitlines(), left_out="[{} more lines]")


def recent_turns_part(messages: Sequence[Message], turns: int) -> Part:
    return Part(
        segments=recent_turns(messages, turns),
        opening=RECENT_TURNS,
        left_out=EARLIER_LEFT_OUT,
        newest_last=True,
    )


def tool_failures_part(messages: Iterable[Message]) -> Part:
    return Part(
        segments=tool_failures(messages),
        opening=TOOL_FAILURES,
        left_out="- ...and {} more",
        most=MOST_FAILURES,
    )


def files_part(tag: str, paths: Iterable[str]) -> Part:
    """A list of files between tags, such as ``read-files``."""
    return Part(
        segments=[" ".join(path.split()) for path in sorted(paths)],
        opening=f"<{tag}>",
        closing=f"</{tag}>",
        left_out="...and {} more",
        characters=FILE_CHARACTERS,
    )


def compose(
    parts: Sequence[Part], *, tokens: int, characters: int, count: Callable[[str], int]
) -> str:
    """The parts one after another, in at most ``tokens`` and ``characters``.

    Where they do not all fit, each takes at most half of what those before it have left, the last one all of it.
    """

    texts: list[str] = []

    def fits(share: int, *more: str) -> bool:
        together, used = _joined((*texts, *more)), _joined(texts)
        return (
            len(together) - len(used) <= (characters - len(used)) // share
            and count(together) - count(used) <= (tokens - count(used)) // share
        )

    whole = [part.whole() for part in parts]
    if None not in whole and fits(1, *(text or "" for text in whole)):
        return _joined(text or "" for text in whole)
    for number, part in enumerate(parts, 1):
        texts.append(part.cut(partial(fits, 1 if number == len(parts) else 2)))
    return _joined(texts)


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, texts))
