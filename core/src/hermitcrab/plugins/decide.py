"""Which plugins run: the rules of sessions 7.3 (1, 2, 3, 5, 7, 8, 13) and 7.4, as pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import frozen

from hermitcrab.plugins.discovery import CONTEXT_ENGINES, MEMORY, PLUGINS
from hermitcrab.plugins.records import PluginsSettings

#: The environment variable that limits which third-party plugins start.
ENVIRONMENT_VARIABLE = "HERMITCRAB_PLUGINS"

DEFAULT_ENGINE = "legacy"
DEFAULT_MEMORY = "memory-core"

_SLOT_WORDS = {CONTEXT_ENGINES: "context engine", MEMORY: "memory"}


@frozen
class StartMode:
    """Which third-party plugins may start: None is all of them. ``reason`` is why the others do not."""

    third_parties: frozenset[str] | None = None
    reason: str = ""


@frozen(kw_only=True)
class Candidate:
    """A plugin about which is decided; ``given`` means that it was handed over in code."""

    id: str
    groups: frozenset[str]
    core: bool = False
    given: bool = False

    @property
    def is_default_engine(self) -> bool:
        return self.core and self.id == DEFAULT_ENGINE and CONTEXT_ENGINES in self.groups


@frozen
class Decision:
    """Whether a plugin runs, why, and for which of its groups."""

    enabled: bool
    reason: str
    groups: frozenset[str] = frozenset()


def start_mode(environ: Mapping[str, str], *, safe_mode: bool = False) -> StartMode:
    """What safe mode and ``HERMITCRAB_PLUGINS`` allow; an empty variable allows no third party, an unset one all."""
    if safe_mode:
        return StartMode(frozenset(), "safe mode")
    text = environ.get(ENVIRONMENT_VARIABLE)
    if text is None:
        return StartMode()
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    return StartMode(names, f"not in {ENVIRONMENT_VARIABLE}")


def selected(config: PluginsSettings) -> Mapping[str, str | None]:
    """The plugin id that each slot names, by group; None is an empty slot."""
    engine = _slot(config.slots.context_engine, unset=DEFAULT_ENGINE, none=DEFAULT_ENGINE)
    memory = _slot(config.slots.memory, unset=DEFAULT_MEMORY, none=None)
    return {CONTEXT_ENGINES: engine, MEMORY: memory}


def decide(candidate: Candidate, config: PluginsSettings, start: StartMode) -> Decision:
    """Whether ``candidate`` runs; the first rule that applies wins, and an explicit no comes before any slot."""
    refusal = _refusal(candidate, config, start)
    if refusal is not None:
        return Decision(False, refusal)
    filled = _filled(candidate, config)
    if filled:
        slots = " and ".join(_SLOT_WORDS[group] for group in sorted(filled))
        return Decision(True, f"selected {slots} slot", filled | candidate.groups & {PLUGINS})
    if candidate.is_default_engine:
        return Decision(True, "default engine", frozenset({CONTEXT_ENGINES}))
    if PLUGINS not in candidate.groups:
        return Decision(False, _slot_taken(candidate.groups, config))
    if config.allow and candidate.id not in config.allow:
        return Decision(False, "not in allowlist")
    chosen = candidate.given or _enabled_in_config(candidate.id, config)
    return Decision(True, "enabled in config" if chosen else "installed", frozenset({PLUGINS}))


def _refusal(candidate: Candidate, config: PluginsSettings, start: StartMode) -> str | None:
    # Without the default engine no turn can run, so the general switch does not reach it.
    if not config.enabled and not candidate.is_default_engine:
        return "plugins disabled"
    if candidate.id in config.deny:
        return "blocked by denylist"
    if _enabled_in_config(candidate.id, config) is False:
        return "disabled in config"
    limited = start.third_parties is not None and candidate.id not in start.third_parties
    return start.reason if limited and not candidate.core else None


def _filled(candidate: Candidate, config: PluginsSettings) -> frozenset[str]:
    slots = selected(config)
    offered = set(slots) if candidate.given else candidate.groups
    return frozenset(
        group for group, name in slots.items() if name == candidate.id and group in offered
    )


def _slot_taken(groups: Collection[str], config: PluginsSettings) -> str:
    reasons = []
    for group, name in selected(config).items():
        if group in groups:
            word = _SLOT_WORDS[group]
            reasons.append(
                f"{word} slot disabled" if name is None else f'{word} slot set to "{name}"'
            )
    return ", ".join(reasons)


def _enabled_in_config(plugin_id: str, config: PluginsSettings) -> bool | None:
    entry = config.entries.get(plugin_id)
    return None if entry is None else entry.enabled


def _slot(text: str | None, *, unset: str, none: str | None) -> str | None:
    name = (text or "").strip()
    if not name:
        return unset
    return none if name.lower() == "none" else name
