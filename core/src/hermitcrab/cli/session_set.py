"""``hermitcrab sessions set``: change fields of a session, all or nothing (sessions 5.1)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.sessions.entries import SessionEntry


@click.command("set")
@click.argument("key")
@click.argument("changes", nargs=-1, required=True, metavar="FIELD=VALUE…")
@json_option
@common_options
@pass_settings
def set_command(settings: Settings, key: str, changes: tuple[str, ...], as_json: bool) -> None:
    """Set fields of the session KEY, such as label="Harbour office"; FIELD=null deletes one.

    model=PROVIDER/NAME chooses the model, model=default the configured one.
    """
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.running import run
    from hermitcrab.sessions.entries import to_json

    patch = dict(map(_change, changes))
    entry = run(_patched(settings, key, patch))
    fields = to_json(entry)
    if as_json:
        print_json({"key": entry.key, **fields})
    else:
        for name in _shown(patch):
            click.echo(f"{name}: {json.dumps(fields.get(name), ensure_ascii=False)}")


def _shown(patch: dict[str, Any]) -> list[str]:
    """The fields that a patch is about; ``model`` stands for two of them."""
    both = ("providerOverride", "modelOverride")
    return [field for name in patch for field in (both if name == "model" else (name,))]


def _change(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"{text!r} is no change. Write FIELD=VALUE.")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value


async def _patched(settings: Settings, key: str, patch: dict[str, Any]) -> SessionEntry:
    from hermitcrab.cli.opening import open_host

    async with open_host(settings) as host:
        return await host.patch_session(key, patch)
