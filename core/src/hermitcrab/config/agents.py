"""What holds for one agent: ``agents.defaults`` with the agent's entry laid over it."""

from __future__ import annotations

import attrs
from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.schema import AgentDefaults, Config

__all__ = ["AgentSettings", "agent_settings", "default_agent_id"]

_DEFAULT_AGENT_ID = "main"
_OVERRIDES = (
    "model",
    "context_tokens",
    "workspace",
    "user_timezone",
    "system_prompt",
    "thinking_default",
    "fast_mode_default",
    "verbose_default",
    "reasoning_default",
)


@frozen(kw_only=True)
class AgentSettings(AgentDefaults):
    """Everything that is set for the agent ``agent_id``; the fields are those of ``agents.defaults``."""

    agent_id: str = field(metadata=about("The agent's id."))


def agent_settings(config: Config, agent_id: str) -> AgentSettings:
    """The settings of an agent; one that is not in ``agents.list`` has the defaults."""
    defaults = config.agents.defaults
    values = {field.name: getattr(defaults, field.name) for field in attrs.fields(AgentDefaults)}
    for entry in config.agents.list:
        if entry.id == agent_id:
            overrides = {name: getattr(entry, name) for name in _OVERRIDES}
            values |= {name: value for name, value in overrides.items() if value is not None}
    return AgentSettings(agent_id=agent_id, **values)


def default_agent_id(config: Config) -> str:
    """The agent flagged ``default``, else the first in the list, else ``main`` (sessions 1.4)."""
    entries = config.agents.list
    flagged = [entry.id for entry in entries if entry.default]
    return next(iter([*flagged, *(entry.id for entry in entries), _DEFAULT_AGENT_ID]))
