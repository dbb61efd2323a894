"""A hook plugin with a config of its own."""

from __future__ import annotations

from attrs import frozen

from hermitcrab import hookimpl
from hermitcrab.hooks import PromptBuild


@frozen
class Settings:
    """``plugins.entries.holiday.config``: the name of the day."""

    day: str = "a holiday"


@hookimpl
def config_class():
    return Settings


@hookimpl(priority=10)
async def before_prompt_build(event, ctx):
    return PromptBuild(prepend_context=f"Today is {ctx.plugin_config.day}.")
