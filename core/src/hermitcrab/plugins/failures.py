"""A plugin that could not be loaded, in words: what happened, where, and what helps."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from hermitcrab.errors import HermitcrabError
from hermitcrab.plugins.records import Diagnostic, Phase, PluginRecord

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from hermitcrab.plugins.planning import LoadRequest

_TAIL_LINES = 12
_PHASE_WORDS: dict[Phase, str] = {
    "validation": "is refused",
    "load": "could not be imported",
    "register": "failed to register",
}


def failed_record(request: LoadRequest, phase: Phase, error: BaseException) -> PluginRecord:
    """The record of a plugin that failed with ``error``."""
    return request.record(
        status="error",
        phase=phase,
        error=cause(error),
        traceback_tail=None if phase == "validation" else traceback_tail(error),
    )


def failure(request: LoadRequest, phase: Phase, error: BaseException) -> Diagnostic:
    """The diagnostic of a plugin that failed with ``error``."""
    origin = ""
    if request.distribution is not None:
        origin = f" ({request.distribution} {request.version or ''}".rstrip() + ")"
    return Diagnostic(
        level="error",
        plugin_id=request.id,
        phase=phase,
        message=f"{_PHASE_WORDS[phase]}{origin}: {cause(error)}",
        hint=_own_hint(error) or _remedy(request),
    )


def cause(error: BaseException) -> str:
    """What went wrong, in one line; errors of others with the name of their class."""
    if isinstance(error, HermitcrabError):
        return error.message if error.where is None else f"{error.where}: {error.message}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def traceback_tail(error: BaseException) -> str:
    """The last lines of the traceback."""
    lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
    return "\n".join(lines[-_TAIL_LINES:])


def host_remedy(needed: SpecifierSet, host: str, distribution: str | None) -> str:
    """The command that makes host and plugin fit: it upgrades the host where that is too old, else the plugin."""
    from packaging.version import InvalidVersion, Version

    def is_newer(text: str) -> bool:
        try:
            return Version(text.removesuffix(".*")) > Version(host)
        except InvalidVersion:
            return False

    wants_newer = any(
        each.operator in (">=", ">", "==", "~=") and is_newer(each.version) for each in needed
    )
    wanted = f"'hermitcrab{needed}'" if wants_newer or distribution is None else distribution
    return f"Run: pip install --upgrade {wanted}"


def _own_hint(error: BaseException) -> str | None:
    return error.hint if isinstance(error, HermitcrabError) else None


def _remedy(request: LoadRequest) -> str:
    disable = f"set plugins.entries.{request.id}.enabled to false"
    if request.distribution is None:
        return f"Repair it, or {disable}"
    return f"Upgrade it: pip install --upgrade {request.distribution}, or {disable}"
