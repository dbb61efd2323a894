"""What of the configured compactions is not there: an auditor of summaries, or a provider (never a silent default)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol

from hermitcrab.config import Config
from hermitcrab.plugins.discovery import core_distribution_of
from hermitcrab.plugins.host import PluginHost
from hermitcrab.plugins.records import Diagnostic, PluginRecord
from hermitcrab.plugins.registry import Registry

#: The plugin that audits summaries, and the hook with which it does.
SAFEGUARD = "compaction-safeguard"
_AUDITING_HOOK = "session_before_compact"
_PATH = "agents.defaults.compaction"


class CompactionChoices(Protocol):
    """The part of ``agents.defaults.compaction`` that needs plugins."""

    @property
    def mode(self) -> str | None: ...
    @property
    def provider(self) -> str | None: ...


def missing_for_compaction(config: Config, plugins: PluginHost) -> Sequence[Diagnostic]:
    """What the compactions that config asks for lack."""
    return compaction_diagnostics(
        config.agents.defaults.compaction,
        plugins.records,
        plugins.registries.compaction_providers,
    )


def compaction_diagnostics(
    choices: CompactionChoices,
    records: Mapping[str, PluginRecord],
    providers: Registry[Any],
) -> Sequence[Diagnostic]:
    """What is missing, after the plugins were loaded.

    A plugin that failed to load has its own diagnostic, and is named here all the same: summaries are not audited.
    """
    found = []
    if choices.provider is not None and providers.find(choices.provider) is None:
        found.append(_unknown_provider(choices.provider, providers.ids()))
    if choices.mode == "safeguard" or choices.provider is not None:
        record = records.get(SAFEGUARD)
        if record is None or record.status != "loaded" or _AUDITING_HOOK not in record.hooks:
            found.append(_no_safeguard(choices.mode, record))
    return found


def _unknown_provider(provider: str, known: Sequence[str]) -> Diagnostic:
    near = get_close_matches(provider, known, n=1)
    listed = f"registered are: {', '.join(known) or 'none'}"
    return Diagnostic(
        level="error",
        plugin_id=None,
        phase="validation",
        message=(
            f'{_PATH}.provider is "{provider}", which no plugin has registered;'
            " the host's own summariser is used"
        ),
        hint=f'Did you mean "{near[0]}"?' if near else f"Install its plugin; {listed}",
    )


def _no_safeguard(mode: str | None, record: PluginRecord | None) -> Diagnostic:
    cause = f"{_PATH}.mode is safeguard" if mode == "safeguard" else f"{_PATH}.provider is set"
    hint = "Enable it"
    if mode == "safeguard":
        hint += f", or set {_PATH}.mode to default"
    if record is None:
        state = "is not installed"
        hint = hint.replace(
            "Enable it", f"Install it: pip install {core_distribution_of(SAFEGUARD)}"
        )
    elif record.status == "loaded":
        state = f"does not handle {_AUDITING_HOOK}"
    else:
        state = f"is not loaded: {record.error or record.reason}"
    return Diagnostic(
        level="warning",
        plugin_id=SAFEGUARD,
        phase="validation",
        message=f"{cause}, but summaries are not audited, because the plugin {state}",
        hint=hint,
    )
