"""The marker that makes a function a hook implementation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, overload

#: The attribute in which pluggy looks for the options of an implementation of this project.
PROJECT = "hermitcrab"
OPTIONS_ATTRIBUTE = f"{PROJECT}_impl"

_Function = TypeVar("_Function")


@overload
def hookimpl(function: _Function) -> _Function: ...


@overload
def hookimpl(
    *,
    priority: float = 0,
    blocking: bool = False,
    timeout_ms: float | None = None,
    specname: str | None = None,
) -> Callable[[_Function], _Function]: ...


def hookimpl(
    function: Any = None,
    *,
    priority: float = 0,
    blocking: bool = False,
    timeout_ms: float | None = None,
    specname: str | None = None,
) -> Any:
    """Mark a function or method as the implementation of the hook whose name it bears.

    :param priority: higher runs first; equal priorities run in the order of registration.
    :param blocking: run a plain function in a thread, so that it may wait and can be given up at its timeout.
    :param timeout_ms: how long the host waits for this handler, in milliseconds; config can override it.
    :param specname: the hook's name, where the function bears another.
    :raises ValueError: if ``timeout_ms`` is not a finite number of at least 1.
    """
    options = {
        "priority": priority,
        "blocking": blocking,
        "timeout_ms": _whole_milliseconds(timeout_ms),
        "specname": specname,
        # What pluggy itself expects to find.
        "tryfirst": False,
        "trylast": False,
        "optionalhook": False,
        "wrapper": False,
        "hookwrapper": False,
    }

    def mark(marked: _Function) -> _Function:
        setattr(marked, OPTIONS_ATTRIBUTE, options)
        return marked

    return mark if function is None else mark(function)


def _whole_milliseconds(timeout_ms: float | None) -> int | None:
    if timeout_ms is None:
        return None
    if not math.isfinite(timeout_ms) or timeout_ms < 1:
        raise ValueError(f"timeout_ms must be a finite number of at least 1, not {timeout_ms!r}")
    return math.floor(timeout_ms)
