"""``python -m bench.sessions``: what sessions cost, against their size and beside other stores."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from bench.harness import Report, table_of
from rich.console import Console

from .growth import appending, reading, updating
from .peers import beside_peers
from .scale import FULL, QUICK, Scale

MEASUREMENTS: dict[str, Callable[[Path, Scale], Awaitable[Report]]] = {
    "append": appending,
    "read": reading,
    "entries": updating,
    "peers": beside_peers,
}
_LARGE = {"append", "read"}


@click.command()
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), metavar="OUT")
@click.option("--quick", is_flag=True, help="Small inputs: shows that it works, not what it costs.")
@click.option("--only", type=click.Choice(list(MEASUREMENTS)), help="One measurement.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where the temporary files go; the disk under it is the one measured.",
)
def main(json_file: Path | None, quick: bool, only: str | None, folder: Path | None) -> None:
    """Measure sessions and print a table a measurement. OUT gets every single run as JSON.

    Needs about 1 GB of disk for a while and 3 GB of memory, and a few minutes.
    """
    logging.getLogger("hermitcrab").setLevel(logging.ERROR)
    scale = QUICK if quick else FULL
    reports = []
    console = Console()
    for name in [only] if only else MEASUREMENTS:
        with TemporaryDirectory(prefix="hermitcrab-bench-", dir=folder) as place:
            _check_space(Path(place), scale.large_free if name in _LARGE else scale.small_free)
            with Console(stderr=True).status(f"{name} ..."):
                report = asyncio.run(_measure(name, Path(place), scale))
        console.print(table_of(report))
        console.print()
        reports.append(report.record())
    if json_file is not None:
        json_file.write_text(json.dumps(reports, indent=2, ensure_ascii=False) + "\n")


async def _measure(name: str, place: Path, scale: Scale) -> Report:
    return await MEASUREMENTS[name](place, scale)


def _check_space(place: Path, needed: int) -> None:
    free = shutil.disk_usage(place).free
    if free < needed:
        raise click.ClickException(
            f"{place.parent} has {free / 1e9:.1f} GB free and {needed / 1e9:.1f} GB are needed; "
            "name another place with --folder, or use --quick"
        )


if __name__ == "__main__":
    main()
