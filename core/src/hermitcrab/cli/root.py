"""The command ``hermitcrab``: finds commands when they are invoked, and turns errors into one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click

from hermitcrab._version import __version__
from hermitcrab.cli.options import Settings, common_options
from hermitcrab.errors import HermitcrabError

#: The commands of the core, in the order of ``--help``, each with the module that has it under its name.
_COMMANDS = {
    "init": "hermitcrab.cli.init",
    "chat": "hermitcrab.cli.chat",
    "run": "hermitcrab.cli.run",
    "replay": "hermitcrab.cli.replay",
    "sessions": "hermitcrab.cli.sessions",
    "memory": "hermitcrab.cli.memory",
    "ltm": "hermitcrab.cli.ltm",
    "plugins": "hermitcrab.cli.plugins",
    "config": "hermitcrab.cli.config",
    "status": "hermitcrab.cli.status",
    "doctor": "hermitcrab.cli.doctor",
}

INTERRUPTED = 130


class Program(click.Group):
    """A group whose commands are imported when they are invoked (C100, C101)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands of the core; those of plugins are listed apart."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; of a plugin where the core has none."""
        module = _COMMANDS.get(cmd_name)
        if module is not None:
            command: click.Command = getattr(import_module(module), f"{cmd_name}_command")
            return command
        from hermitcrab.cli.plugin_commands import load_command

        found = load_command(cmd_name, safe_mode=ctx.ensure_object(Settings).safe_mode)
        near = get_close_matches(cmd_name, _COMMANDS, n=1)
        if found is None and near and not ctx.resilient_parsing:
            ctx.fail(f"No such command '{cmd_name}'. Did you mean '{near[0]}'?")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in ``--help``, with the names of those of plugins."""
        super().format_commands(ctx, formatter)
        from hermitcrab.cli.plugin_commands import command_rows

        rows = [] if ctx.ensure_object(Settings).safe_mode else command_rows()
        if rows:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what goes wrong becomes one line."""
        from hermitcrab.cli.running import logging_to_stderr

        settings = ctx.ensure_object(Settings)
        try:
            with logging_to_stderr(debug=settings.debug):
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if settings.debug:
                import traceback

                traceback.print_exc()
            raise click.ClickException(_words(error)) from error

    def main(self, args: Sequence[str] | None = None, *rest: Any, **named: Any) -> NoReturn:
        """Run the program and exit."""
        named |= {"prog_name": "hermitcrab", "standalone_mode": False}
        try:
            status = super().main(args, *rest, **named)
        except click.Abort:
            click.echo("Interrupted.", err=True)
            sys.exit(INTERRUPTED)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            _fail(_usage_words(error))
            sys.exit(error.exit_code)
        except click.ClickException as error:
            _fail(error.format_message())
            sys.exit(error.exit_code)
        sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str) -> None:
    from hermitcrab.cli.output import complain

    complain(message)


def _usage_words(error: click.UsageError) -> str:
    message = error.format_message()
    end = "" if message.endswith((".", "?")) else "."
    help_of = "hermitcrab" if error.ctx is None else error.ctx.command_path
    return f"{message}{end} See '{help_of} --help'."


def _words(error: Exception) -> str:
    """What went wrong, for people; an error that nobody expected with the name of its class."""
    if isinstance(error, HermitcrabError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        return f"{place}{error.strerror}"
    return (
        f"unexpected {type(error).__name__}: {error}. Run it again with --debug for the traceback."
    )


@click.command(cls=Program, name="hermitcrab")
@common_options
@click.version_option(__version__, prog_name="hermitcrab", message="%(prog)s %(version)s")
def program() -> None:
    """Durable sessions, context engines, compaction and memory for agents."""
