"""What a tool is, and the tools that every agent has: ``read``, ``write``, ``edit`` and the memory tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from hermitcrab.agent.edits import edit_file, edits_of
from hermitcrab.agent.replacing import replace_file
from hermitcrab.errors import ToolError
from hermitcrab.memory.contract import MemoryBackend
from hermitcrab.memory.files import read_lines, safe_path
from hermitcrab.memory.tools import (
    MEMORY_GET,
    MEMORY_SEARCH,
    Cooldown,
    run_memory_get,
    run_memory_search,
)
from hermitcrab.memory.transcripts.guard import ASK_ELSEWHERE, ONLY_PRIVATE, may_read
from hermitcrab.messages.text import scrub_text
from hermitcrab.models.contract import ToolSchema


@frozen(kw_only=True)
class ToolContext:
    """Where a tool is called; ``memory`` is the agent's backend, where it has one."""

    agent_id: str
    session_key: str
    session_id: str
    workspace: Path
    memory: MemoryBackend | None = None


#: Runs a tool: gets the arguments and the context, returns the text for the model.
ToolRunner = Callable[[Mapping[str, Any], ToolContext], Awaitable[str]]


@frozen
class Tool:
    """A tool: what the model is told of it, and what runs.

    A runner raises :class:`~hermitcrab.errors.ToolError` for what the model can do better next time; any other
    exception is shown to the model by its class and text. ``optional`` tools can be left out by a plugin.
    """

    schema: ToolSchema
    run: ToolRunner
    optional: bool = True

    @property
    def name(self) -> str:
        return self.schema.name


READ = ToolSchema(
    "read",
    "Read a text file of the workspace.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "from": {"type": "integer", "minimum": 1},
            "lines": {"type": "integer", "minimum": 1},
        },
        "required": ["path"],
    },
)
WRITE = ToolSchema(
    "write",
    "Write a text file of the workspace, replacing what it held.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
)

_EDITED = {"oldText": {"type": "string"}, "newText": {"type": "string"}}
EDIT = ToolSchema(
    "edit",
    "Replace exact pieces of a text file of the workspace. Each oldText must stand in the file exactly once. "
    "Either all edits are made or none.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "edits": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": _EDITED,
                    "required": ["oldText", "newText"],
                },
            },
        },
        "required": ["path", "edits"],
    },
)


async def _run_read(arguments: Mapping[str, Any], context: ToolContext) -> str:
    name = _text(arguments, "path")
    start, lines = _number(arguments, "from") or 1, _number(arguments, "lines")

    def read() -> str:
        path = safe_path(context.workspace, name)
        inside = path.relative_to(context.workspace.resolve()).as_posix()
        if not may_read(context.session_key, inside):
            raise ToolError(ONLY_PRIVATE, where=name, hint=ASK_ELSEWHERE)
        if not path.is_file():
            raise ToolError("there is no such file", where=name)
        result = read_lines(path, path=name, start=start, lines=lines)
        more = (
            f"\n[The file goes on: read from line {result.next_start}.]"
            if result.next_start
            else ""
        )
        return result.text + more

    return await asyncio.to_thread(read)


async def _run_write(arguments: Mapping[str, Any], context: ToolContext) -> str:
    name, content = _text(arguments, "path"), arguments.get("content")
    if not isinstance(content, str):
        raise ToolError("'content' is required and must be a text")

    def write() -> int:
        path = safe_path(context.workspace, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = scrub_text(content)
        replace_file(path, text.encode("utf-8"))
        return len(text)

    written = await asyncio.to_thread(write)
    return f"Wrote {written} characters to {name}."


async def _run_edit(arguments: Mapping[str, Any], context: ToolContext) -> str:
    name, edits = _text(arguments, "path"), edits_of(arguments)

    def edit() -> str:
        path = safe_path(context.workspace, name)
        if not path.exists():
            raise ToolError("there is no such file", where=name)
        return edit_file(path, name, edits)

    difference = await asyncio.to_thread(edit)
    return f"Edited {name}:\n{difference}"


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"{name!r} is required and must be a text")
    return value


def _number(arguments: Mapping[str, Any], name: str) -> int | None:
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ToolError(f"{name!r} must be a whole number from 1")
    return value


@frozen(kw_only=True)
class MemoryToolSettings:
    """How the memory tools answer; ``cooldown`` is shared by all sessions of an agent."""

    citations: Any = "auto"
    max_results: int = 6
    cooldown: Cooldown = field(factory=Cooldown)


def builtin_tools(memory: MemoryBackend | None, settings: MemoryToolSettings) -> list[Tool]:
    """The tools of the core; those of memory only where there is a memory."""
    tools = [
        Tool(schema, run, optional=False)
        for schema, run in ((READ, _run_read), (WRITE, _run_write), (EDIT, _run_edit))
    ]
    if memory is None:
        return tools
    backend = memory

    async def search(arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await run_memory_search(
            backend,
            arguments,
            session_key=context.session_key,
            citations=settings.citations,
            max_results=settings.max_results,
            cooldown=settings.cooldown,
        )

    async def get(arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await run_memory_get(backend, arguments, session_key=context.session_key)

    return [*tools, Tool(MEMORY_SEARCH, search), Tool(MEMORY_GET, get)]
