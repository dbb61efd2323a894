"""The flush: a silent turn before compaction in which the model saves durable facts (memory 8, context 6.10)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen

from hermitcrab.errors import (
    HermitcrabError,
    ModelUnavailableError,
    PathRefusedError,
    ToolError,
)
from hermitcrab.memory import prompts
from hermitcrab.memory.daily import AppendOnlyDailyFile, daily_path
from hermitcrab.memory.files.paths import safe_path
from hermitcrab.memory.files.reading import read_lines
from hermitcrab.memory.silent import is_silent, strip_silent
from hermitcrab.messages.build import tool_result, user
from hermitcrab.messages.text import tool_calls_of
from hermitcrab.messages.types import Message, ToolCall
from hermitcrab.models.contract import (
    ChatModel,
    ChatReply,
    ChatRequest,
    TokenUsage,
    ToolSchema,
)

__all__ = ["FLUSH_TOOLS", "FlushOutcome", "is_silent", "run_flush", "strip_silent"]

#: A flush asks the model at most this often.
MAX_CALLS = 6

_ERROR_CHARACTERS = 200
_log = logging.getLogger("hermitcrab.memory")

FLUSH_TOOLS = (
    ToolSchema(
        "read",
        prompts.READ_TOOL_DESCRIPTION,
        {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "from": {"type": "integer", "minimum": 1},
                "lines": {"type": "integer", "minimum": 1},
            },
            "required": ["path"],
        },
    ),
    ToolSchema(
        "write",
        prompts.WRITE_TOOL_DESCRIPTION,
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    ),
)


@frozen(kw_only=True)
class FlushOutcome:
    """What a flush did: ``bytes_written`` to ``path`` within ``calls`` model calls.

    ``silent`` says that the model ended with a silent reply; ``error`` says why the flush failed, if it did.
    """

    path: str
    bytes_written: int = 0
    silent: bool = False
    error: str | None = None
    calls: int = 0
    usage: TokenUsage = field(factory=TokenUsage)


async def run_flush(
    model: ChatModel,
    *,
    messages: Sequence[Message],
    workspace: Path,
    now: datetime,
    zone: tzinfo,
    lock_path: Path,
    target: str | None = None,
    prompt: str | None = None,
    system_prompt: str | None = None,
    max_tokens: int | None = None,
    timeout_s: float | None = None,
) -> FlushOutcome:
    """Let ``model`` save what is worth keeping of ``messages`` to the daily file of ``now`` in ``zone``.

    The caller sees to it that ``messages`` fit the model. ``target`` overrides the daily file, ``prompt`` and
    ``system_prompt`` our texts; ``max_tokens`` limits each answer, and ``timeout_s`` how many seconds it may take.
    A failure, of the model or of the disk, is logged and returned, never raised; ``CancelledError`` propagates.
    """
    aware = (now if now.tzinfo is not None else now.replace(tzinfo=UTC)).astimezone(zone)
    path = target or daily_path(aware, zone)
    flush = _Flush(model, workspace, path, timeout_s)
    try:
        file = AppendOnlyDailyFile(workspace, path, lock_path)
        await asyncio.to_thread(_create, file)
        request = ChatRequest(
            messages=[*messages, user(prompts.flush_prompt(prompt, target=path, now=aware))],
            system=prompts.flush_system_prompt(system_prompt, target=path),
            tools=FLUSH_TOOLS,
            purpose="flush",
            max_tokens=max_tokens,
        )
        await flush.run(request, file)
    except Exception as error:  # noqa: BLE001 - a flush must never cost the user the reply (C73)
        _log.warning("the memory flush failed: %s", error, exc_info=error)
        flush.error = _short(error)
    return flush.outcome()


def _create(file: AppendOnlyDailyFile) -> None:
    if not file.workspace.is_dir():
        raise ToolError("the workspace does not exist", where=file.workspace)
    if not os.access(file.workspace, os.W_OK):
        raise ToolError("the workspace cannot be written", where=file.workspace)
    file.create()


def _short(error: Exception) -> str:
    text = str(error) if isinstance(error, HermitcrabError) else f"{type(error).__name__}: {error}"
    return text[:_ERROR_CHARACTERS]


@define
class _Flush:
    """One flush under way: calls the model and runs its tool calls until it answers with text alone."""

    model: ChatModel
    workspace: Path
    path: str
    timeout_s: float | None = None
    bytes_written: int = 0
    silent: bool = False
    error: str | None = None
    calls: int = 0
    usage: TokenUsage = field(factory=TokenUsage)

    async def run(self, request: ChatRequest, file: AppendOnlyDailyFile) -> None:
        conversation = list(request.messages)
        while self.calls < MAX_CALLS:
            self.calls += 1
            reply = await self._ask(evolve(request, messages=list(conversation)))
            self.usage += reply.usage
            calls = tool_calls_of(reply.message)
            if not calls:
                self.silent = not reply.text.strip() or is_silent(reply.text)
                return
            conversation.append(reply.message)
            conversation += [await self._answer(call, file) for call in calls]
        if not self.bytes_written:
            self.error = f"the model did not come to an end within {MAX_CALLS} calls"

    async def _ask(self, request: ChatRequest) -> ChatReply:
        """One request, in finite time: a model that hangs must not hold up the session (C7)."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.model.complete(request)
        except TimeoutError as error:
            raise ModelUnavailableError(
                f"no answer within {self.timeout_s:g} s", where=self.model.id
            ) from error

    async def _answer(self, call: ToolCall, file: AppendOnlyDailyFile) -> Message:
        try:
            text = await self._use(call["name"], call["arguments"], file)
        except (ToolError, OSError) as error:
            return tool_result(call["id"], call["name"], str(error), is_error=True)
        return tool_result(call["id"], call["name"], text)

    async def _use(self, name: str, arguments: Mapping[str, Any], file: AppendOnlyDailyFile) -> str:
        if name == "write":
            return await self._write(arguments, file)
        if name == "read":
            return await asyncio.to_thread(_read, self.workspace, arguments)
        raise ToolError(
            f"there is no tool {name!r} here", hint="The tools of a flush are read and write"
        )

    async def _write(self, arguments: Mapping[str, Any], file: AppendOnlyDailyFile) -> str:
        path = arguments.get("path")
        if path != file.path:
            raise PathRefusedError(
                "a flush may write to today's memory file only",
                where=str(path),
                hint=f"Write to {file.path}",
            )
        content = arguments.get("content")
        if not isinstance(content, str):
            raise ToolError("'content' must be a text")
        written = await asyncio.to_thread(file.append, content)
        self.bytes_written += written
        return f"Appended {written} bytes." if written else "The file says all of this already."

    def outcome(self) -> FlushOutcome:
        return FlushOutcome(
            path=self.path,
            bytes_written=self.bytes_written,
            silent=self.silent,
            error=self.error,
            calls=self.calls,
            usage=self.usage,
        )


def _read(workspace: Path, arguments: Mapping[str, Any]) -> str:
    path = arguments.get("path")
    if not isinstance(path, str):
        raise ToolError("'path' must be a text")
    result = read_lines(
        safe_path(workspace, path),
        path=path,
        start=_whole(arguments.get("from"), 1),
        lines=_whole(arguments.get("lines"), None),
    )
    if result.status == "not_found":
        raise ToolError("there is no such file", where=path)
    more = f"\n[more from line {result.next_start}]" if result.next_start else ""
    return result.text + more


def _whole(value: object, default: Any) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
