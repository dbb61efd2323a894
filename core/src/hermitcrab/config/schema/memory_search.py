"""``agents.defaults.memorySearch`` (memory 9.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import HttpUrl, Range
from hermitcrab.config.schema.forms import NAME
from hermitcrab.config.schema.memory_query import QueryConfig
from hermitcrab.config.schema.memory_sessions import ExperimentalMemoryConfig, SessionSyncConfig

__all__ = [
    "ChunkingConfig",
    "EmbeddingSyncConfig",
    "MemorySearchConfig",
    "RemoteEmbeddingsConfig",
]

Folder = Annotated[str, NAME]
Name = Annotated[str, NAME]
Count = Annotated[int, Range(minimum=0)]
Timeout = Annotated[float, Range(above=0)]


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
class RemoteEmbeddingsConfig:
    """How a remote embedding provider is reached (memory 5.3)."""

    base_url: Annotated[str, HttpUrl()] | None = field(
        default=None,
        metadata=about(
            "The address of the embedding server, up to and including its version; null is that of"
            " `models.providers.<provider>`, else the provider's own."
        ),
    )
    api_key: Name | None = field(
        default=None,
        repr=False,
        metadata=about(
            "The credential; write `${ENV_NAME}` to keep it out of the file. Null is that of"
            " `models.providers.<provider>`, else the provider's environment variable.",
            secret=True,
        ),
    )
    headers: Mapping[str, str] = field(
        factory=dict,
        repr=False,
        metadata=about("Headers to send with every request.", secret=True, placeholder="header"),
    )
    non_batch_concurrency: Annotated[int, Range(minimum=1, maximum=64)] | None = field(
        default=None,
        metadata=about("How many requests run at a time; null is 4, and 1 with `ollama`."),
    )


@frozen(kw_only=True)
class EmbeddingSyncConfig:
    """How files get into the index (memory 3.10, 3.11)."""

    on_session_start: bool = field(
        default=True,
        metadata=about(
            "Whether the index is brought up to date, in the background, when a session is opened."
        ),
    )
    watch: bool = field(
        default=True,
        metadata=about(
            "Whether changed files are indexed at once, by a host that stays open; needs `hermitcrab[watch]`. Without"
            " it, the next search looks for them."
        ),
    )
    watch_debounce_ms: Annotated[int, Range(minimum=10, maximum=600_000)] = field(
        default=1500,
        metadata=about("How long files must stand still before they are indexed, in milliseconds."),
    )
    interval_minutes: Annotated[float, Range(minimum=0)] = field(
        default=0,
        metadata=about(
            "How often the index is brought up to date besides, in minutes; 0 is never."
        ),
    )
    embedding_batch_timeout_seconds: Timeout | None = field(
        default=None,
        metadata=about(
            "How long one request for the vectors of documents may take, in seconds; null is 120, and 600 with"
            " `ollama`."
        ),
    )
    sessions: SessionSyncConfig = field(
        factory=SessionSyncConfig,
        metadata=about("When a session transcript that grows is indexed again."),
    )


@frozen(kw_only=True)
class MemorySearchConfig:
    """What is indexed and how it is searched (memory 9.1)."""

    enabled: bool = field(default=True, metadata=about("Whether memory can be searched."))
    provider: Name = field(
        default="auto",
        metadata=about(
            "Who turns texts into vectors: `local`, `openai`, `gemini`, `voyage`, `mistral`, `ollama`, the id of a"
            " plugin's provider or of an entry of `models.providers`; `auto` is the first that can work, `none` is"
            " keyword search alone."
        ),
    )
    model: Name | None = field(
        default=None,
        metadata=about(
            "The embedding model; null is the provider's default. It needs a `provider` other than `auto`."
        ),
    )
    fallback: Name = field(
        default="none",
        metadata=about(
            "The provider that takes the place of one that fails, with its own default model."
        ),
    )
    output_dimensionality: Annotated[int, Range(minimum=1, maximum=65_536)] | None = field(
        default=None,
        metadata=about("How many numbers a vector has; null is the model's default."),
    )
    input_type: Name | None = field(
        default=None,
        metadata=about(
            "What the provider is told of every text; null is the provider's own word for queries and documents."
        ),
    )
    query_input_type: Name | None = field(
        default=None, metadata=about("The same for queries only; null is `inputType`.")
    )
    document_input_type: Name | None = field(
        default=None, metadata=about("The same for documents only; null is `inputType`.")
    )
    remote: RemoteEmbeddingsConfig = field(
        factory=RemoteEmbeddingsConfig,
        metadata=about("How a remote embedding provider is reached."),
    )
    sync: EmbeddingSyncConfig = field(
        factory=EmbeddingSyncConfig, metadata=about("How files get into the index.")
    )
    sources: tuple[Literal["memory", "sessions"], ...] = field(
        default=("memory",),
        metadata=about(
            "What is indexed and searched: the Markdown files of memory, and with `experimental.sessionMemory` the"
            " transcripts of sessions."
        ),
    )
    experimental: ExperimentalMemoryConfig = field(
        factory=ExperimentalMemoryConfig, metadata=about("What may still change.")
    )
    remember_across_conversations: bool = field(
        default=False,
        metadata=about(
            "Whether a private session is shown what was said in the agent's other private sessions; otherwise only"
            " its own, and those that it started."
        ),
    )
    extra_paths: tuple[Folder, ...] = field(
        default=(), metadata=about("Files and folders to index besides the workspace's memory.")
    )
    chunking: ChunkingConfig = field(
        factory=ChunkingConfig, metadata=about("How files are cut into pieces.")
    )
    query: QueryConfig = field(factory=QueryConfig, metadata=about("What a search returns."))
