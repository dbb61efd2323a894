"""Events and results of messages that come in and go out (sessions 6.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import field, frozen

from hermitcrab.hooks import merge
from hermitcrab.hooks.events import HookEvent
from hermitcrab.hooks.turn import Claim

__all__ = [
    "InboundClaim",
    "MessageReceived",
    "MessageSending",
    "MessageSendingDecision",
    "MessageSent",
    "ReplyPayloadDecision",
    "ReplyPayloadSending",
]


@frozen(kw_only=True)
class MessageSendingDecision:
    """Other ``content`` for an outgoing message, or ``cancel``, which is final."""

    content: str | None = merge.last(str)
    cancel: bool = merge.sticky_true(ends=True)
    cancel_reason: str | None = merge.along("cancel", str)
    metadata: Mapping[str, Any] | None = merge.last(dict)
    decided_by: str | None = merge.source_of("cancel")


@frozen(kw_only=True)
class ReplyPayloadDecision:
    """Another payload for a reply, or ``cancel``, which is final."""

    payload: Mapping[str, Any] | None = merge.last(dict)
    cancel: bool = merge.sticky_true(ends=True)
    reason: str | None = merge.last(str)
    decided_by: str | None = merge.source_of("cancel")


@frozen(kw_only=True)
class InboundClaim(HookEvent[Claim]):
    """A message has come in; the first plugin that claims it replies, and no turn runs.

    ``timestamp`` is in milliseconds since the epoch.
    """

    hook: ClassVar[str] = "inbound_claim"
    content: str
    channel: str | None = None
    account_id: str | None = None
    conversation_id: str | None = None
    parent_conversation_id: str | None = None
    thread_id: str | None = None
    message_id: str | None = None
    sender_id: str | None = None
    sender_name: str | None = None
    sender_username: str | None = None
    sender_is_owner: bool | None = None
    is_group: bool = False
    was_mentioned: bool = False
    command_authorized: bool = False
    timestamp: int | None = None
    session_key: str | None = None
    run_id: str | None = None
    metadata: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class MessageReceived(HookEvent[None]):
    """A message has come in; ``timestamp`` is in milliseconds since the epoch."""

    hook: ClassVar[str] = "message_received"
    sender: str
    content: str
    timestamp: int | None = None
    thread_id: str | None = None
    message_id: str | None = None
    sender_id: str | None = None
    session_key: str | None = None
    run_id: str | None = None
    metadata: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class MessageSending(HookEvent[MessageSendingDecision]):
    """A message is about to go out. A failing handler never keeps it back."""

    hook: ClassVar[str] = "message_sending"
    to: str
    content: str
    reply_to_id: str | None = None
    thread_id: str | None = None
    metadata: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class ReplyPayloadSending(HookEvent[ReplyPayloadDecision]):
    """The structured form of a reply is about to go out; each handler sees the payload of the one before it."""

    hook: ClassVar[str] = "reply_payload_sending"
    payload: Mapping[str, Any]
    kind: str | None = None
    channel: str | None = None
    session_key: str | None = None
    run_id: str | None = None


@frozen(kw_only=True)
class MessageSent(HookEvent[None]):
    """A message has gone out, or failed to."""

    hook: ClassVar[str] = "message_sent"
    to: str
    content: str
    success: bool
    error: str | None = None
    message_id: str | None = None
    session_key: str | None = None
    run_id: str | None = None
