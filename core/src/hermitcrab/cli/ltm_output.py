"""What ``hermitcrab ltm`` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.output import (
    note,
    print_fields,
    print_json,
    print_table,
    say,
    show_time,
    warn,
)
from hermitcrab.cli.wording import amount

if TYPE_CHECKING:
    from hermitcrab.memory.longterm import Memory, MigrationReport, RecallResult, StoreStats
    from hermitcrab.memory.longterm.transfer import TransferReport

_CELLS: Mapping[str, Callable[[Memory], str]] = {
    "id": lambda memory: memory.id,
    "text": lambda memory: memory.text,
    "category": lambda memory: memory.category,
    "importance": lambda memory: f"{memory.importance:g}",
    "createdAt": lambda memory: show_time(memory.created_at_ms),
    "scope": lambda memory: memory.scope,
    "sessionKey": lambda memory: memory.session_key or "-",
    "source": lambda memory: memory.source,
}


def checked_columns(columns: str) -> list[str]:
    """The columns that a text names, parted by commas.

    :raises click.BadParameter: one is unknown.
    """
    names = [name.strip() for name in columns.split(",") if name.strip()]
    unknown = [name for name in names if name not in _CELLS]
    if unknown or not names:
        raise click.BadParameter(
            f"there is no column {', '.join(unknown) or 'named'}; there are {', '.join(_CELLS)}",
            param_hint="--cols",
        )
    return names


def print_memories(memories: Sequence[Memory], columns: str, *, as_json: bool) -> None:
    """Memories as a table, or as JSON with the same columns."""
    from hermitcrab.memory.longterm.transfer import memory_data

    names = checked_columns(columns)
    if as_json:
        rows = [memory_data(memory) for memory in memories]
        print_json({"memories": [{name: row[name] for name in names} for row in rows]})
    elif memories:
        cells = [[_CELLS[name](memory) for name in names] for memory in memories]
        print_table(names, cells, numbers={"importance"})
    else:
        note("no memories")


def print_recalled(result: RecallResult, *, as_json: bool) -> None:
    """What a search found, best first."""
    from hermitcrab.memory.longterm.transfer import memory_data

    if as_json:
        found = [memory_data(each) | {"score": each.score} for each in result.memories]
        rest = {"mode": result.mode, "degraded": result.degraded, "reason": result.reason}
        print_json({"memories": found, **rest})
        return
    for memory in result.memories:
        score = "" if memory.score is None else f"  {memory.score:.2f}"
        say(f"{memory.id}  {memory.category}{score}", dim=True)
        say(memory.text)
    if not result.memories:
        note("nothing found")
    if result.degraded:
        warn(result.reason or f"the search was degraded to {result.mode}")


def print_stats(stats: StoreStats, *, as_json: bool) -> None:
    """What a store holds."""
    if as_json:
        print_json(_stats_data(stats))
        return
    categories = ", ".join(f"{name} {count:,}" for name, count in sorted(stats.by_category.items()))
    vectors = "-" if stats.model is None else stats.model
    if stats.dims is not None:
        vectors += f", {stats.dims:,} numbers"
    fields = [
        ("memories", f"{stats.count:,}"),
        ("categories", categories or "-"),
        ("location", stats.location or "-"),
        ("vectors", vectors),
    ]
    if stats.size_bytes is not None:
        fields.append(("size", f"{stats.size_bytes:,} bytes"))
    print_fields([*fields, *((name, _words(value)) for name, value in stats.details.items())])
    for sentence in stats.notes:
        warn(sentence)


def print_import(report: TransferReport, *, as_json: bool, most: int) -> None:
    """What an import did; of the lines that were left out, the first ``most``."""
    if as_json:
        print_json(
            {
                "added": report.added,
                "replaced": report.replaced,
                "unchanged": report.unchanged,
                "problems": list(report.problems),
            }
        )
        return
    say(f"{report.added:,} added, {report.replaced:,} replaced, {report.unchanged:,} unchanged")
    for problem in report.problems[:most]:
        warn(f"left out: {problem}")
    if len(report.problems) > most:
        warn(f"left out: {amount(len(report.problems) - most, 'more line')}")


def print_migration(report: MigrationReport, *, as_json: bool) -> None:
    """What a migration did."""
    if as_json:
        print_json(
            {
                "changed": report.changed,
                "memories": report.memories,
                "before": report.before,
                "after": report.after,
            }
        )
    elif report.changed:
        say(
            f"{amount(report.memories, 'memory', 'memories')} embedded again: {report.after or '-'}"
        )
    else:
        say("the vectors are those of the present model already")


def _stats_data(stats: StoreStats) -> dict[str, Any]:
    return {
        "count": stats.count,
        "byCategory": dict(stats.by_category),
        "location": stats.location,
        "model": stats.model,
        "dims": stats.dims,
        "sizeBytes": stats.size_bytes,
        "notes": list(stats.notes),
        "details": dict(stats.details),
    }


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(each)}" for name, each in value.items()) or "-"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
