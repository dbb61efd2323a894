"""Hooks: the points at which plugins observe or change a turn.

Every hook has an event class, named after it, and where it can answer a result class. A handler takes any of ``event``
and ``ctx`` (a :class:`HookContext`) and may be ``async def`` or ``def``::

    @hookimpl(priority=10)
    async def before_prompt_build(event, ctx):
        return PromptBuild(prepend_context="Today is a holiday.")
"""

from __future__ import annotations

from hermitcrab.hooks.context import HookContext
from hermitcrab.hooks.delivery import (
    InboundClaim,
    MessageReceived,
    MessageSending,
    MessageSendingDecision,
    MessageSent,
    ReplyPayloadDecision,
    ReplyPayloadSending,
)
from hermitcrab.hooks.events import HookEvent
from hermitcrab.hooks.lifecycle import (
    AfterCompaction,
    BeforeCompaction,
    BeforeReset,
    CompactionDecision,
    FlushRequest,
    GatewayStart,
    GatewayStop,
    SessionBeforeCompact,
    SessionEnd,
    SessionStart,
    SubagentDelivery,
    SubagentDeliveryTarget,
    SubagentEnded,
    SubagentSpawnDecision,
    SubagentSpawned,
    SubagentSpawning,
)
from hermitcrab.hooks.markers import hookimpl
from hermitcrab.hooks.tools import (
    AfterToolCall,
    BeforeMessageWrite,
    BeforeToolCall,
    MessageWriteDecision,
    ToolCallDecision,
    ToolResultPersist,
    ToolResultReplacement,
)
from hermitcrab.hooks.turn import (
    AgentEnd,
    AgentStart,
    AgentTurnPrepare,
    Attachment,
    BeforeAgentFinalize,
    BeforeAgentReply,
    BeforeAgentRun,
    BeforeAgentStart,
    BeforeModelResolve,
    BeforePromptBuild,
    Claim,
    Finalize,
    LlmInput,
    LlmOutput,
    ModelCallEnded,
    ModelCallStarted,
    ModelChoice,
    PromptBuild,
    RunDecision,
    TurnPreparation,
)

__all__ = [
    "AfterCompaction",
    "AfterToolCall",
    "AgentEnd",
    "AgentStart",
    "AgentTurnPrepare",
    "Attachment",
    "BeforeAgentFinalize",
    "BeforeAgentReply",
    "BeforeAgentRun",
    "BeforeAgentStart",
    "BeforeCompaction",
    "BeforeMessageWrite",
    "BeforeModelResolve",
    "BeforePromptBuild",
    "BeforeReset",
    "BeforeToolCall",
    "Claim",
    "CompactionDecision",
    "Finalize",
    "FlushRequest",
    "GatewayStart",
    "GatewayStop",
    "HookContext",
    "HookEvent",
    "InboundClaim",
    "LlmInput",
    "LlmOutput",
    "MessageReceived",
    "MessageSending",
    "MessageSendingDecision",
    "MessageSent",
    "MessageWriteDecision",
    "ModelCallEnded",
    "ModelCallStarted",
    "ModelChoice",
    "PromptBuild",
    "ReplyPayloadDecision",
    "ReplyPayloadSending",
    "RunDecision",
    "SessionBeforeCompact",
    "SessionEnd",
    "SessionStart",
    "SubagentDelivery",
    "SubagentDeliveryTarget",
    "SubagentEnded",
    "SubagentSpawnDecision",
    "SubagentSpawned",
    "SubagentSpawning",
    "ToolCallDecision",
    "ToolResultPersist",
    "ToolResultReplacement",
    "TurnPreparation",
    "hookimpl",
]
