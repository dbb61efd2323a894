"""``agents`` (context 6.10, 8; memory 1.2, 9.1, 9.3)."""

from __future__ import annotations

from typing import Annotated, Literal

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import ByteSize, Range, Switch, TimeZone
from hermitcrab.config.schema.forms import AGENT_ID, MODEL, NAME

__all__ = [
    "AgentDefaults",
    "AgentEntry",
    "AgentsConfig",
    "ChunkingConfig",
    "CompactionConfig",
    "MemoryFlushConfig",
    "MemorySearchConfig",
    "MidTurnPrecheckConfig",
    "QueryConfig",
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
class CompactionConfig:
    """How old messages are replaced by a summary (context 8)."""

    mode: Literal["default"] = field(default="default", metadata=about("How summaries are made."))
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
    identifier_policy: Literal["strict", "off"] = field(
        default="strict",
        metadata=about(
            "Whether summaries must keep identifiers (paths, ids, addresses) word for word."
        ),
    )
    keep_credentials: bool = field(
        default=False, metadata=about("Whether summaries keep what looks like a credential.")
    )
    model: ModelName | None = field(
        default=None, metadata=about("The model to use; null is the session's.")
    )
    timeout_seconds: Annotated[float, Range(above=0)] = field(
        default=180.0, metadata=about("How long one request for a summary may take, in seconds.")
    )
    mid_turn_precheck: MidTurnPrecheckConfig = field(
        factory=MidTurnPrecheckConfig, metadata=about("Compaction between tool rounds.")
    )
    memory_flush: Annotated[MemoryFlushConfig, Switch()] = field(
        factory=MemoryFlushConfig,
        metadata=about("The silent turn that saves durable facts before a compaction."),
    )


@frozen(kw_only=True)
class ChunkingConfig:
    """How Markdown is cut into pieces for the index (memory 3.4)."""

    tokens: Annotated[int, Range(minimum=1)] = field(
        default=400, metadata=about("The size of a piece, in tokens.")
    )
    overlap: Count = field(
        default=80, metadata=about("How much of a piece the next one repeats, in tokens.")
    )


@frozen(kw_only=True)
class QueryConfig:
    """What a search returns."""

    max_results: Annotated[int, Range(minimum=1, maximum=100)] = field(
        default=6, metadata=about("How many results a search returns at most.")
    )
    min_score: Annotated[float, Range(minimum=0, maximum=1)] | None = field(
        default=None,
        metadata=about("The least score of a result; null leaves it to the memory backend."),
    )


@frozen(kw_only=True)
class MemorySearchConfig:
    """What is indexed and how it is searched (memory 9.1)."""

    enabled: bool = field(default=True, metadata=about("Whether memory can be searched."))
    extra_paths: tuple[Folder, ...] = field(
        default=(), metadata=about("Files and folders to index besides the workspace's memory.")
    )
    chunking: ChunkingConfig = field(
        factory=ChunkingConfig, metadata=about("How files are cut into pieces.")
    )
    query: QueryConfig = field(factory=QueryConfig, metadata=about("What a search returns."))


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
    compaction: CompactionConfig = field(
        factory=CompactionConfig, metadata=about("How old messages are replaced by a summary.")
    )
    memory_search: MemorySearchConfig = field(
        factory=MemorySearchConfig, metadata=about("What is indexed and how it is searched.")
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


@frozen(kw_only=True)
class AgentsConfig:
    """The agents and what they share."""

    defaults: AgentDefaults = field(factory=AgentDefaults, metadata=about("What agents share."))
    list: tuple[AgentEntry, ...] = field(
        default=(), metadata=about("The agents; none means the one agent `main`.")
    )
