"""What the factory of an embedding provider gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from logging import Logger
from pathlib import Path
from typing import Any

from attrs import field, frozen

from hermitcrab.memory.contract import EmbeddingProvider


@frozen(kw_only=True)
class EmbeddingContext:
    """What the factory of an embedding provider gets; it is called when the host starts.

    A factory neither loads weights nor connects: a provider does that when it is first asked.

    :param provider_id: the id under which the provider is registered.
    :param model: the model asked for; ``None`` is the provider's default.
    :param output_dimensionality: how many numbers a vector is to have; ``None`` is the model's default.
    :param query_input_type: what the provider is to be told of queries; ``None`` is its own word for them.
    :param document_input_type: the same for what is searched.
    :param base_url: the server's address, where config names one.
    :param api_key: the credential, where config or the environment has one for this server.
    :param headers: to be sent with every request.
    :param concurrency: how many requests may run at a time; ``None`` leaves it to the provider.
    :param batch_timeout_s: seconds that one request for documents may take; ``None`` leaves it to the provider.
    :param plugin_config: the validated ``plugins.entries.<id>.config`` of the plugin that registered it.
    """

    provider_id: str
    agent_id: str = "main"
    model: str | None = None
    output_dimensionality: int | None = None
    query_input_type: str | None = None
    document_input_type: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    concurrency: int | None = None
    batch_timeout_s: float | None = None
    environ: Mapping[str, str] = field(factory=dict, repr=False)
    home: Path
    logger: Logger
    plugin_config: Any = None


#: What a plugin registers under the id of a provider.
EmbeddingFactory = Callable[[EmbeddingContext], EmbeddingProvider]
