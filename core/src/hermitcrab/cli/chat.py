"""``hermitcrab chat``: a conversation at the terminal, or line by line from a pipe."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from hermitcrab.cli.options import Settings, common_options, pass_settings

if TYPE_CHECKING:
    from hermitcrab.agent.host import Host
    from hermitcrab.cli.chat_input import ChatInput

#: What ends the conversation, besides the end of the input.
_FAREWELLS = frozenset({"/exit", "/quit"})


@click.command("chat")
@click.option("--session", "key", default="main", show_default=True, help="The session key.")
@click.option("--model", help="The model to use, provider/name.")
@common_options
@pass_settings
def chat_command(settings: Settings, key: str, model: str | None) -> None:
    """Talk with an agent.

    Ctrl-C cancels an answer and keeps the turn; Ctrl-D, or Ctrl-C twice, leaves. /help lists the chat commands. Where
    stdin is no terminal, every line is one message.
    """
    from hermitcrab.cli.running import run

    sys.exit(run(_chat(settings, key, model)))


async def _chat(settings: Settings, key: str, model: str | None) -> int:
    from hermitcrab.cli.chat_input import open_input
    from hermitcrab.cli.opening import open_host

    async with open_host(settings, model=model) as host:
        await _introduce(host, key, model)
        return await _converse(host, key, open_input(host.home))


async def _introduce(host: Host, key: str, model: str | None) -> None:
    """Say where we are, and what does not work as configured."""
    from hermitcrab.cli.opening import warn_of_plugins
    from hermitcrab.cli.output import note, warn

    context = await host.open_session(host.store_key(key))
    setup = await host.set_up(context)
    note(
        f"session {context.log.key} · model {context.model.id} · window {context.window:,} tokens"
        f" ({host.counter.name}) · engine {context.engine.selected_id}"
    )
    if model is not None and context.log.entry.model_override is not None:
        warn(f"this session has chosen {context.model.id} for itself; /model default undoes that")
    degraded = context.engine.degradation()
    if degraded is not None:
        warn(f"the engine legacy answers: {degraded.reason}. {degraded.hint}")
    if setup.agent.memory_failure is not None:
        warn(setup.agent.memory_failure)
    warn_of_plugins(host)


async def _converse(host: Host, key: str, source: ChatInput) -> int:
    """Read and answer until the input ends; the exit code."""
    from hermitcrab.cli.output import note
    from hermitcrab.cli.root import INTERRUPTED
    from hermitcrab.cli.running import Interrupted

    status, is_leaving = 0, False
    while True:
        try:
            text = await source.read()
        except Interrupted:
            if is_leaving or not source.is_terminal:
                return INTERRUPTED
            is_leaving = True
            note("Ctrl-C again, or Ctrl-D, leaves")
            continue
        is_leaving = False
        if text is None or text.strip().lower() in _FAREWELLS:
            return status
        if text.strip() and not await _answer(host, key, text):
            status = 0 if source.is_terminal else 1


async def _answer(host: Host, key: str, text: str) -> bool:
    """Run one turn; whether it succeeded. Ctrl-C ends it and is no failure."""
    from hermitcrab.cli.output import complain
    from hermitcrab.cli.running import Interrupted, interruptible
    from hermitcrab.cli.turn_output import output_for
    from hermitcrab.errors import HermitcrabError

    output = await output_for(host, key)

    async def turn() -> None:
        async with aclosing(host.stream(key, text)) as events:
            async for event in events:
                output.show(event)

    try:
        await interruptible(turn())
    except Interrupted:
        output.interrupted()
    except HermitcrabError as error:
        output.end_line()
        complain(str(error))
        return False
    return True
