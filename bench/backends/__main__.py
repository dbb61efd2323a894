"""``python -m bench.backends``: memory backends beside each other, with the same texts and the same vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.table import Table

from .measure import ALL, Measurement, Row

_UNITS = "p50 and p99 of a search in ms; disk and memory in MB"


def _sizes(context: click.Context, option: click.Parameter, text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise click.BadParameter("sizes are numbers with commas between them") from error
    if not sizes or min(sizes) < 1:
        raise click.BadParameter("sizes are numbers of entries, 1 or more")
    return sizes


def _backends(context: click.Context, option: click.Parameter, text: str) -> list[str]:
    backends = [part.strip() for part in text.split(",") if part.strip()]
    if not backends or set(backends) - set(ALL):
        raise click.BadParameter(f"backends are {', '.join(ALL)}")
    return backends


@click.command()
@click.option(
    "--sizes", callback=_sizes, default="1000,10000,100000", show_default=True, metavar="LIST"
)
@click.option(
    "--backends", callback=_backends, default=",".join(ALL), show_default=True, metavar="LIST"
)
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Conversations with questions, for the column of recall; see bench.retrieval.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), help="Only this many questions of each conversation."
)
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=1_800.0,
    show_default=True,
    help="Seconds that one process may take.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the temporary files go; the disk under it is the one measured.",
)
@click.option(
    "--mem0-python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PYTHON",
    help="The Python of an environment that has mem0; by default this one.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), metavar="OUT")
def main(
    sizes: list[int],
    backends: list[str],
    data: Path | None,
    limit: int | None,
    patience: float,
    folder: Path | None,
    mem0_python: Path | None,
    json_file: Path | None,
) -> None:
    """Fill memory backends with so many entries, ask questions of them, and print a row for each."""
    rows: list[Row] = []
    console = Console()
    with (
        TemporaryDirectory(prefix="hermitcrab-bench-", dir=folder) as place,
        Console(stderr=True).status("...") as status,
    ):
        measurement = Measurement(
            folder=Path(place),
            backends=backends,
            sizes=sizes,
            data=data,
            limit=limit,
            patience_s=patience,
            mem0_python=mem0_python,
            say=status.update,
        )
        for row in measurement.rows():
            rows.append(row)
            _write(json_file, rows)
    console.print(_table(rows))


def _write(json_file: Path | None, rows: Sequence[Row]) -> None:
    if json_file is not None:
        records = [row.record() for row in rows]
        json_file.write_text(json.dumps(records, indent=2, ensure_ascii=False) + "\n")


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="Memory backends", title_justify="left", box=None, padding=(0, 1, 0, 0))
    for heading in ("backend", "entries"):
        table.add_column(heading, no_wrap=True)
    for heading in ("bulk/s", "single/s", "p50", "p99", "found", "recall", "disk", "mem"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.backend, f"{row.size:,}", *_cells(row))
    table.caption = "\n".join(dict.fromkeys([_UNITS, *_reasons(rows)]))
    table.caption_justify = "left"
    return table


def _cells(row: Row) -> list[str]:
    if row.absent is not None:
        return ["absent"]
    return [
        _number(row.inserts_per_second, "{:,.0f}"),
        _number(row.single_inserts_per_second, "{:,.0f}"),
        _number(row.search_p50_ms, "{:,.1f}"),
        _number(row.search_p99_ms, "{:,.1f}"),
        _number(row.found, "{:.3f}"),
        _number(row.recall, "{:.3f}"),
        _number(row.disk_bytes, "{:,.0f}", 1e-6),
        _number(row.resident_bytes, "{:,.0f}", 1e-6),
    ]


def _reasons(rows: Sequence[Row]) -> list[str]:
    said = [f"{row.backend}, {row.size:,}: {row.absent}" for row in rows if row.absent]
    said += [f"{row.backend}: no recall: {row.recall_absent}" for row in rows if row.recall_absent]
    return said


def _number(value: float | None, form: str, factor: float = 1) -> str:
    return "-" if value is None else form.format(value * factor)


if __name__ == "__main__":
    main()
