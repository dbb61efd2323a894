"""What a turn tells of its work besides the text: tool calls and thinking, as the levels of its session ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hermitcrab.agent.events import Emit, ToolEnded, ToolStarted, TurnEvent
from hermitcrab.messages.text import blocks_of
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ThinkingDelta
from hermitcrab.sessions.effective_levels import SessionLevels

_ARGUMENT_CHARACTERS = 60
_RESULT_CHARACTERS = 400


class ShownWork:
    """Passes the events of one turn on, and keeps what its reply says of them."""

    def __init__(self, levels: SessionLevels | None, emit: Emit) -> None:
        verbose = None if levels is None else levels.verbose
        self._verbose = "off" if verbose is None else verbose.value
        self._reasoning = "off" if levels is None else levels.reasoning.value
        self._emit = emit
        self._tool_lines: list[str] = []
        self._thoughts: list[str] = []
        self._streamed = False

    @property
    def streams_thinking(self) -> bool:
        """Whether thinking is told as it arrives."""
        return self._reasoning == "stream"

    @property
    def reasoning(self) -> str:
        """What the model thought in this turn, if that is to be shown."""
        return "\n\n".join(self._thoughts)

    @property
    def tool_lines(self) -> tuple[str, ...]:
        """The tool calls of this turn in words, if they are to be shown."""
        return tuple(self._tool_lines)

    def event(self, event: TurnEvent) -> None:
        """Pass an event on."""
        self._emit(event)
        if self._verbose == "off":
            return
        if isinstance(event, ToolStarted):
            self._tool_lines.append(tool_line(event.name, event.arguments))
        elif isinstance(event, ToolEnded) and (event.is_error or self._verbose == "full"):
            verb = "failed" if event.is_error else "returned"
            result = one_line(event.result, _RESULT_CHARACTERS)
            self._tool_lines.append(f"{event.name} {verb}: {result}")

    def thinking(self, delta: ThinkingDelta) -> None:
        """Pass a piece of thinking on, where it is to be told as it arrives."""
        if self.streams_thinking:
            self._streamed = True
            self._emit(delta)

    def answered(self, message: Message) -> None:
        """Take in an answer; thinking that its model did not stream is told now."""
        thought = thinking_of(message)
        streamed, self._streamed = self._streamed, False
        if not thought or self._reasoning == "off":
            return
        self._thoughts.append(thought)
        if self.streams_thinking and not streamed:
            self._emit(ThinkingDelta(thought))


def thinking_of(message: Message) -> str:
    """The thinking in an answer."""
    texts = (block.get("thinking") for block in blocks_of(message) if block["type"] == "thinking")
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def tool_line(name: str, arguments: Mapping[str, Any]) -> str:
    """A tool call on one line."""
    return f"{name}({short_arguments(arguments)})"


def short_arguments(arguments: Mapping[str, Any]) -> str:
    """The arguments of a tool call on one line."""
    shown = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        shown.append(f"{name}={one_line(text, _ARGUMENT_CHARACTERS)}")
    return ", ".join(shown)


def one_line(text: str, limit: int) -> str:
    """The start of a text on one line, at most ``limit`` characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= limit else f"{joined[: limit - 1]}…"
