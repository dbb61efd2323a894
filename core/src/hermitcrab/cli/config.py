"""``hermitcrab config``: check the configuration, and read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings


@click.group("config")
@common_options
def config_command() -> None:
    """Check and read the configuration."""


@config_command.command("validate")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@json_option
@common_options
@pass_settings
def validate_command(settings: Settings, file: Path | None, as_json: bool) -> None:
    """Check FILE, by default config.yaml in the home."""
    from hermitcrab.cli.output import print_json, say
    from hermitcrab.config import load_config
    from hermitcrab.errors import ConfigError

    checked = file or settings.config_file()
    try:
        load_config(file) if file is not None else settings.config()
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"ok": False, "file": str(checked), "error": str(error)})
        click.get_current_context().exit(1)
    if as_json:
        print_json({"ok": True, "file": str(checked), "error": None})
    elif checked.exists():
        say(f"ok: {checked}")
    else:
        say(f"ok: {checked} (not there, so the defaults hold)")


@config_command.command("schema")
@json_option
@common_options
def schema_command(as_json: bool) -> None:
    """Print the JSON Schema of config.yaml."""
    from hermitcrab.cli.output import print_json
    from hermitcrab.config import schema_json

    print_json(schema_json())


@config_command.command("get")
@click.argument("path", default="")
@json_option
@common_options
@pass_settings
def get_command(settings: Settings, path: str, as_json: bool) -> None:
    """Print the value at PATH, such as agents.defaults.model; without PATH all of them.

    Defaults are included, secrets are masked.
    """
    from hermitcrab.cli.output import print_json, say
    from hermitcrab.config import get_value

    value = get_value(settings.config(), path)
    if as_json:
        print_json(value)
    else:
        say(_as_text(value))


def _as_text(value: Any) -> str:
    """A single value bare, anything else as YAML."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list):
        import yaml

        text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
        return text.rstrip("\n")
    return str(value)
