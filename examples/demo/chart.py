"""The window over time, as one bar for a few turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from hermitcrab.memory.flush import FlushOutcome

from .story import TurnRecord

TURNS_PER_BAR = 3
FLUSH_MARK = "✎"
COMPACTION_MARK = "⇣"
_USED = "█"
_LEFT = "░"


@frozen(kw_only=True)
class Bar:
    """A few turns of the conversation; ``end_tokens`` is the size at their end, ``peak_tokens`` the largest in them."""

    first: int
    last: int
    end_tokens: int
    peak_tokens: int
    marks: str

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


def bars(
    turns: Sequence[TurnRecord], fixed_tokens: int, turns_per_bar: int = TURNS_PER_BAR
) -> list[Bar]:
    """The bars of a conversation, in its order."""
    starts = range(0, len(turns), turns_per_bar)
    return [_bar(turns[start : start + turns_per_bar], fixed_tokens) for start in starts]


def _bar(turns: Sequence[TurnRecord], fixed_tokens: int) -> Bar:
    return Bar(
        first=turns[0].turn,
        last=turns[-1].turn,
        end_tokens=turns[-1].tokens,
        peak_tokens=max(_sizes(turns, fixed_tokens)),
        marks="".join(_mark(mark) for turn in turns for mark in turn.marks),
    )


def _sizes(turns: Iterable[TurnRecord], fixed_tokens: int) -> Iterable[int]:
    for turn in turns:
        yield turn.tokens
        for compaction in turn.compactions:
            yield compaction.tokens_before + fixed_tokens


def _mark(mark: object) -> str:
    return FLUSH_MARK if isinstance(mark, FlushOutcome) else COMPACTION_MARK


def draw(bar: Bar, window: int, cells: int) -> tuple[str, str, str]:
    """What the bar's end takes of the window, what had been there before, and the free rest: ``cells`` in all."""
    used = _cells(bar.end_tokens, window, cells)
    peak = max(used, _cells(bar.peak_tokens, window, cells))
    return _USED * used, _LEFT * (peak - used), " " * (cells - peak)


def _cells(tokens: int, window: int, cells: int) -> int:
    return min(cells, round(tokens * cells / window))


def axis(window: int, cells: int, parts: int = 4) -> str:
    """The scale under the bars: numbers that end where their share of the window ends."""
    line = "0"
    for part in range(1, parts + 1):
        label = f"{window * part // parts:,}"
        line += label.rjust(cells * part // parts - len(line))
    return line
