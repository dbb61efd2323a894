"""What ``/status`` and ``hermitcrab status`` show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermitcrab.agent.session import SessionContext
from hermitcrab.errors import HermitcrabError
from hermitcrab.sessions.keys import agent_id_of

if TYPE_CHECKING:
    from hermitcrab.agent.agent import Agent
    from hermitcrab.agent.host import Host


async def describe_session(host: Host, context: SessionContext) -> dict[str, str]:
    """The state of one session in words, in the order in which a person reads it."""
    agent = await host.agent(agent_id_of(context.log.key))
    setup = await host.set_up(context)
    budget = context.budget(setup.system, setup.toolbox.schemas)
    tokens = context.measure(budget)
    entry = context.log.entry
    degraded = context.engine.degradation()
    lines = {
        "Session": f"{entry.key} ({entry.session_id})",
        "Model": context.model.id,
        "Context": f"{tokens + budget.fixed:,} of {budget.window:,} tokens ({host.counter.name})",
        "Compactions": f"{entry.compaction_count}{_last_compaction(entry.last_compaction)}",
        "Engine": context.engine.selected_id
        if degraded is None
        else f"legacy: {degraded.reason}. {degraded.hint}",
        "Memory": await memory_line(agent),
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
