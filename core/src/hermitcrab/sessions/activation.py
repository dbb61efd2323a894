"""Which messages of a group are for the agent, and what it is shown of the others (sessions 2.2, 8.1). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from hermitcrab.messages.provenance import is_group_context
from hermitcrab.messages.types import Message
from hermitcrab.sessions.inbound import InboundMessage, group_kind
from hermitcrab.sessions.keys import fold

#: ``mention``: what names the agent or replies to it is for it; ``always``: everything is.
Activation = Literal["mention", "always"]


class ActivationSettings(Protocol):
    """The part of ``session`` in config that decides about groups."""

    @property
    def group_activation(self) -> Activation: ...
    @property
    def group_activation_by_channel(self) -> Mapping[str, Activation]: ...


def configured_activation(channel: str | None, settings: ActivationSettings) -> Activation:
    """The activation of a channel's groups where a session has none of its own."""
    wanted = fold(channel or "")
    for name, activation in settings.group_activation_by_channel.items():
        if fold(name) == wanted:
            return activation
    return settings.group_activation


def is_for_agent(message: InboundMessage, own: str | None, settings: ActivationSettings) -> bool:
    """Whether the agent answers a message: all direct ones, and those of a group that its activation covers.

    Where the channel does not know whether a message names the agent, it is for it: nothing may get lost.

    :param own: the ``groupActivation`` of the session entry.
    """
    if group_kind(message) is None or message.mentioned is not False or message.reply_to_agent:
        return True
    return (own or configured_activation(message.channel, settings)) == "always"


def shown_context(messages: Sequence[Message], limit: int) -> list[bool]:
    """Which messages the model sees: of each run of messages that were not for the agent only the last ``limit``.

    A run begins anew behind every other message, so what was shown once stays shown.
    """
    shown = [True] * len(messages)
    behind = 0
    for index in range(len(messages) - 1, -1, -1):
        behind = behind + 1 if is_group_context(messages[index]) else 0
        shown[index] = behind <= limit
    return shown


def unanswered_context(messages: Sequence[Message], limit: int) -> list[Message]:
    """The last messages of a group, at most ``limit``, that were not for the agent and that no answer followed."""
    start = len(messages)
    while start > 0 and is_group_context(messages[start - 1]):
        start -= 1
    return list(messages[max(start, len(messages) - limit) :])
