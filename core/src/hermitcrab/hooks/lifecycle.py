"""Events and results of sessions, compactions, subagents and the host itself (sessions 6.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from attrs import frozen

from hermitcrab.hooks import merge
from hermitcrab.hooks.events import HookEvent, shared

if TYPE_CHECKING:
    from hermitcrab.messages.types import Message

__all__ = [
    "AfterCompaction",
    "BeforeCompaction",
    "BeforeReset",
    "CompactionDecision",
    "FlushRequest",
    "GatewayStart",
    "GatewayStop",
    "SessionBeforeCompact",
    "SessionEnd",
    "SessionStart",
    "SubagentDelivery",
    "SubagentDeliveryTarget",
    "SubagentEnded",
    "SubagentSpawnDecision",
    "SubagentSpawned",
    "SubagentSpawning",
]


@frozen(kw_only=True)
class CompactionDecision:
    """A plugin cancels a compaction, supplies the summary itself, or rejects every summary that it was given.

    ``cancel`` is final, with its ``reason``. Otherwise the ``summary`` of the highest priority is used, with the
    ``details`` of the same plugin. ``rejected`` says why no summary is good enough: the history is kept, or where the
    context must become smaller, rules write the summary.
    """

    cancel: bool = merge.sticky_true(ends=True)
    reason: str | None = merge.along("cancel", str)
    summary: str | None = merge.first(str)
    details: Mapping[str, Any] | None = merge.along("summary", dict)
    rejected: str | None = merge.first_text()
    cancelled_by: str | None = merge.source_of("cancel")
    summarised_by: str | None = merge.source_of("summary")


@frozen(kw_only=True)
class FlushRequest:
    """A plugin asks for a memory flush; the once-per-cycle guard decides."""

    flush: bool = merge.sticky_true()


@frozen(kw_only=True)
class SubagentSpawnDecision:
    """Whether a subagent may start; the first error is final."""

    status: Literal["ok", "error"] = merge.ranked("error", "ok", default="ok", ends="error")
    error: str | None = merge.along("status", str)
    thread_binding_ready: bool = merge.sticky_true()


@frozen(kw_only=True)
class SubagentDelivery:
    """Where a subagent's result goes."""

    origin: Mapping[str, Any] | None = merge.first(dict)


@frozen(kw_only=True)
class SessionStart(HookEvent[None]):
    """A session begins; ``resumed_from`` is the session id before it."""

    hook: ClassVar[str] = "session_start"
    session_id: str
    session_key: str
    resumed_from: str | None = None


@frozen(kw_only=True)
class SessionEnd(HookEvent[None]):
    """A session is over; ``duration_ms`` is in milliseconds.

    ``reason`` is ``new``, ``reset``, ``idle``, ``daily``, ``compaction``, ``deleted``, ``shutdown``, ``restart`` or
    ``unknown``.
    """

    hook: ClassVar[str] = "session_end"
    session_id: str
    session_key: str
    message_count: int = 0
    duration_ms: int | None = None
    reason: str = "unknown"
    session_file: str | None = None
    transcript_archived: bool = False
    next_session_id: str | None = None
    next_session_key: str | None = None


@frozen(kw_only=True)
class BeforeReset(HookEvent[None]):
    """A new session is about to take the place of one; ``messages`` are those of the old one.

    ``reason`` is ``new``, ``reset``, ``daily`` or ``idle``.
    """

    hook: ClassVar[str] = "before_reset"
    session_file: str | None = None
    messages: Sequence[Message] = shared(default=())
    reason: str | None = None


@frozen(kw_only=True)
class SessionBeforeCompact(HookEvent[CompactionDecision]):
    """A compaction has been planned and is not carried out yet.

    ``messages`` are to be summarised, ``turn_prefix_messages`` are the head of a turn that is cut in two; ``reason``
    is what triggered it. ``tokens_before`` and ``context_window`` are in tokens. ``writer`` is a
    ``hermitcrab.compaction.SummaryWriter``.
    """

    hook: ClassVar[str] = "session_before_compact"
    session_key: str
    session_id: str
    messages: Sequence[Message] = shared()
    turn_prefix_messages: Sequence[Message] = shared(default=())
    previous_summary: str | None = None
    custom_instructions: str | None = None
    tokens_before: int | None = None
    reason: str | None = None
    first_kept_entry_id: str | None = None
    context_window: int | None = None
    writer: Any = None


@frozen(kw_only=True)
class BeforeCompaction(HookEvent[FlushRequest]):
    """A compaction is about to run; ``compacting_count`` of ``message_count`` messages go into the summary."""

    hook: ClassVar[str] = "before_compaction"
    message_count: int
    compacting_count: int | None = None
    token_count: int | None = None
    messages: Sequence[Message] = shared(default=())
    session_file: str | None = None


@frozen(kw_only=True)
class AfterCompaction(HookEvent[FlushRequest]):
    """A compaction has run: ``compacted_count`` messages were summarised, ``message_count`` are left."""

    hook: ClassVar[str] = "after_compaction"
    message_count: int
    compacted_count: int
    token_count: int | None = None
    session_file: str | None = None
    previous_session_id: str | None = None


@frozen(kw_only=True)
class SubagentSpawning(HookEvent[SubagentSpawnDecision]):
    """A subagent is about to start."""

    hook: ClassVar[str] = "subagent_spawning"
    child_session_key: str
    agent_id: str
    label: str | None = None
    mode: Literal["run", "session"] = "run"
    requester: Mapping[str, Any] | None = None
    thread_requested: bool = False


@frozen(kw_only=True)
class SubagentDeliveryTarget(HookEvent[SubagentDelivery]):
    """A subagent's result needs a place to go."""

    hook: ClassVar[str] = "subagent_delivery_target"
    child_session_key: str
    requester_session_key: str
    requester_origin: Mapping[str, Any] | None = None
    child_run_id: str | None = None
    spawn_mode: Literal["run", "session"] | None = None
    expects_completion_message: bool = False


@frozen(kw_only=True)
class SubagentSpawned(HookEvent[None]):
    """A subagent has started."""

    hook: ClassVar[str] = "subagent_spawned"
    run_id: str
    child_session_key: str
    agent_id: str
    label: str | None = None
    mode: Literal["run", "session"] = "run"
    requester: Mapping[str, Any] | None = None
    thread_requested: bool = False
    resolved_model: str | None = None
    resolved_provider: str | None = None


@frozen(kw_only=True)
class SubagentEnded(HookEvent[None]):
    """A subagent is over; ``ended_at`` is in milliseconds since the epoch.

    ``outcome`` is ``ok``, ``error``, ``timeout``, ``killed``, ``reset`` or ``deleted``.
    """

    hook: ClassVar[str] = "subagent_ended"
    target_session_key: str
    target_kind: str = "subagent"
    reason: str | None = None
    send_farewell: bool = False
    account_id: str | None = None
    run_id: str | None = None
    ended_at: int | None = None
    outcome: str | None = None
    error: str | None = None


@frozen(kw_only=True)
class GatewayStart(HookEvent[None]):
    """The host is open; ``port`` where it serves one."""

    hook: ClassVar[str] = "gateway_start"
    port: int | None = None


@frozen(kw_only=True)
class GatewayStop(HookEvent[None]):
    """The host is about to close."""

    hook: ClassVar[str] = "gateway_stop"
    reason: str | None = None
