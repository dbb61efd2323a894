"""``agents`` (context 6.10, 8; memory 1.2, 9.1, 9.3)."""

from __future__ import annotations

from typing import Annotated, Literal

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import ByteSize, Range, Switch, TimeZone
from hermitcrab.config.schema.forms import (
    AGENT_ID,
    MODEL,
    NAME,
    ReasoningLevel,
    SummaryThinking,
    ThinkingLevel,
    VerboseLevel,
)
from hermitcrab.config.schema.memory_search import MemorySearchConfig
from hermitcrab.config.schema.pruning import ContextPruningConfig
from hermitcrab.config.schema.startup import StartupContextConfig

__all__ = [
    "AgentDefaults",
    "AgentEntry",
    "AgentsConfig",
    "CompactionConfig",
    "MemoryFlushConfig",
    "MidTurnPrecheckConfig",
    "QualityGuardConfig",
    "SubagentsConfig",
]

ModelName = Annotated[str, MODEL]
ContextTokens = Annotated[int, Range(minimum=1000)]
Folder = Annotated[str, NAME]
ZoneName = Annotated[str, TimeZone()]
Characters = Annotated[int, Range(minimum=64)]
Count = Annotated[int, Range(minimum=0)]


@frozen(kw_only=True)
class MemoryFlushConfig:
    """The silent turn before a compaction in which the agent saves durable facts (context 6.10)."""

    enabled: bool = field(default=True, metadata=about("Whether the flush runs."))
    soft_threshold_tokens: Count = field(
        default=4000,
        metadata=about("How far below the compaction threshold the flush starts, in tokens."),
    )
    force_flush_transcript_bytes: Annotated[int, ByteSize()] = field(
        default=2 * 1024 * 1024,
        metadata=about(
            "The size of the transcript from which the flush runs whatever the tokens say; 0 is off."
        ),
    )
    model: ModelName | None = field(
        default=None, metadata=about("The model to use; null is the session's.")
    )
    prompt: str | None = field(default=None, metadata=about("Replaces the built-in request."))
    system_prompt: str | None = field(
        default=None, metadata=about("Replaces the built-in system prompt.")
    )


@frozen(kw_only=True)
class MidTurnPrecheckConfig:
    """The check that the context fits, between the tool rounds of one turn."""

    enabled: bool = field(
        default=True, metadata=about("Whether the context is checked before each model call.")
    )


@frozen(kw_only=True)
class QualityGuardConfig:
    """The audit of summaries by the plugin compaction-safeguard (context 5.7)."""

    enabled: bool = field(
        default=True, metadata=about("Whether summaries are audited where `mode` is `safeguard`.")
    )
    max_retries: Count = field(
        default=1,
        metadata=about(
            "How often a summary that fails the audit is written again; more than 3 counts as 3."
        ),
    )


