"""What an import is told, and what it is to bring: the values that its steps hand on."""

from __future__ import annotations

from attrs import frozen

from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.importing.sources import LeftOut, SourceTranscript
from hermitcrab.sessions.keys import (
    AgentKey,
    SessionScope,
    agent_id_of,
    parse_agent_key,
    to_store_key,
)


@frozen(kw_only=True)
class PlanOptions:
    """What decides on keys.

    :param default_agent: has what no agent is named for; ``agent_id`` gets everything, whatever agent it is from.
    :param key: the stored key for the one session that there is. ``now`` is in milliseconds.
    """

    default_agent: str
    main_key: str
    scope: SessionScope
    now: int
    agent_id: str | None = None
    key: str | None = None

    def stored_key(self, key: str, agent_id: str) -> str:
        """The key here for a key there.

        :raises SessionKeyError: if no well-formed key comes out of it.
        """
        stored = to_store_key(key, agent_id=agent_id, main_key=self.main_key, scope=self.scope)
        parsed = parse_agent_key(stored)
        if self.agent_id is None or parsed is None:
            return stored
        return str(AgentKey(self.agent_id, parsed.rest))

    def owner_of(self, key: str) -> str:
        """The agent that has a stored key."""
        return agent_id_of(key, self.default_agent)


@frozen(kw_only=True)
class WantedSession:
    """A transcript, the session id that it gets, and the entries of the keys that name it.

    One without entries is an earlier session of the key ``owner``. ``is_recorded`` says that the transcript itself
    tells all that its entries say.
    """

    source: SourceTranscript
    agent_id: str
    session_id: str
    entries: tuple[SessionEntry, ...] = ()
    owner: str | None = None
    is_recorded: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that it is to be found under."""
        return tuple(entry.key for entry in self.entries) or (self.owner or "",)


@frozen(kw_only=True)
class ImportPlan:
    """What to import, earlier sessions of a key before the present one, and what not."""

    wanted: tuple[WantedSession, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
