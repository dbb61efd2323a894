"""Whether replies of a session may go out (sessions 5.4). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from hermitcrab.sessions.keys import chat_type, fold, is_ambiguous, parse_agent_key

SendAction = Literal["allow", "deny"]


class SendMatch(Protocol):
    """Which sessions a rule is about; ``None`` matches all."""

    @property
    def channel(self) -> str | None: ...
    @property
    def chat_type(self) -> str | None: ...
    @property
    def key_prefix(self) -> str | None: ...
    @property
    def raw_key_prefix(self) -> str | None: ...


class SendRule(Protocol):
    @property
    def action(self) -> SendAction: ...
    @property
    def match(self) -> SendMatch: ...


class SendSettings(Protocol):
    """``session.sendPolicy`` of config."""

    @property
    def default(self) -> SendAction: ...
    @property
    def rules(self) -> Sequence[SendRule]: ...


def may_send(
    settings: SendSettings,
    key: str,
    *,
    own: str | None = None,
    channel: str | None = None,
    kind: str | None = None,
) -> bool:
    """Whether a reply may go out: the session's own policy alone, else a rule that denies, else one that allows.

    :param own: the ``sendPolicy`` of the session entry.
    :param channel: the channel of the message.
    :param kind: the chat type of the message, for keys whose structure does not tell it.
    """
    if own in {"allow", "deny"}:
        return own == "allow"
    if (settings.rules or settings.default == "deny") and is_ambiguous(key):
        return False  # nobody can tell which rule it is about
    told = chat_type(key)
    known = fold(kind or "") if told == "unknown" else told
    actions = [rule.action for rule in settings.rules if _matches(rule.match, key, channel, known)]
    if "deny" in actions:
        return False
    return "allow" in actions or settings.default == "allow"


def _matches(match: SendMatch, key: str, channel: str | None, kind: str) -> bool:
    folded = fold(key)
    parsed = parse_agent_key(key)
    rest = folded if parsed is None else fold(parsed.rest)
    prefix, raw_prefix = fold(match.key_prefix or ""), fold(match.raw_key_prefix or "")
    return (
        (match.channel is None or fold(match.channel) == fold(channel or ""))
        and (match.chat_type is None or _kind(match.chat_type) == _kind(kind))
        and (folded.startswith(prefix) or rest.startswith(prefix))
        and folded.startswith(raw_prefix)
    )


def _kind(text: str) -> str:
    return "direct" if fold(text) == "dm" else fold(text)