@frozen(kw_only=True)
class CompactionConfig:
    """How old messages are replaced by a summary (context 8)."""

    enabled: bool = field(
        default=True,
        metadata=about(
            "Whether old messages are compacted, and facts flushed, without being asked; `/compact` works anyway."
        ),
    )
    mode: Literal["default", "safeguard", "aggressive"] | None = field(
        default=None,
        metadata=about(
            "How summaries are made: `safeguard` has the plugin compaction-safeguard audit them. Null is `safeguard` "
            "where that plugin is installed, else `default`."
        ),
    )
    provider: Annotated[str, NAME] | None = field(
        default=None,
        metadata=about(
            "The compaction provider of a plugin that writes the summaries; null is the host's own"
            " summariser. One that is set implies the mode `safeguard`."
        ),
    )
    reserve_tokens: Count = field(
        default=16_384, metadata=about("Tokens to keep free for the answer.")
    )
    reserve_tokens_floor: Count = field(
        default=20_000,
        metadata=about(
            "The least that `reserveTokens` counts as; at most a quarter of the window is reserved."
        ),
    )
    keep_recent_tokens: Annotated[int, Range(above=0)] = field(
        default=20_000, metadata=about("How many tokens of the newest messages stay as they are.")
    )
    custom_instructions: str | None = field(
        default=None, metadata=about("What summaries should also heed.")
    )
    identifier_policy: Literal["strict", "custom", "off"] = field(
        default="strict",
        metadata=about(
            "Whether summaries must keep identifiers (paths, ids, addresses) word for word; `custom` leaves it"
            " to `identifierInstructions`."
        ),
    )
    identifier_instructions: str | None = field(
        default=None,
        metadata=about(
            "What summaries are to do with identifiers where the policy is `custom`; null is as `strict`."
        ),
    )
    quality_guard: QualityGuardConfig = field(
        factory=QualityGuardConfig, metadata=about("The audit of summaries.")
    )
    recent_turns_preserve: Annotated[int, Range(minimum=0, maximum=12)] = field(
        default=3,
        metadata=about(
            "How many of the newest turns that go into a summary stand in it word for word, in the mode"
            " `safeguard`."
        ),
    )
    max_history_share: Annotated[float, Range(minimum=0.1, maximum=0.9)] = field(
        default=0.5,
        metadata=about(
            "Where what is kept takes more than this share of the window, older history is summarised first,"
            " by itself, in the mode `safeguard`."
        ),
    )
    post_compaction_sections: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Headings of `AGENTS.md` whose sections the model is reminded of for the rest of a turn that was"
            " compacted; in the mode `safeguard`, summaries repeat them too."
        ),
    )
    post_index_sync: Literal["off", "async", "await"] = field(
        default="async",
        metadata=about(
            "Whether the memory index is brought up to date after a compaction: in the background, or before"
            " the turn goes on (`await`)."
        ),
    )
    max_active_transcript_bytes: Annotated[int, ByteSize()] = field(
        default=0,
        metadata=about(
            "The size of what the model sees of the transcript from which it is compacted whatever the tokens"
            " say; 0 is off."
        ),
    )
    notify_user: bool = field(
        default=False,
        metadata=about(
            "Whether the user is told of compactions: of each that begins and how it ended."
        ),
    )
    keep_credentials: bool = field(
        default=False, metadata=about("Whether summaries keep what looks like a credential.")
    )
    model: ModelName | None = field(
        default=None, metadata=about("The model to use; null is the session's.")
    )
    thinking_level: SummaryThinking | None = field(
        default=None,
        metadata=about(
            "How much the model thinks about a summary; `inherit` is as much as in the session, null is `low`. It"
            " matters only for models that can be told."
        ),
    )
    timeout_seconds: Annotated[float, Range(above=0)] = field(
        default=180.0,
        metadata=about("How long one request for a summary or a flush may take, in seconds."),
    )
    mid_turn_precheck: MidTurnPrecheckConfig = field(
        factory=MidTurnPrecheckConfig, metadata=about("Compaction between tool rounds.")
    )
    memory_flush: Annotated[MemoryFlushConfig, Switch()] = field(
        factory=MemoryFlushConfig,
        metadata=about("The silent turn that saves durable facts before a compaction."),
    )


@frozen(kw_only=True)
class SubagentsConfig:
    """Sessions that a session starts for a task of their own."""

    max_spawn_depth: Annotated[int, Range(minimum=0, maximum=5)] = field(
        default=1,
        metadata=about(
            "How deep subagents may stand below a conversation; 1 means that they start none, 0 that there are none."
        ),
    )
    max_children_per_agent: Annotated[int, Range(minimum=1, maximum=20)] = field(
        default=5, metadata=about("How many subagents of one session may run at a time.")
    )
    allow_agents: tuple[Annotated[str, AGENT_ID], ...] = field(
        default=(),
        metadata=about("The other agents that may work for this one; its own is always allowed."),
    )
    run_timeout_seconds: Annotated[float, Range(minimum=0)] = field(
        default=0.0,
        metadata=about("How long a subagent may run, in seconds; 0 is without limit."),
    )


