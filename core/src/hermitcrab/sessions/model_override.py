"""Choosing the model of a session, in place of the configured one (sessions 5.3). Pure."""

from __future__ import annotations

from typing import Any, Literal

from hermitcrab.models.resolve import ModelSpec
from hermitcrab.sessions.entry import SessionEntry

#: Who chose the model: the user, whose choice outlives the session id, or the program.
OverrideSource = Literal["auto", "user"]

#: What was measured with another model.
_STALE = ("context_tokens", "total_tokens")


def chosen_model(entry: SessionEntry) -> ModelSpec | None:
    """The model that a session has chosen, or ``None`` for the configured one."""
    if entry.provider_override and entry.model_override:
        return ModelSpec(entry.provider_override, entry.model_override)
    return None


def selection(
    entry: SessionEntry,
    chosen: ModelSpec | None,
    *,
    default: ModelSpec | None = None,
    source: OverrideSource = "user",
) -> dict[str, Any]:
    """The changes of fields that give a session the model ``chosen``, or the configured one for ``None``.

    Choosing the configured model is no override. Another model than before makes what was measured unknown.

    :param default: the configured model, where the caller knows it.
    """
    if chosen is None or chosen == default:
        changes: dict[str, Any] = dict.fromkeys(
            ("provider_override", "model_override", "model_override_source")
        )
    else:
        changes = {
            "provider_override": chosen.provider_id,
            "model_override": chosen.name,
            "model_override_source": source,
        }
    old = (entry.provider_override, entry.model_override)
    if old != (changes["provider_override"], changes["model_override"]):
        changes |= dict.fromkeys(_STALE)
    return changes
