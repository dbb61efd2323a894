"""``python -m bench.compaction``: a score card of compaction, for any transcript, window and model."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from hermitcrab.config import Config, load_config

from .models import BUILT_IN
from .scale import Scaling, measure_scaling
from .score import Score, score


def _numbers(context: click.Context, option: click.Parameter, text: str) -> list[int]:
    if not text:
        return []
    try:
        found = [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not a list of numbers, such as 8000,32000"
        ) from error
    if not found or min(found) < 1:
        raise click.BadParameter("at least one number above 0 is needed")
    return found


def _names(context: click.Context, option: click.Parameter, text: str) -> list[str]:
    if text == "all":
        return list(BUILT_IN)
    return [part.strip() for part in text.split(",") if part.strip()]


@click.command()
@click.option(
    "--session",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The transcript to replay.",
)
@click.option("--windows", callback=_numbers, default="8000,32000,128000", show_default=True)
@click.option(
    "--models",
    callback=_names,
    default="offline",
    show_default=True,
    help=f"Of {', '.join(BUILT_IN)}, all of these, or provider/name as --config has it.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A configuration, such as one that names a server.",
)
@click.option("--until", type=click.IntRange(min=1), help="Only this many user turns.")
@click.option(
    "--sizes",
    callback=_numbers,
    default="",
    help="Also compact conversations of this many messages made of FILE's, such as 1000,10000.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), metavar="OUT")
def main(
    session: Path,
    windows: list[int],
    models: list[str],
    config_file: Path | None,
    until: int | None,
    sizes: list[int],
    json_file: Path | None,
) -> None:
    """Replay FILE through the real pipeline, once a window and model, and say what its compactions kept.

    OUT gets a JSON list with one object a window and model. Exits with 1 if
    anything was lost, broken or too large.
    """
    logging.getLogger("hermitcrab").setLevel(logging.CRITICAL)
    config = Config() if config_file is None else load_config(config_file)
    console = Console()
    scores: list[Score] = []
    with Console(stderr=True).status("replaying ...") as status:
        for window in windows:
            for model in models:
                status.update(f"{model} in {window:,} tokens ...")
                scores.append(
                    asyncio.run(
                        score(session, window=window, model=model, config=config, until=until)
                    )
                )
        scalings = [asyncio.run(measure_scaling(session, size)) for size in sizes]
    console.print(_score_table(scores))
    if scalings:
        console.print(_scaling_table(scalings))
    if json_file is not None:
        rows = [each.record() for each in scores]
        json_file.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    if not all(each.flawless for each in scores):
        raise SystemExit(1)


def _score_table(scores: list[Score]) -> Table:
    table = Table(title="Compaction score card", title_justify="left")
    for heading in ("window", "model"):
        table.add_column(heading)
    for heading in (
        "compactions",
        "ids kept",
        "ids findable",
        "orphans",
        "missing",
        "roles",
        "over",
        "tail",
        "lost",
        "again",
        "saved",
        "calls",
        "seconds",
    ):
        table.add_column(heading, justify="right")
    for each in scores:
        table.add_row(
            f"{each.window:,}",
            each.model,
            str(each.compactions),
            f"{each.identifier_survival:.0%} of {each.identifiers_required:,}",
            f"{each.identifiers_findable:.0%}",
            str(each.orphan_results),
            str(each.missing_results),
            str(each.illegal_roles),
            str(each.over_budget),
            str(each.tail_changed),
            str(each.messages_lost),
            "same" if each.idempotent else "CHANGED",
            f"{each.tokens_saved:,}",
            str(each.calls),
            f"{each.seconds:.2f}",
        )
    return table


def _scaling_table(scalings: list[Scaling]) -> Table:
    table = Table(title="One compaction of a long conversation", title_justify="left")
    for heading in (
        "messages",
        "tokens before",
        "tokens after",
        "seconds",
        "longest stall of the loop",
    ):
        table.add_column(heading, justify="right")
    for each in scalings:
        table.add_row(
            f"{each.messages:,}",
            f"{each.tokens_before:,}",
            f"{each.tokens_after:,}",
            f"{each.seconds:.2f}",
            f"{each.longest_stall_ms:.0f} ms",
        )
    return table


if __name__ == "__main__":
    main()
