"""Changing what is set on a session: one path for chat commands, the command line and code (sessions 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from hermitcrab.models.resolve import ModelSpec
from hermitcrab.sessions.entry import SessionEntry, merge
from hermitcrab.sessions.log import SessionLog
from hermitcrab.sessions.model_override import chosen_model
from hermitcrab.sessions.patching import parse_patch


class OverrideRules(Protocol):
    """What the owner of a session knows of models and of what is configured."""

    @property
    def default_model(self) -> ModelSpec:
        """The configured model, which is no override."""

    def check_model(self, reference: str) -> None:
        """Raises ConfigError if nobody can make this model."""

    def thinking_level(self, entry: SessionEntry) -> str:
        """The level that holds under this entry."""


async def patch_session(
    log: SessionLog, patch: Mapping[str, Any], rules: OverrideRules | None = None
) -> SessionEntry:
    """Set fields of a session by their JSON names, all or nothing, and say so in the transcript.

    Other readers of the format learn of another model or thinking level from an entry of their own kind (context 9);
    the session entry stays the truth.

    :raises SessionLabelTakenError: if another session has the label.
    :raises SessionError: for an unknown field or an invalid value.
    :raises ConfigError: for a model that nobody can make.
    """
    before = log.entry
    default = None if rules is None else rules.default_model
    changes = parse_patch(before, patch, default_model=default)
    if not changes:
        return before
    chosen = chosen_model(merge(before, changes))
    if rules is not None and chosen is not None and chosen != chosen_model(before):
        rules.check_model(str(chosen))
    after = await log.update_entry(**changes)
    told = [log.new_entry(kind, **values) for kind, values in _told(before, after, rules)]
    if told:
        await log.append(told)
    return after


def _told(
    before: SessionEntry, after: SessionEntry, rules: OverrideRules | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries that tell of the change, by kind."""
    default = None if rules is None else rules.default_model
    model = chosen_model(after) or default
    if model is not None and model != (chosen_model(before) or default):
        yield "model_change", {"provider": model.provider_id, "modelId": model.name}
    level = _thinking(after, rules)
    if level != _thinking(before, rules):
        yield "thinking_level_change", {"thinkingLevel": level}


def _thinking(entry: SessionEntry, rules: OverrideRules | None) -> str:
    return (entry.thinking_level or "off") if rules is None else rules.thinking_level(entry)
