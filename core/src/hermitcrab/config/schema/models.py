"""``models``: where chat models are reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import HttpUrl, Range
from hermitcrab.config.schema.forms import NAME, PROVIDER_ID, ThinkingLevel

__all__ = ["ModelEntry", "ModelsConfig", "ProviderConfig"]


@frozen(kw_only=True)
class ModelEntry:
    """What is known of one model of a provider."""

    context_window: Annotated[int, Range(minimum=1)] | None = field(
        default=None, metadata=about("The model's context window in tokens; null asks the server.")
    )
    max_tokens: Annotated[int, Range(minimum=1)] | None = field(
        default=None,
        metadata=about(
            "The longest answer to ask for, in tokens; null leaves it to the server, and is 8192 with "
            "`anthropic-messages`, 16384 while the model thinks."
        ),
    )
    reasoning: bool = field(
        default=False,
        metadata=about("Whether the model can be told how much to think; others are told nothing."),
    )
    thinking_levels: tuple[ThinkingLevel, ...] = field(
        default=("low", "medium", "high"),
        metadata=about(
            "The thinking levels that it knows; others are replaced by the nearest. With `off` among them it is "
            "told not to think, without it nothing is said."
        ),
    )
    fast_body: Mapping[str, Any] = field(
        factory=dict,
        metadata=about(
            "What fast mode adds to the body of a request, such as `service_tier: priority`."
        ),
    )


@frozen(kw_only=True)
class ProviderConfig:
    """One server that answers chat requests."""

    api: Annotated[str, NAME] | None = field(
        default=None,
        metadata=about(
            "The protocol that the server speaks: `openai-compatible`, `anthropic-messages`, or one that a plugin "
            "provides; null is `anthropic-messages` for the provider `anthropic`, else `openai-compatible`."
        ),
    )
    base_url: Annotated[str, HttpUrl()] | None = field(
        default=None,
        metadata=about(
            "The server's address, up to and including its version: `https://api.example.com/v1`; null is "
            "Anthropic's own where its protocol is spoken."
        ),
    )
    api_key: Annotated[str, NAME] | None = field(
        default=None,
        repr=False,
        metadata=about(
            "The credential; write `${ENV_NAME}` to keep it out of the file.", secret=True
        ),
    )
    headers: Mapping[str, str] = field(
        factory=dict,
        repr=False,
        metadata=about("Headers to send with every request.", secret=True, placeholder="header"),
    )
    timeout_seconds: Annotated[float, Range(above=0)] = field(
        default=120.0, metadata=about("How long to wait for the server, in seconds.")
    )
    max_retries: Annotated[int, Range(minimum=0, maximum=10)] = field(
        default=3,
        metadata=about("How often a request that failed for a passing reason is repeated."),
    )
    prompt_cache: Literal["none", "short", "long"] = field(
        default="short",
        metadata=about(
            "How long the provider is to remember the beginning of requests: not at all, five minutes, an hour. "
            "Only `anthropic-messages` has it."
        ),
    )
    models: Mapping[Annotated[str, NAME], ModelEntry] = field(
        factory=dict, metadata=about("What is known of single models.", placeholder="model")
    )


@frozen(kw_only=True)
class ModelsConfig:
    """Where chat models are reached."""

    providers: Mapping[Annotated[str, PROVIDER_ID], ProviderConfig] = field(
        factory=dict,
        metadata=about(
            "The servers; the id is the part of `provider/name` before the slash.", placeholder="id"
        ),
    )
