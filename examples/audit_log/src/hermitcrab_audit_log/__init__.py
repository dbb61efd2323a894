"""Hooks that write every tool call to a file, and refuse some."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import frozen

from hermitcrab import hookimpl
from hermitcrab.hooks import AfterToolCall, BeforeToolCall, HookContext, ToolCallDecision

PRIVATE = 0o600


@frozen(kw_only=True)
class AuditSettings:
    """``file`` is relative to the home; ``blocked_tools`` are refused."""

    file: str = "audit.jsonl"
    blocked_tools: tuple[str, ...] = ()


@hookimpl
def config_class() -> type[AuditSettings]:
    return AuditSettings


@hookimpl(priority=100)
async def before_tool_call(event: BeforeToolCall, ctx: HookContext) -> ToolCallDecision | None:
    """A gate: if this fails, the tool does not run."""
    if event.tool_name not in ctx.plugin_config.blocked_tools:
        return None
    append(ctx, tool=event.tool_name, arguments=sorted(event.params), outcome="blocked")
    return ToolCallDecision(block=True, block_reason="the audit does not allow this tool")


@hookimpl(blocking=True)
def after_tool_call(event: AfterToolCall, ctx: HookContext) -> None:
    """Runs in a thread beside the turn, since it writes to the disk."""
    if event.tool_name in ctx.plugin_config.blocked_tools:
        return  # it did not run, and is written down already
    append(
        ctx,
        tool=event.tool_name,
        arguments=sorted(event.params),
        outcome="ok" if event.error is None else "failed",
        durationMs=event.duration_ms,
    )


def append(ctx: HookContext, **what: Any) -> None:
    """One line of JSON at the end of the log; a single write, so that lines of several hosts do not mix."""
    who = {"at": datetime.now(UTC).isoformat(), "agent": ctx.agent_id, "session": ctx.session_key}
    line = json.dumps({**who, **what}, ensure_ascii=False) + "\n"
    file = Path(ctx.home or ".") / ctx.plugin_config.file
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
