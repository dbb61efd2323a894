"""hermitcrab: durable sessions, context engines, compaction and memory for agents.

Importing this package is cheap: every public name is loaded when it is first used.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hermitcrab._lazy import lazy_names
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
    "__version__": "hermitcrab._version",
    "hookimpl": "hermitcrab.hooks.markers",
    "load_config": "hermitcrab.config",
    "register_context_engine": "hermitcrab.context",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
