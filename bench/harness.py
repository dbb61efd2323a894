"""Measuring two things side by side: alternating runs, medians, ratios of neighbouring runs, and a table of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any

from attrs import frozen
from rich.table import Table

#: One run: does its work ``count`` times and returns nothing.
Run = Callable[[int], Awaitable[None]]


@frozen
class Side:
    """One of the two things: its name and how to run it."""

    name: str
    run: Run


@frozen
class Sample:
    """What the runs of one side took, in seconds per operation."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)


@frozen(kw_only=True)
class Row:
    """A comparison: ``second`` against ``first``, run in turns. ``count`` is how many operations one run has."""

    what: str
    first: Sample
    second: Sample
    count: int

    @property
    def ratios(self) -> tuple[float, ...]:
        """What ``second`` takes in units of ``first``, for each pair of neighbouring runs."""
        pairs = zip(self.first.seconds, self.second.seconds, strict=True)
        return tuple(second / first for first, second in pairs)

    def record(self) -> dict[str, Any]:
        """The row as JSON data; times in seconds per operation."""
        return {
            "what": self.what,
            "operationsPerRun": self.count,
            "runs": len(self.ratios),
            "first": {"name": self.first.name, "seconds": self.first.seconds},
            "second": {"name": self.second.name, "seconds": self.second.seconds},
            "ratio": median(self.ratios),
            "ratioMin": min(self.ratios),
            "ratioMax": max(self.ratios),
        }


@frozen
class Absent:
    """A comparison that was not made, and why."""

    what: str
    reason: str

    def record(self) -> dict[str, Any]:
        """The absence as JSON data."""
        return {"what": self.what, "absent": self.reason}


@frozen
class Report:
    """The rows of one measurement. ``explanation`` says what the ratio means."""

    name: str
    title: str
    explanation: str
    rows: Sequence[Row | Absent]

    def record(self) -> dict[str, Any]:
        """The report as JSON data."""
        rows = [row.record() for row in self.rows]
        return {"name": self.name, "explanation": self.explanation, "rows": rows}


async def compare(what: str, first: Side, second: Side, *, count: int, runs: int) -> Row:
    """Run both sides in turns, A B A B, ``runs`` times each after one unmeasured run of either."""
    await first.run(min(count, 20))
    await second.run(min(count, 20))
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for side, taken in zip((first, second), seconds, strict=True):
            taken.append(await _time(side.run, count))
    return Row(
        what=what,
        first=Sample(first.name, tuple(seconds[0])),
        second=Sample(second.name, tuple(seconds[1])),
        count=count,
    )


async def _time(run: Run, count: int) -> float:
    """Seconds per operation, without garbage collection, as :mod:`timeit` has it."""
    gc.collect(0)
    gc.disable()
    try:
        started = time.perf_counter()
        await run(count)
        return (time.perf_counter() - started) / count
    finally:
        gc.enable()


def table_of(report: Report) -> Table:
    """A report for people: medians with the smallest and the largest run, and the ratio of the pairs."""
    table = Table(title=report.title, caption=report.explanation, title_justify="left")
    table.caption_justify = "left"
    for heading in ("what", "first", "second"):
        table.add_column(heading, overflow="fold")
    table.add_column("ratio", justify="right", no_wrap=True)
    for row in report.rows:
        if isinstance(row, Absent):
            table.add_row(row.what, "absent", row.reason, "")
            continue
        ratios = row.ratios
        table.add_row(
            row.what,
            _cell(row.first),
            _cell(row.second),
            f"{median(ratios):.2f}\n[dim]{min(ratios):.2f} to {max(ratios):.2f}[/dim]",
            end_section=True,
        )
    return table


def _cell(sample: Sample) -> str:
    spread = f"{_duration(min(sample.seconds))} to {_duration(max(sample.seconds))}"
    rate = f"{1 / sample.median:,.0f}/s"
    return f"{sample.name}\n{_duration(sample.median)} · {rate}\n[dim]{spread}[/dim]"


def _duration(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
