"""From what a handler returned to the result class of its hook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

import attrs

from hermitcrab.errors import HookError

R = TypeVar("R")

_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


def to_result(result_class: type[R], value: object) -> R:
    """``value`` as a ``result_class``; a mapping may spell the field names in snake_case or camelCase.

    :raises HookError: if it is neither, has an unknown field, or a field of the wrong type.
    """
    if isinstance(value, result_class):
        return value
    if not isinstance(value, Mapping):
        raise HookError(
            f"returned {type(value).__name__}, expected {result_class.__name__}, a mapping or None"
        )
    names = [each.name for each in attrs.fields(result_class)]  # type: ignore[arg-type]
    fields = {_field_name(key, names, result_class): item for key, item in value.items()}
    try:
        return result_class(**fields)
    except (TypeError, ValueError) as error:
        raise HookError(f"returned an invalid {result_class.__name__}: {_reason(error)}") from error


def _field_name(key: Any, names: list[str], result_class: type) -> str:
    name = _HUMP.sub(lambda match: "_" + match.group(1).lower(), str(key))
    if name in names:
        return name
    near = get_close_matches(name, names, n=1)
    hint = f'Did you mean "{near[0]}"?' if near else f"Its fields: {', '.join(names)}."
    raise HookError(f'returned an unknown field "{key}" of {result_class.__name__}', hint=hint)


def _reason(error: Exception) -> str:
    # Validators of attrs put the attribute and the value behind their sentence.
    return str(error.args[0]) if error.args else type(error).__name__
