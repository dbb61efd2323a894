"""What ``/status`` and ``hermitcrab status`` show."""

from __future__ import annotations

from typing import Any

from hermitcrab.agent.agent import Agent
from hermitcrab.agent.commands.level_wording import activation_text, levels_line, sending_text
from hermitcrab.agent.session import SessionContext
from hermitcrab.agent.setup import TurnSetup
from hermitcrab.config.schema import SessionConfig
from hermitcrab.errors import HermitcrabError
from hermitcrab.sessions.activation import configured_activation
from hermitcrab.sessions.entries import SessionEntry
from hermitcrab.sessions.keys import channel_of, chat_type
from hermitcrab.sessions.send_policy import may_send
from hermitcrab.sessions.states import describe_state


async def describe_session(
    context: SessionContext, setup: TurnSetup, policies: SessionConfig, *, tokenizer: str
) -> dict[str, str]:
    """The state of one session in words, in the order in which a person reads it."""
    budget = context.budget(setup.system, setup.toolbox.schemas)
    tokens = await context.measure(budget)
    entry = context.log.entry
    degraded = context.engine.degradation()
    said = [item for item in context.log.items() if not (item.is_summary or item.is_synthetic)]
    last = said[-1].message if said else None
    lines = {
        "Session": f"{entry.key} ({entry.session_id})",
        "State": describe_state(context.activity.state, entry.status, last),
        "Model": context.model.id,
        "Levels": levels_line(setup.levels),
        "Context": f"{tokens + budget.fixed:,} of {budget.window:,} tokens ({tokenizer})",
        "Compactions": f"{entry.compaction_count}{_last_compaction(entry.last_compaction)}",
        "Engine": context.engine.selected_id
        if degraded is None
        else f"legacy: {degraded.reason}. {degraded.hint}",
        "Memory": await memory_line(setup.agent),
    }
    pruning = context.pruner.describe(context.log.path, context.model.id)
    if pruning is not None:
        lines["Pruning"] = pruning
    lines |= _policy_lines(entry, policies)
    if entry.flush_error:
        lines["Flush"] = f"failed {entry.flush_failures} times: {entry.flush_error}"
    return lines


def _policy_lines(entry: SessionEntry, policies: SessionConfig) -> dict[str, str]:
    """What goes out, and in groups what is answered."""
    is_sent = may_send(
        policies.send_policy,
        entry.key,
        own=entry.send_policy,
        channel=entry.channel or channel_of(entry.key),
        kind=entry.chat_type,
    )
    lines = {"Sending": sending_text(entry.send_policy, is_sent=is_sent)}
    if chat_type(entry.key) in {"group", "channel"}:
        configured = configured_activation(channel_of(entry.key), policies)
        lines["Activation"] = activation_text(entry.group_activation, configured)
    return lines


def _last_compaction(record: Any) -> str:
    if not record:
        return ""
    if record.get("status") == "compacted":
        return f" (the last one: {record['reason']})" if record.get("reason") else ""
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
