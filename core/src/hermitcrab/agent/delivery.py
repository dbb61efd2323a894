"""The delivery of a reply: the send policy, and the plugins that may change or stop it (design 6)."""

from __future__ import annotations

from attrs import evolve

from hermitcrab.agent.events import Reply
from hermitcrab.agent.session import SessionContext
from hermitcrab.hooks import MessageSending, MessageSent, ReplyPayloadSending
from hermitcrab.sessions.inbound import InboundMessage
from hermitcrab.sessions.send_policy import SendSettings, may_send

_HELD_BACK = "The reply was not sent: the send policy of this session denies it."


async def deliver(
    session: SessionContext, message: InboundMessage, reply: Reply, policy: SendSettings
) -> Reply:
    """Offer the reply to plugins, and tell them that it went out; where the policy forbids that, keep it back."""
    if reply.silent:
        return reply
    if not is_sent(session, message, policy):
        return evolve(reply, silent=True, notes=(*reply.notes, _HELD_BACK))
    target = message.peer or message.sender or "user"
    payload = await session.fire(
        ReplyPayloadSending(
            payload={"text": reply.text},
            kind="final",
            channel=message.channel,
            session_key=session.log.key,
        )
    )
    if payload is not None and payload.cancel:
        return evolve(reply, silent=True)
    if payload is not None and payload.payload is not None:
        reply = evolve(reply, text=str(payload.payload.get("text", reply.text)))
    sending = await session.fire(
        MessageSending(to=target, content=reply.text, thread_id=message.thread)
    )
    if sending is not None and sending.cancel:
        return evolve(reply, silent=True)
    if sending is not None and sending.content is not None:
        reply = evolve(reply, text=sending.content)
    session.fire_background(
        MessageSent(to=target, content=reply.text, success=True, session_key=session.log.key)
    )
    return reply


def is_sent(session: SessionContext, message: InboundMessage, policy: SendSettings) -> bool:
    """Whether the answer to a message may go out (sessions 5.4)."""
    return may_send(
        policy,
        session.log.key,
        own=session.log.entry.send_policy,
        channel=message.channel,
        kind=message.chat_type,
    )
