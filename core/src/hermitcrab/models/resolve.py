"""From the names in config to a chat model and its context window."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from attrs import frozen

from hermitcrab.errors import ConfigError
from hermitcrab.models.contract import ChatModel

if TYPE_CHECKING:
    from hermitcrab.models.anthropic_wire import PromptCache

#: Tokens that a window is assumed to have where nobody says (design 7).
DEFAULT_CONTEXT_WINDOW = 32_000
OFFLINE_PROVIDER = "offline"
OFFLINE_MODEL = "extractive"
OPENAI_APIS = frozenset({"openai-compatible", "openai-completions", "openai"})
ANTHROPIC_APIS = frozenset({"anthropic-messages", "anthropic"})
#: The provider whose api and address need not be in config.
ANTHROPIC_PROVIDER = "anthropic"

_WHERE_MODEL = "agents.defaults.model"
_WHERE_PROVIDERS = "models.providers"
_log = logging.getLogger("hermitcrab.models")


class ModelEntryLike(Protocol):
    """What config says of one model of a provider, in tokens."""

    @property
    def context_window(self) -> int | None: ...
    @property
    def max_tokens(self) -> int | None: ...
    @property
    def reasoning(self) -> bool: ...
    @property
    def thinking_levels(self) -> Sequence[str]: ...
    @property
    def fast_body(self) -> Mapping[str, Any]: ...


class ProviderConfigLike(Protocol):
    """What config says of a provider, ``models.providers.<id>``."""

    @property
    def api(self) -> str | None: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def api_key(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def models(self) -> Mapping[str, ModelEntryLike]: ...
    @property
    def timeout_seconds(self) -> float | None: ...
    @property
    def max_retries(self) -> int: ...
    @property
    def prompt_cache(self) -> PromptCache: ...


class ModelFactory(Protocol):
    """How a plugin makes a model: by the provider's id, the model's name and what config says, if anything."""

    def __call__(
        self, *, provider_id: str, model: str, config: ProviderConfigLike | None
    ) -> ChatModel: ...


@frozen
class ModelSpec:
    """A model's name in config, ``provider/name``; the name may hold further slashes."""

    provider_id: str
    name: str

    def __str__(self) -> str:
        return f"{self.provider_id}/{self.name}"


@frozen
class ContextWindow:
    """A context window in tokens, and who said so."""

    tokens: int
    source: Literal["config", "provider", "server", "default"]


def parse_model(reference: str) -> ModelSpec:
    """``provider/name`` in its parts; ``offline`` alone is the offline model. Raises ConfigError."""
    text = reference.strip()
    if text == OFFLINE_PROVIDER:
        return ModelSpec(OFFLINE_PROVIDER, OFFLINE_MODEL)
    provider_id, _, name = text.partition("/")
    if not provider_id or not name:
        raise ConfigError(
            f"{reference!r} does not name a model",
            where=_WHERE_MODEL,
            hint="Write provider/name, or offline",
        )
    return ModelSpec(provider_id, name)


def model_entry(
    reference: str | None, providers: Mapping[str, ProviderConfigLike]
) -> ModelEntryLike | None:
    """What config says of the model that ``reference`` names, if anything."""
    if reference is None:
        return None
    spec = parse_model(reference)
    provider = providers.get(spec.provider_id)
    return provider.models.get(spec.name) if provider else None


def build_model(
    reference: str | None,
    providers: Mapping[str, ProviderConfigLike],
    extra_factories: Mapping[str, ModelFactory] | None = None,
) -> ChatModel:
    """The model that ``reference`` names; None is the offline model.

    :param extra_factories: what plugins registered, under the name of an ``api`` or of a provider.
    :raises ConfigError: for a provider or an api that nobody knows, or a provider without an address.
    """
    factories = extra_factories or {}
    spec = parse_model(OFFLINE_PROVIDER if reference is None else reference)
    provider = providers.get(spec.provider_id)
    if spec.provider_id == OFFLINE_PROVIDER and provider is None:
        return _offline_model(spec)
    api = api_of(spec.provider_id, provider)
    if provider is not None and api in OPENAI_APIS | ANTHROPIC_APIS:
        return _remote_model(spec, provider, api)
    factory = factories.get(api) if provider else None
    factory = factory or factories.get(spec.provider_id)
    if factory is not None:
        return factory(provider_id=spec.provider_id, model=spec.name, config=provider)
    if provider is not None:
        raise _unknown_api(spec.provider_id, api, factories)
    raise _unknown_provider(spec.provider_id, [*providers, *factories])


