"""What ``/status`` and ``hermitcrab status`` show."""

from __future__ import annotations

from typing import Any

from hermitcrab.agent.agent import Agent
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.setup import TurnSetup
from hermitcrab.errors import HermitcrabError


async def describe_session(
    context: SessionContext, setup: TurnSetup, *, tokenizer: str
) -> dict[str, str]:
    """The state of one session in words, in the order in which a person reads it."""
    budget = context.budget(setup.system, setup.toolbox.schemas)
    tokens = context.measure(budget)
    entry = context.log.entry
    degraded = context.engine.degradation()
    lines = {
        "Session": f"{entry.key} ({entry.session_id})",
        "Model": context.model.id,
        "Context": f"{tokens + budget.fixed:,} of {budget.window:,} tokens ({tokenizer})",
        "Compactions": f"{entry.compaction_count}{_last_compaction(entry.last_compaction)}",
        "Engine": context.engine.selected_id
        if degraded is None
        else f"legacy: {degraded.reason}. {degraded.hint}",
        "Memory": await memory_line(setup.agent),
    }
    if entry.flush_error:
        lines["Flush"] = f"failed {entry.flush_failures} times: {entry.flush_error}"
    return lines


def _last_compaction(record: Any) -> str:
    if not record or record.get("status") == "compacted":
        return ""
    return f" (the last try: {record.get('status')}, {record.get('reason')})"


async def memory_line(agent: Agent) -> str:
    """The memory of an agent in one line."""
    if agent.memory is None:
        return agent.memory_failure or "none"
    try:
        status = await agent.memory.status()
    except HermitcrabError as error:
        return f"unavailable: {error}"
    text = f"{status.backend}, {status.files} files, {status.chunks} chunks, {status.mode} search"
    return f"{text}; last error: {status.last_error}" if status.last_error else text
