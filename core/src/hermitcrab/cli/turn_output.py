"""A turn on the terminal: text on stdout as it arrives, everything else as dim lines on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hermitcrab.cli.output import note, one_line, printable, warn
from hermitcrab.memory.silent import SILENT_TOKEN

if TYPE_CHECKING:
    from hermitcrab.agent.events import Flushed, Reply, ToolEnded, ToolStarted, TurnEvent
    from hermitcrab.agent.host import Host

_ERROR_CHARACTERS = 120
_RESULT_CHARACTERS = 400


class TurnOutput:
    """Shows the events of one turn.

    :param verbose: ``off`` for no tool calls, ``full`` for what they returned as well.
    """

    def __init__(self, verbose: str | None = None) -> None:
        self._verbose = verbose or "on"
        self._thinking = ""
        self._has_shown_thinking = False
        self._held = ""
        self._shown = ""
        self._line_is_open = False
        self._told: set[str] = set()

    def show(self, event: TurnEvent) -> None:
        """Show one event."""
        from hermitcrab.agent.events import Compacted, Flushed, Reply, ToolEnded, ToolStarted
        from hermitcrab.agent.notices import describe_compaction
        from hermitcrab.models.contract import TextDelta, ThinkingDelta

        if isinstance(event, ThinkingDelta):
            self._think(event.text)
            return
        self._end_thinking()
        if isinstance(event, TextDelta):
            self._text(event.text)
        elif isinstance(event, ToolStarted | ToolEnded):
            self._tool(event)
        elif isinstance(event, Flushed):
            self._aside(_flush_line(event))
        elif isinstance(event, Compacted):
            self._aside(describe_compaction(event.outcome))
        elif isinstance(event, Reply):
            self._reply(event)

    def _tool(self, event: ToolStarted | ToolEnded) -> None:
        from hermitcrab.agent.events import ToolStarted
        from hermitcrab.agent.shown_work import tool_line

        if self._verbose == "off":
            return
        if isinstance(event, ToolStarted):
            self._aside(tool_line(event.name, event.arguments))
        elif event.is_error:
            self._aside(f"  {event.name} failed: {one_line(event.result, _ERROR_CHARACTERS)}")
        elif self._verbose == "full":
            self._aside(f"  {event.name} returned: {one_line(event.result, _RESULT_CHARACTERS)}")

    def _think(self, text: str) -> None:
        """Show thinking as it arrives, a line at a time."""
        self._has_shown_thinking = True
        *lines, self._thinking = (self._thinking + text).split("\n")
        for line in lines:
            self._aside(line)

    def _end_thinking(self) -> None:
        line, self._thinking = self._thinking, ""
        if line:
            self._aside(line)

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
        if not self._has_shown_thinking:
            for line in reply.reasoning.splitlines():
                self._aside(line)
        for sentence in reply.notes:
            note(sentence)
        for sentence in reply.degraded:
            warn(sentence)


async def output_for(host: Host, key: str) -> TurnOutput:
    """What shows the next turn of a session; of one that cannot be opened, the turn itself will tell."""
    from hermitcrab.errors import HermitcrabError

    try:
        verbose = (await host.levels(key)).verbose
    except HermitcrabError:
        verbose = None
    return TurnOutput(None if verbose is None else verbose.value)


def _flush_line(event: Flushed) -> str:
    outcome = event.outcome
    if outcome.error is not None:
        return f"saving to memory failed: {one_line(outcome.error, _ERROR_CHARACTERS)}"
    if not outcome.bytes_written:
        return "nothing new to save to memory"
    return f"saved {outcome.bytes_written:,} bytes to {outcome.path}"