def _offline_model(spec: ModelSpec) -> ChatModel:
    from hermitcrab.models.offline.model import OfflineModel

    if spec.name != OFFLINE_MODEL:
        raise ConfigError(
            f"there is no offline model {spec.name!r}",
            where=_WHERE_MODEL,
            hint=f"Write {OFFLINE_PROVIDER}/{OFFLINE_MODEL}",
        )
    return OfflineModel()


def api_of(provider_id: str, provider: ProviderConfigLike | None) -> str:
    """The protocol of a provider: what config says, else Anthropic's own or the one that everybody speaks."""
    if provider is not None and provider.api is not None:
        return provider.api
    return "anthropic-messages" if provider_id == ANTHROPIC_PROVIDER else "openai-compatible"


def _remote_model(spec: ModelSpec, provider: ProviderConfigLike, api: str) -> ChatModel:
    from hermitcrab.models.anthropic import ANTHROPIC_URL, AnthropicModel
    from hermitcrab.models.http import DEFAULT_TIMEOUT_S
    from hermitcrab.models.openai_compatible import OpenAICompatibleModel

    make: Callable[..., ChatModel] = OpenAICompatibleModel
    base_url = provider.base_url
    if api in ANTHROPIC_APIS:
        make = partial(AnthropicModel, prompt_cache=provider.prompt_cache)
        base_url = base_url or ANTHROPIC_URL
    if not base_url:
        raise ConfigError(
            "the provider has no address",
            where=f"{_WHERE_PROVIDERS}.{spec.provider_id}.baseUrl",
            hint="Give the server's address up to the version, such as http://127.0.0.1:8080/v1",
        )
    entry = provider.models.get(spec.name)
    return make(
        spec.provider_id,
        spec.name,
        base_url,
        api_key=provider.api_key,
        headers=provider.headers,
        timeout_s=provider.timeout_seconds or DEFAULT_TIMEOUT_S,
        max_retries=provider.max_retries,
        context_window=entry.context_window if entry else None,
        max_tokens=entry.max_tokens if entry else None,
        thinking_levels=thinking_levels_of(entry),
        fast_body=entry.fast_body if entry else None,
    )


def thinking_levels_of(entry: ModelEntryLike | None) -> tuple[str, ...]:
    """The thinking levels that a model can be told; none for one that config does not mark as reasoning."""
    return tuple(entry.thinking_levels) if entry is not None and entry.reasoning else ()


def _unknown_provider(provider_id: str, known: Iterable[str]) -> ConfigError:
    names = sorted({*known, OFFLINE_PROVIDER})
    if provider_id == ANTHROPIC_PROVIDER:
        return ConfigError(
            "the provider has no key",
            where=f"{_WHERE_PROVIDERS}.{provider_id}",
            hint=f"Add {_WHERE_PROVIDERS}.{provider_id}.apiKey: ${{ANTHROPIC_API_KEY}} to the config",
        )
    return ConfigError(
        f"there is no provider {provider_id!r}; known are {', '.join(names)}",
        where=_WHERE_PROVIDERS,
        hint=_nearest(provider_id, names) or f"Add {_WHERE_PROVIDERS}.{provider_id} to the config",
    )


def _unknown_api(provider_id: str, api: str, factories: Iterable[str]) -> ConfigError:
    names = sorted({*factories, *OPENAI_APIS, *ANTHROPIC_APIS})
    return ConfigError(
        f"no model speaks the api {api!r}; known are {', '.join(names)}",
        where=f"{_WHERE_PROVIDERS}.{provider_id}.api",
        hint=_nearest(api, names) or "Install the plugin that brings it",
    )


def _nearest(name: str, names: list[str]) -> str | None:
    near = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]}?" if near else None


async def resolve_context_window(
    model: ChatModel, *, configured: int | None, entry: int | None
) -> ContextWindow:
    """The window of a model (design 7): ``configured``, the provider's ``entry``, the server, else 32,000.

    Where it comes from is logged; the assumption as a warning, once for each model (context 10, P20).
    """
    window = await _known_window(model, configured, entry)
    _log.debug("%s: a context window of %d tokens, from %s", model.id, window.tokens, window.source)
    return window


async def _known_window(
    model: ChatModel, configured: int | None, entry: int | None
) -> ContextWindow:
    if configured is not None:
        return ContextWindow(configured, "config")
    if entry is not None:
        return ContextWindow(entry, "provider")
    served = await model.context_window()
    if served is not None:
        return ContextWindow(served, "server")
    _warn_of_assumed_window(model.id)
    return ContextWindow(DEFAULT_CONTEXT_WINDOW, "default")


@cache
def _warn_of_assumed_window(model_id: str) -> None:
    _log.warning(
        "%s: nobody says how large the context window is, %d tokens are assumed; "
        "set agents.defaults.contextTokens",
        model_id,
        DEFAULT_CONTEXT_WINDOW,
    )
