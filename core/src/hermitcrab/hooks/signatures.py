"""Which of the offered arguments a handler takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from hermitcrab.errors import PluginError

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def accepted_arguments(function: Callable[..., Any], offered: Sequence[str]) -> tuple[str, ...]:
    """The names of ``offered`` that ``function`` takes by keyword, keyword-only parameters and ``**`` included.

    :raises PluginError: if it needs a parameter that is not offered, or takes one by position only.
    """
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        _check(parameter, offered)
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return tuple(offered)
    names = {parameter.name for parameter in parameters if parameter.kind in _BY_NAME}
    return tuple(name for name in offered if name in names)


def _check(parameter: inspect.Parameter, offered: Sequence[str]) -> None:
    if parameter.default is not inspect.Parameter.empty:
        return
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise PluginError(
            f'parameter "{parameter.name}" is positional-only, arguments are passed by name'
        )
    if parameter.kind in _BY_NAME and parameter.name not in offered:
        known = ", ".join(offered) or "none"
        raise PluginError(
            f'parameter "{parameter.name}" is not an argument of this hook (it has: {known})'
        )
