"""``python -m bench.retrieval``: how much of the evidence a memory search returns, within how much text."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import click
from attrs import evolve
from rich.console import Console
from rich.table import Table

from hermitcrab.config import Config, load_config

from .collections import UnknownFormError, load_collections
from .measure import BUDGETS, MODES, measure


def _modes(context: click.Context, option: click.Parameter, text: str) -> list[str]:
    modes = [part.strip() for part in text.split(",") if part.strip()]
    unknown = sorted(set(modes) - set(MODES))
    if unknown or not modes:
        raise click.BadParameter(f"modes are {', '.join(MODES)}")
    return modes


@click.command()
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Conversations with questions, in LoCoMo's form or in zh-memory's.",
)
@click.option("--modes", callback=_modes, default=",".join(MODES), show_default=True)
@click.option(
    "--limit", type=click.IntRange(min=1), help="Only this many questions of each conversation."
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A configuration, such as one that names an embedding provider.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), metavar="OUT")
def main(
    data: Path,
    modes: list[str],
    limit: int | None,
    config_file: Path | None,
    json_file: Path | None,
) -> None:
    """Put each conversation of FILE into a memory of its own and ask its questions.

    A mode that needs vectors is left out where there is no embedding provider.
    """
    logging.getLogger("hermitcrab").setLevel(logging.CRITICAL)
    config = Config() if config_file is None else load_config(config_file)
    try:
        collections = load_collections(data)
    except UnknownFormError as error:
        raise click.ClickException(str(error)) from error
    if limit is not None:
        collections = [
            evolve(collection, questions=collection.questions[:limit]) for collection in collections
        ]
    with Console(stderr=True).status("asking ..."):
        record = asyncio.run(measure(collections, modes, config=config)).record()
    _show(record, modes)
    if json_file is not None:
        json_file.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def _show(record: dict[str, Any], modes: list[str]) -> None:
    console = Console()
    index = record["index"]
    console.print(
        f"{record['questions']:,} questions; {index['files']:,} files, {index['chunks']:,} chunks,"
        f" indexed in {index['seconds']:.2f} s"
    )
    table = Table(title="Evidence found", title_justify="left")
    table.add_column("mode")
    table.add_column("questions")
    columns = ["n", "default", "tokens", *(f"{budget:,}" for budget in BUDGETS), "p50 ms", "p99 ms"]
    for heading in columns:
        table.add_column(heading, justify="right")
    for mode in modes:
        if mode not in record:
            continue
        found = record[mode]
        times = (f"{found['queryP50Ms']:.1f}", f"{found['queryP99Ms']:.1f}")
        table.add_row(mode, "all", f"{record['questions']:,}", *_cells(found), *times)
        for category, some in found["byCategory"].items():
            table.add_row("", category, f"{some['questions']:,}", *_cells(some))
        table.add_section()
    console.print(table)
    for mode, reason in record["absent"].items():
        console.print(f"{mode}: absent, {reason}")


def _cells(found: dict[str, Any]) -> list[str]:
    return [
        f"{found['default']['recall']:.3f}",
        f"{found['default']['tokens']:.0f}",
        *(f"{found['budgets'][str(budget)]:.3f}" for budget in BUDGETS),
    ]


if __name__ == "__main__":
    main()
