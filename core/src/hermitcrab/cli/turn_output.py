"""A turn on the terminal: text on stdout as it arrives, everything else as dim lines on stderr."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.output import note, one_line, printable, warn
from hermitcrab.memory.silent import SILENT_TOKEN

if TYPE_CHECKING:
    from hermitcrab.agent.events import Flushed, Reply, ToolStarted, TurnEvent

_ARGUMENT_CHARACTERS = 60
_ERROR_CHARACTERS = 120


class TurnOutput:
    """Shows the events of one turn."""

    def __init__(self) -> None:
        self._held = ""
        self._shown = ""
        self._line_is_open = False
        self._told: set[str] = set()

    def show(self, event: TurnEvent) -> None:
        """Show one event."""
        from hermitcrab.agent.commands import describe_compaction
        from hermitcrab.agent.events import Compacted, Flushed, Reply, ToolEnded, ToolStarted
        from hermitcrab.models.contract import TextDelta

        if isinstance(event, TextDelta):
            self._text(event.text)
        elif isinstance(event, ToolStarted):
            self._aside(_tool_line(event))
        elif isinstance(event, ToolEnded):
            if event.is_error:
                self._aside(f"  {event.name} failed: {one_line(event.result, _ERROR_CHARACTERS)}")
        elif isinstance(event, Flushed):
            self._aside(_flush_line(event))
        elif isinstance(event, Compacted):
            self._aside(describe_compaction(event.outcome))
        elif isinstance(event, Reply):
            self._reply(event)

    def interrupted(self) -> None:
        """End a turn that the user cancelled."""
        self._release()
        self._aside("cancelled; what was said so far is kept")

    def end_line(self) -> None:
        """Begin a new line on stdout, unless one has begun."""
        if self._line_is_open:
            click.echo()
            self._line_is_open = False

    def _text(self, text: str) -> None:
        # A reply that may still turn out to be silent is not shown yet.
        self._held += text
        if not SILENT_TOKEN.startswith(self._held.strip()[: len(SILENT_TOKEN)].upper()):
            self._release()

    def _release(self) -> None:
        text, self._held = printable(self._held), ""
        if text:
            click.echo(text, nl=False)
            self._shown += text
            self._line_is_open = not text.endswith("\n")

    def _aside(self, line: str) -> None:
        self.end_line()
        note(f"· {line}")

    def _reply(self, reply: Reply) -> None:
        self._held = ""
        text = printable(reply.text)
        if not reply.silent and not self._shown.rstrip().endswith(text.rstrip()):
            self.end_line()
            click.echo(text, nl=False)
            self._line_is_open = True
        self.end_line()
        for sentence in reply.notes:
            note(sentence)
        for sentence in reply.degraded:
            warn(sentence)


def _tool_line(event: ToolStarted) -> str:
    return f"{event.name}({short_arguments(event.arguments)})"


def short_arguments(arguments: Mapping[str, Any]) -> str:
    """The arguments of a tool call on one line."""
    shown = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        shown.append(f"{name}={one_line(text, _ARGUMENT_CHARACTERS)}")
    return ", ".join(shown)


def _flush_line(event: Flushed) -> str:
    outcome = event.outcome
    if outcome.error is not None:
        return f"saving to memory failed: {one_line(outcome.error, _ERROR_CHARACTERS)}"
    if not outcome.bytes_written:
        return "nothing new to save to memory"
    return f"saved {outcome.bytes_written:,} bytes to {outcome.path}"
