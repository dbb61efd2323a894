"""Chat commands: finding them in what a user writes, running them, and those of the core."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from hermitcrab.agent.commands.calls import ChatCommand, CommandCall
from hermitcrab.agent.commands.override_commands import OVERRIDE_COMMANDS
from hermitcrab.agent.notices import describe_compaction
from hermitcrab.errors import HermitcrabError

logger = logging.getLogger("hermitcrab.agent")


#: The commands that begin a new conversation.
BEGINNING = frozenset({"new", "reset"})


def parse_command(text: str) -> tuple[str, str] | None:
    """The name and the arguments of ``/name arguments``, or ``None``."""
    stripped = text.strip()
    if not stripped.startswith("/") or stripped.startswith("//"):
        return None
    name, _, arguments = stripped[1:].partition(" ")
    return (name.lower(), arguments.strip()) if name.replace("-", "").isalnum() else None


def plain_text(text: str) -> str:
    """The text without the slash that keeps it from being a command."""
    return text.strip()[1:] if text.strip().startswith("//") else text


def unknown_command(name: str, arguments: str, known: Iterable[str]) -> str | None:
    """What to say to ``/name`` if it was meant as a command; other text with a slash goes to the model."""
    near = get_close_matches(name, list(known), n=1)
    if not near and arguments:
        return None
    meant = f" Did you mean /{near[0]}?" if near else ""
    return f"There is no command /{name}.{meant} /help lists them; to say this to the model, begin with //."


def all_commands(plugin_commands: Mapping[str, Any]) -> dict[str, ChatCommand]:
    """The commands of the core and of plugins, which cannot replace those of the core."""
    commands = {command.name: command for command in _BUILTIN}
    for name, value in plugin_commands.items():
        command = value if isinstance(value, ChatCommand) else ChatCommand(name, "", value)
        commands.setdefault(name.lower().lstrip("/"), command)
    return commands


async def run_command(command: ChatCommand, call: CommandCall, owner: str | None = None) -> str:
    """Run a command of either kind, synchronous or not; a foreign failure becomes the answer.

    :param owner: who registered it, for the log.
    :raises HermitcrabError: what the command itself ran into, such as a model that fails.
    """
    try:
        answer = command.run(call)
        return await answer if inspect.isawaitable(answer) else answer
    except HermitcrabError:
        raise
    except Exception as error:
        logger.warning(
            "the command /%s of %s failed",
            command.name,
            owner or "the core",
            exc_info=True,
            extra={
                "session_key": call.session.log.key,
                "plugin_id": (owner or "").removeprefix("plugin:") or None,
            },
        )
        return f"/{command.name} failed: {type(error).__name__}: {error}"


async def _compact(call: CommandCall) -> str:
    outcome = await call.host.compact_now(call.session, call.arguments or None)
    return describe_compaction(outcome)


async def _new(call: CommandCall) -> str:
    await call.host.reset_now(call.session, call.name)
    if call.arguments:
        reply = await call.host.continue_turn(call.session.log.key, call.arguments)
        return reply.text
    return "A new conversation begins. The old one is kept on disk."


async def _status(call: CommandCall) -> str:
    lines = await call.host.describe_session(call.session)
    return "\n".join(f"{name}: {value}" for name, value in lines.items())


def _help(call: CommandCall) -> str:
    commands = call.host.commands()
    width = max(map(len, commands))
    return "\n".join(
        f"/{name:<{width}}  {command.help}" for name, command in sorted(commands.items())
    )


_BUILTIN = (
    ChatCommand("compact", "summarise older messages now; instructions may follow", _compact),
    ChatCommand("new", "begin a new conversation; a first message may follow", _new),
    ChatCommand("reset", "the same as /new", _new),
    ChatCommand("status", "window, engine and memory of this conversation", _status),
    *OVERRIDE_COMMANDS,
    ChatCommand("help", "this list", _help),
)
