"""``session`` and ``memory`` (sessions 1.3, 8.1; memory 9.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import Range
from hermitcrab.config.schema.forms import NAME
from hermitcrab.config.schema.maintenance import MaintenanceConfig

__all__ = [
    "HistoryLimitConfig",
    "MemoryConfig",
    "ResetByTypeConfig",
    "ResetConfig",
    "SendMatchConfig",
    "SendPolicyConfig",
    "SendRuleConfig",
    "SessionConfig",
]


@frozen(kw_only=True)
class ResetConfig:
    """When a conversation is over by itself (sessions 2.9)."""

    mode: Literal["none", "daily", "idle"] | None = field(
        default=None,
        metadata=about(
            "`none` goes on until the user ends it, `daily` ends at an hour, `idle` after a time without the user; "
            "null inherits, and is none where nothing is inherited."
        ),
    )
    at_hour: Annotated[int, Range(minimum=0, maximum=23)] | None = field(
        default=None,
        metadata=about("The hour of the user's day for `daily`; null inherits, or is 4."),
    )
    idle_minutes: Annotated[int, Range(above=0)] | None = field(
        default=None,
        metadata=about(
            "Minutes without the user after which it is over, for `idle` and for `daily` as well; null inherits, or "
            "is never."
        ),
    )


@frozen(kw_only=True)
class ResetByTypeConfig:
    """What holds for one kind of conversation, field by field."""

    direct: ResetConfig = field(factory=ResetConfig, metadata=about("For direct conversations."))
    group: ResetConfig = field(factory=ResetConfig, metadata=about("For groups and channels."))
    thread: ResetConfig = field(factory=ResetConfig, metadata=about("For threads."))


@frozen(kw_only=True)
class SendMatchConfig:
    """Which sessions a rule is about; what is null matches all."""

    channel: Annotated[str, NAME] | None = field(
        default=None, metadata=about("The channel, such as `telegram`.")
    )
    chat_type: Literal["direct", "dm", "group", "channel"] | None = field(
        default=None, metadata=about("The kind of chat.")
    )
    key_prefix: Annotated[str, NAME] | None = field(
        default=None,
        metadata=about("How the session key begins, with or without `agent:<id>:`."),
    )
    raw_key_prefix: Annotated[str, NAME] | None = field(
        default=None, metadata=about("How the whole session key begins.")
    )


@frozen(kw_only=True)
class SendRuleConfig:
    """Whether replies of some sessions go out."""

    action: Literal["allow", "deny"] = field(
        metadata=about("Whether the replies go out; a rule that denies wins over those that allow.")
    )
    match: SendMatchConfig = field(
        factory=SendMatchConfig, metadata=about("Which sessions it is about; empty is all.")
    )


@frozen(kw_only=True)
class SendPolicyConfig:
    """Whether replies go out; a session's own policy decides before these (sessions 5.4)."""

    default: Literal["allow", "deny"] = field(
        default="allow", metadata=about("What holds where no rule matches.")
    )
    rules: tuple[SendRuleConfig, ...] = field(
        default=(), metadata=about("Rules for some sessions; any that denies wins.")
    )


@frozen(kw_only=True)
class HistoryLimitConfig:
    """How many user turns the model sees of the conversations of one channel."""

    direct: Annotated[int, Range(minimum=1)] | None = field(
        default=None, metadata=about("In direct conversations; null is `session.historyLimit`.")
    )
    group: Annotated[int, Range(minimum=1)] | None = field(
        default=None, metadata=about("In groups and channels; null is `session.historyLimit`.")
    )


@frozen(kw_only=True)
class SessionConfig:
    """How conversations are named, kept and locked."""

    durability: Literal["turn", "message", "os"] = field(
        default="turn",
        metadata=about(
            "When transcripts are forced to disk: at the end of a turn, at every message, or when the "
            "operating system likes."
        ),
    )
    scope: Literal["per-sender", "global"] = field(
        default="per-sender",
        metadata=about(
            "Whether conversations have keys of their own, or all messages share the one under the key `global`, "
            "which the default agent has."
        ),
    )
    main_key: Annotated[str, NAME] = field(
        default="main", metadata=about("The last part of the key of an agent's main conversation.")
    )
    dm_scope: Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"] = field(
        default="main",
        metadata=about(
            "Which direct messages share a conversation: all of them, or those of one peer, of one "
            "peer on one channel, of one peer on one channel and account."
        ),
    )
    group_scope: Literal["per-group", "main"] = field(
        default="per-group",
        metadata=about(
            "Whether each group and channel has a conversation of its own, or shares the agent's main one."
        ),
    )
    identity_links: Mapping[str, tuple[Annotated[str, NAME], ...]] = field(
        factory=dict,
        metadata=about(
            "The ids (`channel:id` or `id`) under which one person writes; they share a conversation "
            "unless `dmScope` is `main`.",
            placeholder="person",
        ),
    )
    reset: ResetConfig = field(
        factory=ResetConfig, metadata=about("When a conversation is over by itself.")
    )
    reset_by_type: ResetByTypeConfig = field(
        factory=ResetByTypeConfig, metadata=about("The same by kind of conversation.")
    )
    reset_by_channel: Mapping[Annotated[str, NAME], ResetConfig] = field(
        factory=dict,
        metadata=about(
            "The same by channel; an entry here replaces all else for its channel.",
            placeholder="channel",
        ),
    )
    send_policy: SendPolicyConfig = field(
        factory=SendPolicyConfig, metadata=about("Whether replies go out.")
    )
    group_activation: Literal["mention", "always"] = field(
        default="mention",
        metadata=about(
            "What the agent answers in groups and channels: what mentions it or replies to it, or everything. What it "
            "does not answer it reads as context."
        ),
    )
    group_activation_by_channel: Mapping[Annotated[str, NAME], Literal["mention", "always"]] = (
        field(factory=dict, metadata=about("The same by channel.", placeholder="channel"))
    )
    group_history_limit: Annotated[int, Range(minimum=0)] = field(
        default=50,
        metadata=about(
            "How many messages of a group that were not for the agent it sees at most before one that is."
        ),
    )
    history_limit: Annotated[int, Range(minimum=1)] | None = field(
        default=None,
        metadata=about("How many user turns the model sees at most; null is no limit."),
    )
    history_limit_by_channel: Mapping[Annotated[str, NAME], HistoryLimitConfig] = field(
        factory=dict,
        metadata=about(
            "The same for the conversations of a channel, as their keys name it.",
            placeholder="channel",
        ),
    )
    maintenance: MaintenanceConfig = field(
        factory=MaintenanceConfig, metadata=about("What of old sessions is kept, and for how long.")
    )
    lock_timeout_ms: Annotated[int, Range(above=0)] = field(
        default=10_000,
        metadata=about(
            "How long to wait for a transcript that another process writes, in milliseconds."
        ),
    )


@frozen(kw_only=True)
class MemoryConfig:
    """How memory is presented, whatever backend fills the slot."""

    citations: Literal["auto", "on", "off"] = field(
        default="auto",
        metadata=about(
            "Whether search results name their source; auto does so in direct conversations only."
        ),
    )
