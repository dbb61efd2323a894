"""Running the tool calls of an assistant message, with the hooks around them (design 6)."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from hermitcrab.agent.events import Emit, ToolEnded, ToolStarted
from hermitcrab.agent.preparation import failed_plugin
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.tools import Tool, ToolContext
from hermitcrab.errors import HermitcrabError, HookError, ToolError
from hermitcrab.hooks import AfterToolCall, BeforeToolCall, ToolResultPersist
from hermitcrab.messages.build import tool_result
from hermitcrab.messages.text import scrub_text, text_of
from hermitcrab.messages.types import Message, ToolCall
from hermitcrab.models.contract import ToolSchema

logger = logging.getLogger("hermitcrab.agent")

BLOCKED = "Tool call blocked by plugin hook"
GATE_FAILED = "Tool call blocked because before_tool_call hook failed"


class Toolbox:
    """The tools of one turn."""

    def __init__(self, tools: Sequence[Tool], context: ToolContext) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._context = context

    @classmethod
    def of(cls, other: Toolbox) -> Self:
        """A toolbox of this class with the tools of another."""
        return cls(list(other._tools.values()), other._context)

    @property
    def schemas(self) -> list[ToolSchema]:
        return [tool.schema for tool in self._tools.values()]

    def restrict(self, allowed: Sequence[str]) -> None:
        """Leave out optional tools that are not in ``allowed``."""
        self._tools = {
            name: tool for name, tool in self._tools.items() if not tool.optional or name in allowed
        }

    async def result_of(self, call: ToolCall, arguments: Mapping[str, Any]) -> Message | None:
        """Run one call; its result is a message, an error included. ``None`` says that there is no result at all."""
        tool = self._tools.get(call["name"])
        try:
            if tool is None:
                names = ", ".join(sorted(self._tools)) or "none"
                raise ToolError(f"there is no tool {call['name']!r}", hint=f"Tools: {names}.")
            _check_arguments(call)
            text = _checked_text(await tool.run(arguments, self._context))
        except ToolError as error:
            return tool_result(call["id"], call["name"], str(error), is_error=True)
        except Exception as error:
            logger.warning(
                "tool %s failed",
                call["name"],
                exc_info=True,
                extra={"session_key": self._context.session_key},
            )
            text = (
                str(error)
                if isinstance(error, HermitcrabError)
                else f"{type(error).__name__}: {error}"
            )
            return tool_result(call["id"], call["name"], text, is_error=True)
        return tool_result(call["id"], call["name"], scrub_text(text))


def _check_arguments(call: ToolCall) -> None:
    """A call whose arguments broke off must not run with none: the model is told instead."""
    if "rawArguments" in call:
        raise ToolError(
            f"the arguments of {call['name']!r} are not a JSON object",
            hint="They may have been cut off. Send the call again, with less text if it was long.",
        )


def _checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise ToolError(f"the tool returned a {type(value).__name__}, not a text")
    return value


async def run_call(
    session: SessionContext, toolbox: Toolbox, call: ToolCall, *, run_id: str, emit: Emit
) -> Message | None:
    """Run one tool call with all its hooks and append its result, which is returned if there is one."""
    arguments, refusal = await _ask_gate(session, call, run_id)
    emit(ToolStarted(call_id=call["id"], name=call["name"], arguments=arguments))
    started = time.monotonic()
    result: Message | None
    if refusal is not None:
        result = tool_result(call["id"], call["name"], refusal, is_error=True)
    else:
        result = await toolbox.result_of(call, arguments)
    if result is None:
        return None
    result = _persisted(session, call, result)
    await session.append(result)
    is_error = bool(result.get("isError"))
    session.fire_background(
        AfterToolCall(
            tool_name=call["name"],
            params=arguments,
            run_id=run_id,
            tool_call_id=call["id"],
            result=text_of(result),
            error=text_of(result) if is_error else None,
            duration_ms=round((time.monotonic() - started) * 1000),
        )
    )
    emit(
        ToolEnded(call_id=call["id"], name=call["name"], result=text_of(result), is_error=is_error)
    )
    return result


async def _ask_gate(
    session: SessionContext, call: ToolCall, run_id: str
) -> tuple[Mapping[str, Any], str | None]:
    """The arguments as plugins leave them, and why the call must not run, if so."""
    event = BeforeToolCall(
        tool_name=call["name"],
        params=call["arguments"],
        run_id=run_id,
        tool_call_id=call["id"],
    )
    try:
        decision = await session.fire(event)
    except HookError as error:
        logger.warning(
            "%s",
            error,
            extra={"session_key": session.log.key, "plugin_id": failed_plugin(error)},
        )
        return call["arguments"], GATE_FAILED
    if decision is None:
        return call["arguments"], None
    if decision.block:
        return call["arguments"], decision.block_reason or BLOCKED
    return {**call["arguments"], **(decision.params or {})}, None


def _persisted(session: SessionContext, call: ToolCall, result: Message) -> Message:
    decision = session.parts.hooks.fire_sync(
        ToolResultPersist(message=result, tool_name=call["name"], tool_call_id=call["id"]),
        session.hook_context,
    )
    if decision is None or decision.message is None:
        return result
    return decision.message
