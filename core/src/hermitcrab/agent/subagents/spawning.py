"""Subagents as values: what is asked for, what came of it, and what models are told (sessions 2.2, 5.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from hermitcrab.config import AgentSettings
from hermitcrab.context.contract import SubagentContextMode, SubagentEndReason
from hermitcrab.errors import SpawnRefusedError, ToolError
from hermitcrab.messages.build import user
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import TokenUsage, ToolSchema
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.keys import subagent_depth

SpawnOutcome = Literal["ok", "error", "timeout", "killed", "reset", "deleted"]
#: What becomes of a subagent's session once its result is handed over.
Cleanup = Literal["keep", "delete"]
#: The tool with which a model starts a subagent.
SPAWN_TOOL = "spawn_agent"
#: What a result is marked with that is handed to the parent (sessions 5.5).
ANNOUNCE_TOOL = "subagent_announce"
#: Outcomes that the parent hears of; with the others, nobody waits for a result any more.
ANNOUNCED: frozenset[SpawnOutcome] = frozenset({"ok", "error", "timeout"})
#: What engines are told of the end.
END_REASONS: Mapping[SpawnOutcome, SubagentEndReason] = {
    "ok": "completed",
    "error": "completed",
    "timeout": "completed",
    "killed": "released",
    "reset": "released",
    "deleted": "deleted",
}


@frozen(kw_only=True)
class SpawnRequest:
    """A task for a subagent.

    :param context: ``fork`` begins with a copy of the parent's conversation, ``isolated`` with nothing.
    :param agent_id: the agent that does it; ``None`` is the parent's.
    :param model: ``provider/name``; ``None`` is the agent's own.
    :param timeout_s: how long it may take, in seconds; ``None`` is what config says, 0 is without limit.
    :param cleanup: whether its session stays or is deleted.
    :param announce: whether the result is also appended to the parent's conversation.
    """

    prompt: str
    context: SubagentContextMode = "isolated"
    label: str | None = None
    agent_id: str | None = None
    model: str | None = None
    timeout_s: float | None = None
    cleanup: Cleanup = "keep"
    announce: bool = True

    def end_reason(self, outcome: SpawnOutcome) -> SubagentEndReason:
        """What engines and plugins are told of the end."""
        return "deleted" if self.cleanup == "delete" else END_REASONS[outcome]


@frozen(kw_only=True)
class SpawnResult:
    """What a subagent came to.

    ``outcome`` is ``ok``, ``error`` (with the ``error``), ``timeout``, ``killed`` by whoever waited for it or by the
    end of the host, or ``reset`` with its parent. ``announcement`` is the message that is handed to the parent, at once
    or when its turn is over; ``delivery`` is where a plugin wants the result to go.
    """

    session_key: str
    session_id: str
    run_id: str
    outcome: SpawnOutcome
    text: str = ""
    error: str | None = None
    usage: TokenUsage = field(factory=TokenUsage)
    duration_ms: int = 0
    announcement: Message | None = None
    delivery: Mapping[str, Any] | None = None


def check_limits(
    parent: SessionEntry, settings: AgentSettings, request: SpawnRequest, running: int
) -> int:
    """Whether a session may start another subagent beside the ``running`` ones; returns the depth of the new one.

    :raises SpawnRefusedError: if it may not.
    """
    limits = settings.subagents
    depth = (parent.spawn_depth or subagent_depth(parent.key)) + 1
    if not request.prompt.strip():
        raise SpawnRefusedError("a subagent needs a task", where=parent.key)
    if depth > limits.max_spawn_depth:
        raise SpawnRefusedError(
            f"a subagent of this session would stand {depth} deep, and {limits.max_spawn_depth} is the limit",
            where=parent.key,
            hint="See agents.defaults.subagents.maxSpawnDepth.",
        )
    if running >= limits.max_children_per_agent:
        raise SpawnRefusedError(
            f"{running} subagents of this session are running, which is the limit",
            where=parent.key,
            hint="Wait for one of them, or see agents.defaults.subagents.maxChildrenPerAgent.",
        )
    own = settings.agent_id
    if request.agent_id not in {None, own, *limits.allow_agents}:
        raise SpawnRefusedError(
            f"agent {request.agent_id!r} may not work for agent {own!r}",
            where=parent.key,
            hint="See agents.defaults.subagents.allowAgents.",
        )
    return depth


def may_spawn(key: str, settings: AgentSettings) -> bool:
    """Whether the depth of a session allows it subagents at all."""
    return subagent_depth(key) < settings.subagents.max_spawn_depth


def task_provenance(parent_key: str) -> dict[str, str]:
    """What the task is marked with: no user wrote it, and yet it is what the subagent is to do."""
    return {
        "kind": "internal_system",
        "sourceSessionKey": parent_key,
        "sourceTool": SPAWN_TOOL,
    }


def announcement_of(result: SpawnResult, label: str | None, now_ms: int) -> Message:
    """The result as a message for the parent; the model sees that it is no user's (sessions 5.5)."""
    name = f"subagent {label!r}" if label else "subagent"
    message = user(f"[Result of {name}: {result.outcome}]\n{told(result)}", timestamp=now_ms)
    message["provenance"] = {
        "kind": "inter_session",
        "originSessionId": result.session_id,
        "sourceSessionKey": result.session_key,
        "sourceTool": ANNOUNCE_TOOL,
    }
    return message


def told(result: SpawnResult) -> str:
    """What there is to say of a result in one text."""
    if result.outcome == "ok":
        return result.text or "(It has nothing to say.)"
    return result.error or f"It ended without a result: {result.outcome}."


def spawn_schema(settings: AgentSettings) -> ToolSchema:
    """The tool as a model sees it."""
    properties: dict[str, Any] = {
        "task": {
            "type": "string",
            "description": "The whole task, in the language of the conversation.",
        },
        "context": {
            "type": "string",
            "enum": ["isolated", "fork"],
            "description": "isolated (default): it knows the task alone; fork: this conversation too.",
        },
        "label": {"type": "string", "description": "A short name for it."},
        "timeoutSeconds": {"type": "integer", "minimum": 1},
    }
    if settings.subagents.allow_agents:
        names = [settings.agent_id, *settings.subagents.allow_agents]
        properties["agentId"] = {"type": "string", "enum": list(dict.fromkeys(names))}
    return ToolSchema(
        SPAWN_TOOL,
        "Give a task to a subagent, which works in a session of its own, and wait for its result.",
        {"type": "object", "properties": properties, "required": ["task"]},
    )


def parse_spawn_call(arguments: Mapping[str, Any]) -> SpawnRequest:
    """What a model asks for.

    :raises ToolError: if an argument is missing or wrong.
    """
    timeout = arguments.get("timeoutSeconds")
    if timeout is not None and (type(timeout) is not int or timeout < 1):
        raise ToolError("'timeoutSeconds' must be a whole number from 1")
    context: Any = arguments.get("context") or "isolated"
    if context not in {"isolated", "fork"}:
        raise ToolError("'context' must be isolated or fork")
    task = _text(arguments, "task")
    if task is None:
        raise ToolError("'task' is required and must be a text")
    return SpawnRequest(
        prompt=task,
        context=context,
        label=_text(arguments, "label"),
        agent_id=_text(arguments, "agentId"),
        timeout_s=timeout,
        announce=False,
    )


def _text(arguments: Mapping[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise ToolError(f"{name!r} must be a text")
    return (value or "").strip() or None
