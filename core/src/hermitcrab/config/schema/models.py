"""``models``: where chat models are reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import HttpUrl, Range
from hermitcrab.config.schema.forms import NAME, PROVIDER_ID

__all__ = ["ModelEntry", "ModelsConfig", "ProviderConfig"]


@frozen(kw_only=True)
class ModelEntry:
    """What is known of one model of a provider."""

    context_window: Annotated[int, Range(minimum=1)] | None = field(
        default=None, metadata=about("The model's context window in tokens; null asks the server.")
    )
    max_tokens: Annotated[int, Range(minimum=1)] | None = field(
        default=None,
        metadata=about("The longest answer to ask for, in tokens; null leaves it to the server."),
    )


@frozen(kw_only=True)
class ProviderConfig:
    """One server that answers chat requests."""

    api: Annotated[str, NAME] = field(
        default="openai-compatible",
        metadata=about(
            "The protocol that the server speaks: `openai-compatible`, or one that a plugin provides."
        ),
    )
    base_url: Annotated[str, HttpUrl()] | None = field(
        default=None,
        metadata=about(
            "The server's address, up to and including its version: `https://api.example.com/v1`."
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
