"""A configuration as plain JSON data, secrets masked: what ``hermitcrab config get`` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from hermitcrab.config.keys import keys_of
from hermitcrab.config.problems import is_secret_name, nearest_name
from hermitcrab.config.schema import Config
from hermitcrab.errors import ConfigError

__all__ = ["get_value", "plain_value", "to_plain"]

_MASK = "***"
_INDEX = re.compile(r"\[(\d+)\]")


def to_plain(config: Config) -> dict[str, Any]:
    """The whole configuration, defaults included, with the keys of YAML; secrets read ``***``."""
    plain: dict[str, Any] = plain_value(config)
    return plain


def get_value(config: Config, path: str) -> Any:
    """The value at ``agents.defaults.model``, ``agents.list[0].id``, as :func:`to_plain` shows it.

    :raises ConfigError: if there is nothing at ``path``, with the nearest name that there is.
    """
    value: Any = to_plain(config)
    whole = rest = _INDEX.sub(r".\1", path.strip())
    while rest:
        name = _longest_name(value, rest)
        if name is None:
            raise _nothing_at(whole, rest, value)
        value = value[int(name)] if isinstance(value, list) else value[name]
        rest = rest[len(name) + 1 :]
    return value


def plain_value(value: Any) -> Any:
    """Any value of a configuration as JSON data, secrets masked."""
    if attrs.has(type(value)):
        return {
            key.name: _plain_key(key.secret, value, key.attribute) for key in keys_of(type(value))
        }
    if isinstance(value, Mapping):
        return {
            name: _masked(item) if is_secret_name(name) else plain_value(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _plain_key(secret: bool, section: Any, attribute: str) -> Any:
    value = getattr(section, attribute)
    return _masked(value) if secret else plain_value(value)


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _masked(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item) for item in value]
    return None if value is None else _MASK


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from map(str, range(len(value)))
    elif isinstance(value, dict):
        yield from value


def _longest_name(value: Any, rest: str) -> str | None:
    # Names of models and plugins may contain dots, so the path alone does not say where a name ends.
    fitting = [name for name in _names(value) if rest == name or rest.startswith(f"{name}.")]
    return max(fitting, key=len, default=None)


def _nothing_at(path: str, rest: str, value: Any) -> ConfigError:
    nearest = nearest_name(rest.split(".")[0], _names(value))
    hint = None if nearest is None else f"Did you mean {path.removesuffix(rest)}{nearest}?"
    return ConfigError(f'there is nothing at "{path}"', where="config", hint=hint)
