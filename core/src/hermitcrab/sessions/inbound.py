"""From an inbound message to the session key that it belongs to (sessions 1.3, 1.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from hermitcrab.sessions.keys import (
    DEFAULT_MAIN_KEY,
    DirectScope,
    fold,
    normalise_account_id,
    normalise_agent_id,
    to_store_key,
)


@frozen(kw_only=True)
class InboundMessage:
    """A message that arrived on a channel.

    ``chat_type`` is ``direct``, ``group`` or ``channel``; ``session_key`` overrides everything else.
    """

    text: str
    channel: str = "cli"
    account: str = ""
    chat_type: str = "direct"
    peer: str = ""
    thread: str | None = None
    sender: str | None = None
    agent_id: str = "main"
    session_key: str | None = None
    message_id: str | None = None


def resolve_session_key(
    message: InboundMessage,
    *,
    direct_scope: DirectScope = "main",
    main_key: str = DEFAULT_MAIN_KEY,
    identity_links: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The stored key of the session that ``message`` belongs to."""
    agent_id = normalise_agent_id(message.agent_id)
    if message.session_key is not None:
        return to_store_key(message.session_key, agent_id=agent_id, main_key=main_key)
    if message.chat_type in {"group", "channel"}:
        channel, peer = fold(message.channel) or "unknown", message.peer.strip() or "unknown"
        rest = f"{channel}:{message.chat_type}:{peer}"
    else:
        rest = _direct_rest(message, direct_scope, identity_links or {}) or main_key
    if message.thread:
        rest = f"{rest}:thread:{message.thread.strip()}"
    return to_store_key(f"agent:{agent_id}:{rest}", main_key=main_key)


def _direct_rest(
    message: InboundMessage, scope: DirectScope, links: Mapping[str, Sequence[str]]
) -> str | None:
    peer = fold(message.peer)
    if scope == "main" or not peer:
        return None
    channel = fold(message.channel) or "unknown"
    peer = fold(_linked_identity(peer, channel, links) or peer)
    if scope == "per-peer":
        return f"direct:{peer}"
    if scope == "per-channel-peer":
        return f"{channel}:direct:{peer}"
    return f"{channel}:{normalise_account_id(message.account)}:direct:{peer}"


def _linked_identity(peer: str, channel: str, links: Mapping[str, Sequence[str]]) -> str | None:
    """The first canonical name, in config order, that lists this peer."""
    candidates = {peer, f"{channel}:{peer}"}
    for name, peers in links.items():
        if name.strip() and any(fold(listed) in candidates for listed in peers):
            return name
    return None
