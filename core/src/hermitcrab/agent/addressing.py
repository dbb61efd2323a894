"""Which session a key means under a configuration, and which agent has it (sessions 1.3, 1.4)."""

from __future__ import annotations

from hermitcrab.config import Config, default_agent_id
from hermitcrab.sessions.keys import agent_id_of, to_store_key


def stored_key(config: Config, key: str) -> str:
    """The key under which a session is stored; short forms belong to the default agent.

    :raises SessionKeyError: for a malformed key.
    """
    return to_store_key(
        key,
        agent_id=default_agent_id(config),
        main_key=config.session.main_key,
        scope=config.session.scope,
    )


def owner_of(config: Config, key: str) -> str:
    """The agent that a stored key belongs to; the default agent has the keys that name none, such as ``global``."""
    return agent_id_of(key, default_agent_id(config))
