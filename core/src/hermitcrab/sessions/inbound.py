"""From an inbound message to the session key that it belongs to (sessions 1.3, 1.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from hermitcrab.sessions.keys import (
    DEFAULT_MAIN_KEY,
    GLOBAL_KEY,
    DirectScope,
    GroupScope,
    SessionScope,
    fold,
    normalise_account_id,
    normalise_agent_id,
    to_store_key,
)

#: How WhatsApp ends the ids of its groups.
_GROUP_ID_ENDING = "@g.us"
#: Words that part a key: an id with one of them between its colons would be taken for several ids.
_MARKERS = frozenset({"topic", "thread", "subagent"})


@frozen(kw_only=True)
class InboundMessage:
    """A message that arrived on a channel.

    ``chat_type`` is ``direct`` (or ``dm``), ``group`` or ``channel``; ``thread`` and ``topic`` name a part of the chat
    with a conversation of its own; ``session_key`` overrides everything else. In a group, ``mentioned`` says whether
    the message names the agent (``None``: the channel does not know) and ``reply_to_agent`` whether it answers it.
    ``account_owns_ids`` says that a peer's id means something under this account alone.
    """

    text: str
    channel: str = "cli"
    account: str = ""
    chat_type: str = "direct"
    peer: str = ""
    thread: str | None = None
    topic: str | None = None
    sender: str | None = None
    agent_id: str = "main"
    session_key: str | None = None
    message_id: str | None = None
    mentioned: bool | None = None
    reply_to_agent: bool = False
    account_owns_ids: bool = False


def resolve_session_key(
    message: InboundMessage,
    *,
    scope: SessionScope = "per-sender",
    direct_scope: DirectScope = "main",
    group_scope: GroupScope = "per-group",
    main_key: str = DEFAULT_MAIN_KEY,
    identity_links: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The stored key of the session that ``message`` belongs to; every way in and out uses this one."""
    agent_id = normalise_agent_id(message.agent_id)
    if message.session_key is not None:
        return to_store_key(message.session_key, agent_id=agent_id, main_key=main_key, scope=scope)
    if scope == "global":
        return GLOBAL_KEY
    kind = group_kind(message)
    rest: str | None
    if kind is None:
        rest = _direct_rest(message, direct_scope, identity_links or {})
    elif group_scope == "main":
        rest = None
    else:
        channel, peer = fold(message.channel) or "unknown", _part(message.peer) or "unknown"
        rest = f"{channel}:{kind}:{peer}"
    rest = rest or main_key
    for marker, part in (("topic", message.topic), ("thread", message.thread)):
        if part and part.strip():
            rest = f"{rest}:{marker}:{_part(part)}"
    return to_store_key(f"agent:{agent_id}:{rest}", main_key=main_key)


def group_kind(message: InboundMessage) -> str | None:
    """``group`` or ``channel``; ``None`` for a direct message. Some ids tell that they are groups (sessions 1.4)."""
    kind = fold(message.chat_type)
    if kind in {"group", "channel"}:
        return kind
    return "group" if fold(message.peer).endswith(_GROUP_ID_ENDING) else None


def _part(text: str) -> str:
    """An id as a part of a key: its colons stay, unless another place would have the same key then (sessions 9.7)."""
    text = text.strip()
    pieces = [fold(piece) for piece in text.split(":")]
    if "%3a" in fold(text) or (len(pieces) > 1 and not _MARKERS.isdisjoint(pieces)):
        return text.replace("%", "%25").replace(":", "%3A")
    return text


def _direct_rest(
    message: InboundMessage, scope: DirectScope, links: Mapping[str, Sequence[str]]
) -> str | None:
    peer = fold(message.peer)
    if scope == "main" or not peer:
        return None
    channel = fold(message.channel) or "unknown"
    name = _linked_identity(peer, channel, links)
    if message.account_owns_ids and name is None:
        scope = "per-account-channel-peer"
    peer = _part(fold(name or peer))
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
