"""How many user turns of a session the model sees: by channel and kind, else the general limit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hermitcrab.sessions.keys import channel_of, chat_type, fold


class ChannelLimits(Protocol):
    """What config says for the conversations of one channel; ``None`` leaves it to the general limit."""

    @property
    def direct(self) -> int | None: ...
    @property
    def group(self) -> int | None: ...


class HistorySettings(Protocol):
    """The part of ``session`` in config that limits history."""

    @property
    def history_limit(self) -> int | None: ...
    @property
    def history_limit_by_channel(self) -> Mapping[str, ChannelLimits]: ...


def history_limit_for(key: str, settings: HistorySettings) -> int | None:
    """The limit of the session under a key, in user turns; ``None`` is no limit.

    A session that direct messages of several channels share has no channel in its key, so the general limit holds.
    """
    channel = channel_of(key)
    for name, limits in settings.history_limit_by_channel.items():
        if channel is not None and fold(name) == channel:
            own = limits.direct if chat_type(key) == "direct" else limits.group
            return settings.history_limit if own is None else own
    return settings.history_limit
