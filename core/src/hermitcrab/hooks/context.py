"""What every handler is told about where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen


@frozen(kw_only=True)
class HookContext:
    """The second argument of every handler; a field is None where it has no meaning.

    :param trigger: what started the turn: ``user``, ``heartbeat``, ``cron`` or ``memory``.
    :param provenance: where the turn's input came from (sessions 5.5).
    :param memory: the agent's memory backend.
    :param plugin_config: the receiving plugin's config: an instance of its config class, else the plain mapping.
    :param plugin_id: the receiving plugin.
    """

    agent_id: str | None = None
    session_key: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    workspace: Path | None = None
    home: Path | None = None
    channel: str | None = None
    trigger: str | None = None
    provenance: Mapping[str, Any] | None = None
    memory: Any = None
    plugin_config: Any = field(factory=dict)
    plugin_id: str = ""
