"""Opening the host for a command, and saying what does not work as configured."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from attrs import evolve

from hermitcrab.cli.options import Settings
from hermitcrab.cli.output import warn
from hermitcrab.cli.wording import amount

if TYPE_CHECKING:
    from hermitcrab.agent.host import Host
    from hermitcrab.config import Config


def open_host(settings: Settings, *, model: str | None = None) -> AbstractAsyncContextManager[Host]:
    """The host of the home; ``model`` replaces the configured one of every agent."""
    from hermitcrab.agent.host import Host

    config = settings.config()
    if model is not None:
        config = with_model(config, model)
    return Host.open(home=settings.home_folder(), config=config, safe_mode=settings.safe_mode)


def with_model(config: Config, model: str) -> Config:
    """The configuration with another model for all agents; what a session chose for itself goes on top of it."""
    defaults = evolve(config.agents.defaults, model=model)
    entries = tuple(evolve(entry, model=None) for entry in config.agents.list)
    return evolve(config, agents=evolve(config.agents, defaults=defaults, list=entries))


def warn_of_plugins(host: Host) -> None:
    """Warn of plugins that have errors."""
    errors = [each for each in host.plugins.diagnostics if each.level == "error"]
    if errors:
        names = sorted({each.plugin_id or "plugins" for each in errors})
        warn(
            f"{amount(len(errors), 'plugin error')} ({', '.join(names)}): see `hermitcrab plugins doctor`"
        )
