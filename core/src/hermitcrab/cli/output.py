"""Printing: JSON for programs, tables and lines for people. Notes and warnings go to stderr."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

import click

#: Control characters, which a terminal could obey, except newline and tab.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: Tables that do not go to a terminal are this wide, in columns.
_FILE_WIDTH = 160


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    # A lone surrogate cannot be printed; the escape that takes its place is JSON again.
    click.echo(text.encode("utf-8", "backslashreplace").decode())


def printable(text: str) -> str:
    """``text`` without characters that a terminal obeys or cannot show."""
    return _CONTROL.sub("\ufffd", text).encode("utf-8", "replace").decode()


def one_line(text: str, limit: int) -> str:
    """The start of a text on one line, at most ``limit`` characters."""
    joined = " ".join(printable(text).split())
    return joined if len(joined) <= limit else f"{joined[: limit - 1]}…"


def say(text: str = "", *, dim: bool = False) -> None:
    """Print a line on stdout."""
    click.echo(click.style(printable(text), dim=True) if dim else printable(text))


def note(text: str) -> None:
    """Print a dim line on stderr."""
    click.echo(click.style(printable(text), dim=True), err=True)


def warn(text: str) -> None:
    """Print a warning on stderr, so that nobody overlooks it."""
    click.echo(f"{click.style('warning:', fg='yellow', bold=True)} {printable(text)}", err=True)


def complain(text: str) -> None:
    """Print an error on stderr."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {printable(text)}", err=True)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns; further lines of a value stand under its first."""
    pairs = list(fields)
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        first, *rest = printable(value).split("\n")
        click.echo(f"{click.style(name.ljust(width), bold=True)}  {first}")
        for line in rest:
            click.echo(f"{'':{width}}  {line}")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[str] = ()
) -> None:
    """Print a table; what is too wide is folded, never cut. The columns ``numbers`` stand to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=_FILE_WIDTH)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in numbers else "left")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)


def show_time(milliseconds: int | None) -> str:
    """A moment in local time, to the minute."""
    if not milliseconds:
        return "-"
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "-"
