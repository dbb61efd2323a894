"""A plugin's own config: checked by the class that the plugin names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from hermitcrab.errors import PluginError


def read_plugin_config(plugin_id: str, config: Mapping[str, Any], config_class: Any) -> Any:
    """An instance of ``config_class``, an attrs class with snake_case attributes, out of camelCase ``config``.

    :raises PluginError: if ``config_class`` is no attrs class.
    :raises ConfigError: on unknown keys and wrong values; it names ``plugins.entries.<id>.config.<key>``.
    """
    from hermitcrab.config.problems import config_error
    from hermitcrab.config.structure import structure_section

    if not isinstance(config_class, type) or not attrs.has(config_class):
        raise PluginError(
            f"config_class must return an attrs class, not {config_class!r}",
            where=f"plugin {plugin_id}",
        )
    path = ("plugins", "entries", plugin_id, "config")
    read = structure_section(config_class, config, path=path)
    if isinstance(read, list):
        raise config_error(read, where="config.yaml", document=config)
    return read
