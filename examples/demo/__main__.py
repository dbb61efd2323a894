"""``python -m examples.demo``: a long conversation in a small window, and what memory knows of it afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from hermitcrab.agent.replay import ReplayProgress
from hermitcrab.errors import HermitcrabError

from .page import print_page
from .story import Story, tell


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the report and the answers as JSON.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep sessions and memory in DIR, a new or empty folder.",
)
def main(as_json: bool, keep: Path | None) -> None:
    """Replay a sample conversation in a small window and ask memory what the window has lost.

    Needs no network and leaves nothing behind, unless told to keep it. Exits with 1 if an answer is missing.
    """
    _tolerate_narrow_encodings()
    try:
        with _home(keep) as home:
            story = _told(home)
    except HermitcrabError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(story.record(), ensure_ascii=False, indent=2))
    else:
        # Not even FORCE_COLOR puts escape codes into a pipe or a file.
        console = Console(force_terminal=sys.stdout.isatty(), highlight=False)
        print_page(console, story, next_steps=_next_steps(keep))
    sys.exit(0 if story.proved else 1)


def _tolerate_narrow_encodings() -> None:
    """Have an output that cannot show Chinese print question marks rather than fail."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


@contextmanager
def _home(keep: Path | None) -> Iterator[Path]:
    """The home of the demo: removed at the end, unless it is to be kept."""
    if keep is None:
        with TemporaryDirectory(prefix="hermitcrab-demo-") as folder:
            yield Path(folder)
        return
    if keep.is_dir() and any(keep.iterdir()):
        raise click.BadParameter(f"{keep} is not empty; name a new folder.", param_hint="--keep")
    yield keep


def _told(home: Path) -> Story:
    """The story, told behind a progress bar."""
    with Progress(
        TextColumn("Replaying"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("turns"),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task("replay", total=None)

        def advance(progress: ReplayProgress) -> None:
            bar.update(task, completed=progress.turn, total=progress.turns)

        return asyncio.run(tell(home, advance))


def _next_steps(keep: Path | None) -> str:
    command = _command()
    kept = "" if keep is None else f"Sessions and memory are in {keep} (HERMITCRAB_HOME={keep}).\n"
    return (
        f"{kept}Next: read README.md, talk to it with `{command} chat`,"
        f" or try a conversation of yours: `{command} replay FILE`."
    )


def _command() -> str:
    """How ``hermitcrab`` is called from here."""
    installed = Path(sys.executable).with_name("hermitcrab")
    if shutil.which("hermitcrab") or not installed.exists():
        return "hermitcrab"
    return os.path.relpath(installed)


if __name__ == "__main__":
    main()
