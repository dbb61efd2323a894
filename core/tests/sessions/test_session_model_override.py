"""The model of a session, chosen in place of the configured one (sessions 5.3)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from hermitcrab.errors import ConfigError, SessionError
from hermitcrab.models.resolve import ModelSpec
from hermitcrab.sessions.entry import SessionEntry, successor
from hermitcrab.sessions.model_override import chosen_model, selection
from hermitcrab.sessions.overriding import patch_session
from hermitcrab.sessions.patching import parse_patch

KEY = "agent:main:main"
ENTRY = SessionEntry(
    key=KEY,
    session_id="s",
    updated_at=1,
    session_started_at=1,
    context_tokens=20_000,
    total_tokens=30_000,
)
DEFAULT = ModelSpec("acme", "usual")
CHOSEN = {"provider_override": "box", "model_override": "large", "model_override_source": "user"}


def test_another_model_makes_what_was_measured_unknown() -> None:
    changes = selection(ENTRY, ModelSpec("box", "large"), default=DEFAULT)
    assert changes == {**CHOSEN, "context_tokens": None, "total_tokens": None}
    chosen = evolve(ENTRY, **CHOSEN)
    assert selection(chosen, ModelSpec("box", "large"), default=DEFAULT) == CHOSEN


def test_the_configured_model_is_no_override() -> None:
    chosen = evolve(ENTRY, **CHOSEN)
    for wanted in (DEFAULT, None):
        changes = selection(chosen, wanted, default=DEFAULT)
        assert chosen_model(evolve(chosen, **changes)) is None
        assert changes["model_override_source"] is None
        assert changes["context_tokens"] is None


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"model": "box/large"}, ("box", "large", "user")),
        ({"model": "box/with/slashes"}, ("box", "with/slashes", "user")),
        ({"model": "box/large", "modelOverrideSource": "auto"}, ("box", "large", "auto")),
        ({"providerOverride": "box", "modelOverride": "large"}, ("box", "large", "user")),
        ({"model": "acme/usual"}, (None, None, None)),
        ({"providerOverride": "acme", "modelOverride": "usual"}, (None, None, None)),
        ({"model": None}, (None, None, None)),
        ({"model": "Default"}, (None, None, None)),
        ({"modelOverride": None}, (None, None, None)),
    ],
)
def test_a_patch_chooses_a_model_by_its_name_or_by_its_parts(
    patch: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    entry = evolve(ENTRY, provider_override="old", model_override="model")
    entry = evolve(entry, **parse_patch(entry, patch, default_model=DEFAULT))
    found = (entry.provider_override, entry.model_override, entry.model_override_source)
    assert found == expected
    assert entry.total_tokens is None


@pytest.mark.parametrize("value", ["large", "/large", "box/", "", 7, True])
def test_what_names_no_model_changes_nothing(value: Any) -> None:
    with pytest.raises(SessionError, match="provider/name"):
        parse_patch(ENTRY, {"label": "Ports", "model": value})


def test_the_users_choice_outlives_the_session_id_and_the_programs_does_not() -> None:
    """Sessions 2.10; an override without a source counts as the user's."""
    for source, kept in (("user", "large"), (None, "large"), ("auto", None)):
        old = evolve(ENTRY, **{**CHOSEN, "model_override_source": source}, thinking_level="high")
        new = successor(old, "next", 5)
        assert (new.model_override, new.thinking_level) == (kept, "high")
        assert new.total_tokens is None


class Rules:
    """What the owner of a session knows: a small model thinks by default, and ``nobody`` makes no models."""

    default_model = DEFAULT

    def check_model(self, reference: str) -> None:
        if reference.startswith("nobody/"):
            raise ConfigError("there is no provider 'nobody'")

    def thinking_level(self, entry: SessionEntry) -> str:
        thinks = entry.model_override == "thinker"
        return entry.thinking_level or ("low" if thinks else "off")


def told(log: Any) -> list[tuple[str, ...]]:
    kinds = {
        "model_change": ("provider", "modelId"),
        "thinking_level_change": ("thinkingLevel",),
    }
    return [
        (entry["type"], *(entry[name] for name in kinds[entry["type"]]))
        for entry in log.path
        if entry["type"] in kinds
    ]


async def test_the_transcript_tells_other_readers_of_the_model_and_the_level(
    open_sessions: Any,
) -> None:
    """Context 9: they know nothing of our session entries."""
    log = await open_sessions().open(KEY)
    await patch_session(log, {"model": "box/thinker", "thinkingLevel": "high"}, Rules())
    await patch_session(log, {"thinkingLevel": "high", "label": "Ports"}, Rules())
    await patch_session(log, {"thinkingLevel": None}, Rules())
    await patch_session(log, {"model": "acme/usual"}, Rules())
    assert told(log) == [
        ("model_change", "box", "thinker"),
        ("thinking_level_change", "high"),
        ("thinking_level_change", "low"),
        ("model_change", "acme", "usual"),
        ("thinking_level_change", "off"),
    ]


async def test_a_model_that_nobody_makes_is_refused_with_everything_else(
    open_sessions: Any,
) -> None:
    log = await open_sessions().open(KEY)
    before = log.entry
    with pytest.raises(ConfigError, match="nobody"):
        await patch_session(log, {"label": "Ports", "model": "nobody/large"}, Rules())
    assert log.entry == before
    assert told(log) == []
