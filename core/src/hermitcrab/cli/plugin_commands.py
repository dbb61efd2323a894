"""Commands that plugins bring, in the entry-point group ``hermitcrab.commands``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hermitcrab._version import __version__
from hermitcrab.errors import PluginError

if TYPE_CHECKING:
    from hermitcrab.plugins.discovery import DiscoveredPlugin, Discovery


def command_rows() -> list[tuple[str, str]]:
    """The names of the commands and their distributions; nothing is imported, and nothing can fail."""
    try:
        return [(each.id, f"(from {_origin(each)})") for each in _discovered().commands]
    except Exception as error:  # noqa: BLE001 - broken metadata of others must not break the help
        return [("?", f"the installed distributions cannot be read: {error}")]


def load_command(name: str, *, safe_mode: bool) -> click.Command | None:
    """The command of this name, imported now; ``None`` if no plugin offers it.

    :raises PluginError: if it may not run or cannot be loaded, naming its distribution.
    """
    found = _discovered()
    plugin = next((each for each in found.commands if each.id == name), None)
    if plugin is None:
        claimed = next((each for each in found.diagnostics if each.plugin_id == name), None)
        if claimed is not None:
            raise PluginError(claimed.message, where=f"command {name}", hint=claimed.hint)
        return None
    _check(plugin, safe_mode=safe_mode)
    return _loaded(plugin)


def _discovered() -> Discovery:
    import importlib_metadata

    from hermitcrab.plugins.discovery import COMMANDS, discover

    return discover(importlib_metadata.entry_points(group=COMMANDS))


def _origin(plugin: DiscoveredPlugin) -> str:
    return f"{plugin.distribution} {plugin.version or ''}".rstrip()


def _check(plugin: DiscoveredPlugin, *, safe_mode: bool) -> None:
    where = f"command {plugin.id}"
    if safe_mode and not plugin.core:
        raise PluginError(f"it belongs to {_origin(plugin)}, and safe mode is on", where=where)
    needed = plugin.requires_hermitcrab
    if needed is not None and not needed.contains(__version__, prereleases=True):
        from hermitcrab.plugins.failures import host_remedy

        raise PluginError(
            f"{_origin(plugin)} needs hermitcrab{needed}, and this is {__version__}",
            where=where,
            hint=host_remedy(needed, __version__, plugin.distribution),
        )


def _loaded(plugin: DiscoveredPlugin) -> click.Command:
    from hermitcrab.plugins.discovery import COMMANDS
    from hermitcrab.plugins.failures import cause

    where = f"command {plugin.id}"
    hint = f"Upgrade it: pip install --upgrade {plugin.distribution}, or remove it"
    try:
        command = plugin.groups[COMMANDS].load()
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{_origin(plugin)} could not be imported: {cause(error)}", where=where, hint=hint
        ) from error
    if not isinstance(command, click.Command):
        raise PluginError(
            f"{_origin(plugin)} offers a {type(command).__name__}, and must offer a click command",
            where=where,
            hint=hint,
        )
    return command