@frozen(kw_only=True)
class AgentDefaults:
    """What holds for every agent that does not say otherwise."""

    model: ModelName | None = field(
        default=None,
        metadata=about("The chat model; null is the offline model, which needs no network."),
    )
    context_tokens: ContextTokens | None = field(
        default=None,
        metadata=about(
            "The context window in tokens; null takes it from the model's entry or its server."
        ),
    )
    workspace: Folder | None = field(
        default=None,
        metadata=about("The folder of the agent's files; null is a folder in the home directory."),
    )
    user_timezone: ZoneName | None = field(
        default=None,
        metadata=about("The user's time zone, which dates the daily notes; null is the host's."),
    )
    bootstrap_max_chars: Characters = field(
        default=20_000,
        metadata=about("How many characters of one workspace file enter the system prompt."),
    )
    bootstrap_total_max_chars: Characters = field(
        default=60_000,
        metadata=about(
            "How many characters of all workspace files together enter the system prompt."
        ),
    )
    system_prompt: str | None = field(
        default=None, metadata=about("Replaces the built-in introduction of the system prompt.")
    )
    max_tool_rounds: Annotated[int, Range(minimum=1, maximum=1000)] = field(
        default=50, metadata=about("How many rounds of tool calls one turn may take.")
    )
    thinking_default: ThinkingLevel | None = field(
        default=None,
        metadata=about(
            "How much the model thinks; null is `low` for a model with `reasoning: true`, else `off`."
        ),
    )
    fast_mode_default: bool = field(
        default=False, metadata=about("Whether the model's `fastBody` is sent along.")
    )
    verbose_default: VerboseLevel | None = field(
        default=None,
        metadata=about(
            "Whether tool calls are told to the user: `full` with their results; null tells them on a terminal only."
        ),
    )
    reasoning_default: ReasoningLevel = field(
        default="off",
        metadata=about(
            "Whether the model's thinking is shown: `on` with the reply, `stream` as it arrives."
        ),
    )
    compaction: CompactionConfig = field(
        factory=CompactionConfig, metadata=about("How old messages are replaced by a summary.")
    )
    context_pruning: ContextPruningConfig = field(
        factory=ContextPruningConfig,
        metadata=about("How old tool results are shortened in what the model sees."),
    )
    memory_search: MemorySearchConfig = field(
        factory=MemorySearchConfig, metadata=about("What is indexed and how it is searched.")
    )
    startup_context: StartupContextConfig = field(
        factory=StartupContextConfig,
        metadata=about("The daily notes that a new private conversation begins with."),
    )
    subagents: SubagentsConfig = field(
        factory=SubagentsConfig,
        metadata=about("Sessions that a session starts for a task of their own."),
    )


@frozen(kw_only=True)
class AgentEntry:
    """One agent. What it leaves null, it takes from ``agents.defaults``."""

    id: Annotated[str, AGENT_ID] = field(
        metadata=about("The agent's id, as it stands in session keys.")
    )
    default: bool = field(
        default=False,
        metadata=about(
            "Whether this agent answers where none is named; without one, the first does."
        ),
    )
    model: ModelName | None = field(
        default=None, metadata=about("The agent's chat model; null inherits.")
    )
    context_tokens: ContextTokens | None = field(
        default=None, metadata=about("The agent's context window in tokens; null inherits.")
    )
    workspace: Folder | None = field(
        default=None, metadata=about("The folder of the agent's files; null inherits.")
    )
    user_timezone: ZoneName | None = field(
        default=None, metadata=about("The time zone of the agent's user; null inherits.")
    )
    system_prompt: str | None = field(
        default=None, metadata=about("The agent's own introduction; null inherits.")
    )
    thinking_default: ThinkingLevel | None = field(
        default=None, metadata=about("How much the agent's model thinks; null inherits.")
    )
    fast_mode_default: bool | None = field(
        default=None, metadata=about("Whether `fastBody` is sent along; null inherits.")
    )
    verbose_default: VerboseLevel | None = field(
        default=None, metadata=about("Whether tool calls are told to the user; null inherits.")
    )
    reasoning_default: ReasoningLevel | None = field(
        default=None, metadata=about("Whether the model's thinking is shown; null inherits.")
    )


@frozen(kw_only=True)
class AgentsConfig:
    """The agents and what they share."""

    defaults: AgentDefaults = field(factory=AgentDefaults, metadata=about("What agents share."))
    list: tuple[AgentEntry, ...] = field(
        default=(), metadata=about("The agents; none means the one agent `main`.")
    )
