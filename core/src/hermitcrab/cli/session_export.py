"""``hermitcrab sessions export``: one conversation as JSON Lines, Markdown or a web page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermitcrab.cli.options import Settings, common_options, pass_settings

if TYPE_CHECKING:
    from hermitcrab.sessions.exporting.exporting import ExportFormat


@click.command("export")
@click.argument("key")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "markdown", "html"]),
    default="markdown",
    show_default=True,
    help="jsonl is the transcript itself, which `sessions import` takes; the others are for reading.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file instead of stdout; it must not exist yet.",
)
@click.option("--force", is_flag=True, help="Write over the file if it exists.")
@click.option("--session", "session_id", help="An earlier session of the key, by its session id.")
@click.option(
    "--all-branches", is_flag=True, help="Show left branches too; jsonl always has all of them."
)
@click.option(
    "--redact", is_flag=True, help="Hide what looks like a credential; not possible for jsonl."
)
@common_options
@pass_settings
def export_command(
    settings: Settings,
    key: str,
    kind: ExportFormat,
    output: Path | None,
    force: bool,
    session_id: str | None,
    all_branches: bool,
    redact: bool,
) -> None:
    """Write out the session KEY, from its beginning, compacted messages included."""
    from hermitcrab.cli.output import note, warn
    from hermitcrab.cli.progress import ProgressBar
    from hermitcrab.sessions.exporting.exporting import export_session

    if redact and kind == "jsonl":
        raise click.UsageError("jsonl is the transcript as it is: --redact is for the others.")
    with ProgressBar("writing") as bar:
        pieces = export_session(
            key,
            home=settings.home_folder(),
            config=settings.config(),
            format=kind,
            session_id=session_id,
            all_branches=all_branches,
            redact=redact,
            report=warn,
            on_progress=(lambda *progress: None) if output is None else bar.update,
        )
        if output is None:
            for piece in pieces:
                click.echo(piece, nl=False)
        else:
            write_output(pieces, output, force=force)
    if output is not None:
        note(f"written to {output}")


def write_output(pieces: Iterable[bytes], output: Path, *, force: bool) -> None:
    """Write a file for its owner alone; one that is written over stays whole until the new one is."""
    from hermitcrab.errors import HermitcrabError
    from hermitcrab.sessions.exporting.file import write_new_file

    try:
        write_new_file(output, pieces, may_replace=force)
    except FileExistsError:
        raise HermitcrabError(
            "this file exists", where=output, hint="Choose another one, or give --force."
        ) from None
    except OSError as error:
        raise HermitcrabError(
            f"the file cannot be written: {error.strerror or error}", where=output
        ) from error
