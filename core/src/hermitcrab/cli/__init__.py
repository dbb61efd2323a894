"""The command line: it parses, calls the host and prints. Importing it loads nothing."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command ``hermitcrab`` and exit: 0 is success, 1 an error, 2 wrong usage, 130 Ctrl-C."""
    from hermitcrab.cli.root import program

    program.main()
