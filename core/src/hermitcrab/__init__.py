"""hermitcrab: durable sessions, context engines, compaction and memory for agents.

Importing this package is cheap: every public name is loaded when it is first used.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hermitcrab._version import __version__

if TYPE_CHECKING:
    from hermitcrab.agent.host import Host
    from hermitcrab.config import load_config
    from hermitcrab.context import register_context_engine
    from hermitcrab.hooks import hookimpl

__all__ = ["Host", "__version__", "hookimpl", "load_config", "register_context_engine"]

# What a library logs is for its user's handlers; nothing is printed outside of the command line.
logging.getLogger("hermitcrab").addHandler(logging.NullHandler())

_HOMES = {
    "Host": "hermitcrab.agent.host",
    "hookimpl": "hermitcrab.hooks.markers",
    "load_config": "hermitcrab.config",
    "register_context_engine": "hermitcrab.context",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
