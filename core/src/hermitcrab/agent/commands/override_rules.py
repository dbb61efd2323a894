"""What an agent's sessions may choose for themselves, as its settings and the host's models have it (sessions 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from hermitcrab.config import AgentSettings
from hermitcrab.models.resolve import OFFLINE_PROVIDER, ModelSpec, parse_model
from hermitcrab.sessions.effective_levels import levels_of
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.model_override import chosen_model


@frozen
class AgentOverrideRules:
    """The rules of one agent.

    :param known_levels: the thinking levels that a model, ``provider/name``, can be told.
    """

    settings: AgentSettings
    _check: Callable[[str], object]
    _known_levels: Callable[[str], Sequence[str]]

    @property
    def default_model(self) -> ModelSpec:
        """The configured model, which is no override."""
        return parse_model(self.settings.model or OFFLINE_PROVIDER)

    def check_model(self, reference: str) -> None:
        """Raises ConfigError if nobody can make this model."""
        self._check(reference)

    def thinking_level(self, entry: SessionEntry) -> str:
        """The level that holds under this entry."""
        model = chosen_model(entry) or self.default_model
        return levels_of(entry, self.settings, self._known_levels(str(model))).thinking.value
