"""The options that every command takes, before or after its name, and what they were set to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from attrs import define

from hermitcrab.errors import HermitcrabError

if TYPE_CHECKING:
    from hermitcrab.config import Config

Command = TypeVar("Command", bound=Callable[..., Any])


@define
class Settings:
    """What the common options say; the context object of every command, those of plugins included."""

    home: str | None = None
    debug: bool = False
    safe_mode: bool = False

    def home_folder(self) -> Path:
        """The home: ``--home``, else ``$HERMITCRAB_HOME``, else ``~/.hermitcrab``; it need not exist.

        :raises HermitcrabError: if something else than a folder is there.
        """
        from hermitcrab.config import resolve_home

        home = resolve_home(self.home, os.environ)
        try:
            blocked = next(
                (p for p in (home, *home.parents) if p.exists() and not p.is_dir()), None
            )
        except (OSError, ValueError) as error:
            raise HermitcrabError(f"the home cannot be used: {error}", where=home) from error
        if blocked is not None:
            raise HermitcrabError(
                "the home must be a folder, and this is a file",
                where=blocked,
                hint="Choose another place with --home or HERMITCRAB_HOME.",
            )
        return home

    def config_file(self) -> Path:
        """The configuration file of the home; it need not exist."""
        return self.home_folder() / "config.yaml"

    def config(self) -> Config:
        """The configuration of the home.

        :raises ConfigError: if it is wrong.
        """
        from hermitcrab.config import load_config

        return load_config(home=self.home_folder())


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Set an attribute of the settings; an option that was not given leaves what stood before the command."""
    settings = context.ensure_object(Settings)
    if value and parameter.name is not None:
        setattr(settings, parameter.name, value)


def common_options(command: Command) -> Command:
    """Let a command take ``--home``, ``--safe-mode`` and ``--debug``."""
    for option in (
        click.option(
            "--debug",
            is_flag=True,
            expose_value=False,
            callback=_remember,
            help="Show tracebacks and the whole log.",
        ),
        click.option(
            "--safe-mode",
            is_flag=True,
            expose_value=False,
            callback=_remember,
            help="Start without third-party plugins.",
        ),
        click.option(
            "--home",
            metavar="DIR",
            expose_value=False,
            callback=_remember,
            help="The home directory; default $HERMITCRAB_HOME, else ~/.hermitcrab.",
        ),
    ):
        command = option(command)
    return command


def json_option(command: Command) -> Command:
    """Let a command take ``--json``, as the argument ``as_json``."""
    option = click.option(
        "--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on stdout."
    )
    return option(command)
