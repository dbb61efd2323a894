"""``hermitcrab config``: check the configuration, read it, and change single values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.config.editing import Change


@click.group("config")
@common_options
def config_command() -> None:
    """Check, read and change the configuration."""


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


@config_command.command("set")
@click.argument("path")
@click.argument("value")
@json_option
@common_options
@pass_settings
def set_command(settings: Settings, path: str, value: str, as_json: bool) -> None:
    """Set PATH, such as agents.defaults.model, to VALUE in config.yaml.

    VALUE is YAML: true, 20000, [a, b] or a text. Comments and the order of the file stay. Nothing is written if the
    configuration would be wrong.
    """
    from hermitcrab.config.editing import Change
    from hermitcrab.config.yaml_text import parse_yaml

    _edit(settings, Change(path, parse_yaml(value, where=path)), as_json=as_json)


@config_command.command("unset")
@click.argument("path")
@json_option
@common_options
@pass_settings
def unset_command(settings: Settings, path: str, as_json: bool) -> None:
    """Take PATH out of config.yaml, so that its default holds."""
    from hermitcrab.config.editing import REMOVED, Change

    _edit(settings, Change(path, REMOVED), as_json=as_json)


def _edit(settings: Settings, change: Change, *, as_json: bool) -> None:
    from hermitcrab.cli.config_editing import edit_config
    from hermitcrab.cli.output import print_json, say

    file = settings.config_file()
    changed = edit_config(file, [change])
    if as_json:
        print_json({"file": str(file), "path": change.path, "changed": changed})
    else:
        say(f"{'written' if changed else 'nothing to change'}: {file}")


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
