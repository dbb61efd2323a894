"""The table of hooks: what each one is called with, may answer, and how long it may take (sessions 6.1 to 6.7)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from attrs import frozen

from hermitcrab.hooks import delivery, lifecycle, tools, turn
from hermitcrab.hooks.events import HookEvent

Mode = Literal["void", "modifying", "claiming", "sync"]

#: The arguments that the host offers to every handler; a handler takes any of them.
HANDLER_ARGUMENTS = ("event", "ctx")

#: How long an awaited handler may take where sessions 6.4 says nothing, in milliseconds.
AWAITED_TIMEOUT_MS = 15_000


@frozen(kw_only=True)
class HookSpecification:
    """One row of the table.

    :param awaited: whether the host waits for the handlers; otherwise it goes on and they run beside it.
    :param default_timeout_ms: per handler, in milliseconds; None is no limit.
    :param gate: a handler that fails refuses what the hook guards (fail-closed).
    :param answer_required: a handler of this gate must answer; an invalid answer or none at all is a block.
    :param chained: the field of the event in which each handler sees the previous handler's value.
    """

    name: str
    event: type[HookEvent[Any]]
    result: type | None = None
    mode: Mode = "void"
    awaited: bool = True
    default_timeout_ms: int | None = AWAITED_TIMEOUT_MS
    gate: bool = False
    answer_required: bool = False
    chained: str | None = None


def _observing(
    event: type[HookEvent[Any]],
    *,
    awaited: bool = False,
    timeout_ms: int | None = None,
) -> HookSpecification:
    return HookSpecification(
        name=event.hook, event=event, awaited=awaited, default_timeout_ms=timeout_ms
    )


def _modifying(event: type[HookEvent[Any]], result: type, **more: Any) -> HookSpecification:
    return HookSpecification(name=event.hook, event=event, result=result, mode="modifying", **more)


def _claiming(event: type[HookEvent[Any]]) -> HookSpecification:
    return HookSpecification(name=event.hook, event=event, result=turn.Claim, mode="claiming")


def _synchronous(event: type[HookEvent[Any]], result: type) -> HookSpecification:
    return HookSpecification(
        name=event.hook,
        event=event,
        result=result,
        mode="sync",
        default_timeout_ms=None,
        chained="message",
    )


_TABLE = (
    _modifying(turn.BeforeModelResolve, turn.ModelChoice),
    _modifying(turn.AgentTurnPrepare, turn.TurnPreparation),
    _modifying(turn.BeforePromptBuild, turn.PromptBuild),
    _modifying(turn.BeforeAgentStart, turn.AgentStart),
    _modifying(turn.BeforeAgentRun, turn.RunDecision, gate=True, answer_required=True),
    _claiming(turn.BeforeAgentReply),
    _modifying(turn.BeforeAgentFinalize, turn.Finalize),
    _observing(turn.AgentEnd, timeout_ms=30_000),
    _observing(turn.LlmInput),
    _observing(turn.LlmOutput),
    _observing(turn.ModelCallStarted),
    _observing(turn.ModelCallEnded),
    _modifying(tools.BeforeToolCall, tools.ToolCallDecision, gate=True),
    _observing(tools.AfterToolCall),
    _synchronous(tools.ToolResultPersist, tools.ToolResultReplacement),
    _synchronous(tools.BeforeMessageWrite, tools.MessageWriteDecision),
    _claiming(delivery.InboundClaim),
    _observing(delivery.MessageReceived),
    _modifying(delivery.MessageSending, delivery.MessageSendingDecision),
    _modifying(delivery.ReplyPayloadSending, delivery.ReplyPayloadDecision, chained="payload"),
    _observing(delivery.MessageSent),
    _observing(lifecycle.SessionStart),
    _observing(lifecycle.SessionEnd),
    _observing(lifecycle.BeforeReset),
    _modifying(lifecycle.SessionBeforeCompact, lifecycle.CompactionDecision),
    _modifying(lifecycle.BeforeCompaction, lifecycle.FlushRequest, default_timeout_ms=30_000),
    _modifying(lifecycle.AfterCompaction, lifecycle.FlushRequest, default_timeout_ms=30_000),
    _modifying(lifecycle.SubagentSpawning, lifecycle.SubagentSpawnDecision),
    _modifying(lifecycle.SubagentDeliveryTarget, lifecycle.SubagentDelivery),
    _observing(lifecycle.SubagentSpawned, awaited=True, timeout_ms=AWAITED_TIMEOUT_MS),
    _observing(lifecycle.SubagentEnded, awaited=True, timeout_ms=AWAITED_TIMEOUT_MS),
    _observing(lifecycle.GatewayStart),
    _observing(lifecycle.GatewayStop, awaited=True, timeout_ms=5_000),
)

#: Every hook by its name.
HOOKS: Mapping[str, HookSpecification] = MappingProxyType({row.name: row for row in _TABLE})
