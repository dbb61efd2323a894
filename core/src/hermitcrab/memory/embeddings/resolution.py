"""Which embedding provider an agent has, and why none (memory 5.2, 5.7). Nothing here loads weights or connects."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from hermitcrab.errors import EmbeddingError
from hermitcrab.memory.contract import EmbeddingProvider
from hermitcrab.memory.embeddings.builtin import (
    BUILTIN_PROVIDERS,
    ProviderEntry,
    builtin_provider,
    entry_of,
    make_remote,
)
from hermitcrab.memory.embeddings.contract import EmbeddingContext, EmbeddingFactory
from hermitcrab.memory.embeddings.failures import SETTINGS, failure
from hermitcrab.memory.embeddings.guard import GuardedEmbeddings
from hermitcrab.memory.embeddings.remote import secrets_of

if TYPE_CHECKING:
    from hermitcrab.config.schema import MemorySearchConfig

AUTO = "auto"
NONE = "none"
LOCAL = "local"
#: The protocols under which an entry of ``models.providers`` can be asked for vectors, and whose they are.
_PROTOCOLS_OF_API: Mapping[str, str] = {
    "openai-compatible": "openai",
    "openai-completions": "openai",
    **{provider.id: provider.id for provider in BUILTIN_PROVIDERS},
}

logger = logging.getLogger("hermitcrab.memory")


@frozen(kw_only=True)
class EmbeddingSources:
    """Where providers come from.

    :param factories: what plugins registered, by provider id.
    :param plugin_config: the validated config of the plugin that registered a provider.
    :param entries: ``models.providers``.
    """

    agent_id: str
    home: Path
    environ: Mapping[str, str] = field(factory=dict, repr=False)
    factories: Mapping[str, EmbeddingFactory] = field(factory=dict)
    plugin_config: Callable[[str], Any] = lambda provider_id: None
    entries: Mapping[str, ProviderEntry] = field(factory=dict, repr=False)


@frozen(kw_only=True)
class EmbeddingChoice:
    """The provider of an agent.

    :param requested: what config asks for.
    :param problem: why there is no provider, unless none was wanted.
    :param notes: what else is to be said of the choice, as sentences for the user.
    """

    requested: str
    provider: GuardedEmbeddings | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class _Wish:
    """One provider to make.

    :param own: whether model, dimensions and input types of config are meant for it.
    :param remote: whether address, key and headers are.
    :param found: whether ``auto`` came upon it, so that a server must be known to be the provider's own.
    """

    provider_id: str
    own: bool = False
    remote: bool = False
    found: bool = False


def choose_embeddings(settings: MemorySearchConfig, sources: EmbeddingSources) -> EmbeddingChoice:
    """The provider that config asks for, else its fallback, else the reason why there is none. Never raises.

    ``auto`` is ``local`` where its plugin is installed, else the first remote provider with a key.
    """
    requested = settings.provider.strip()
    if requested == NONE:
        return EmbeddingChoice(requested=requested)
    notes = _unused_settings(settings)
    fallback = _fallback_wish(settings)
    reasons = []
    for wish in _wishes(settings):
        try:
            provider = _make(wish, settings, sources)
        except EmbeddingError as error:
            reasons.append(str(error))
            continue
        return _choice(requested, provider, settings, sources, fallback, notes)
    if fallback is not None:
        try:
            provider = _make(fallback, settings, sources)
        except EmbeddingError as error:
            reasons.append(str(error))
        else:
            took_over = f"{'; '.join(reasons)}; the fallback {fallback.provider_id} takes its place"
            logger.warning("embeddings: %s", took_over)
            return _choice(requested, provider, settings, sources, None, (*notes, took_over))
    problem = f"{SETTINGS}.provider is '{requested}': {'; '.join(reasons)}"
    return EmbeddingChoice(requested=requested, problem=problem, notes=notes)


def _choice(
    requested: str,
    provider: EmbeddingProvider,
    settings: MemorySearchConfig,
    sources: EmbeddingSources,
    fallback: _Wish | None,
    notes: tuple[str, ...],
) -> EmbeddingChoice:
    guarded = GuardedEmbeddings(
        provider,
        fallback=None if fallback is None else lambda: _make(fallback, settings, sources),
        secrets=secrets_of(settings.remote.api_key, settings.remote.headers),
    )
    return EmbeddingChoice(requested=requested, provider=guarded, notes=notes)


def _wishes(settings: MemorySearchConfig) -> list[_Wish]:
    requested = settings.provider.strip()
    if requested != AUTO:
        return [_Wish(provider_id=requested, own=True, remote=requested != LOCAL)]
    with_keys = (provider.id for provider in BUILTIN_PROVIDERS if provider.key_names)
    return [_Wish(provider_id=provider_id, found=True) for provider_id in (LOCAL, *with_keys)]


def _fallback_wish(settings: MemorySearchConfig) -> _Wish | None:
    """The fallback has its own default model; an address and a key are its own if the first provider has no use for
    them."""
    name, requested = settings.fallback.strip(), settings.provider.strip()
    if name in (NONE, AUTO, requested):
        return None
    return _Wish(provider_id=name, remote=requested in (LOCAL, AUTO) and name != LOCAL)


def _unused_settings(settings: MemorySearchConfig) -> tuple[str, ...]:
    if settings.provider.strip() != AUTO:
        return ()
    unused = [
        name
        for name, is_set in (
            ("model", settings.model is not None),
            ("outputDimensionality", settings.output_dimensionality is not None),
            ("remote", _fallback_wish(settings) is None and _has_remote(settings)),
        )
        if is_set
    ]
    if not unused:
        return ()
    names = ", ".join(f"{SETTINGS}.{name}" for name in unused)
    return (f"not used, because {SETTINGS}.provider is 'auto': {names}. Name the provider",)


def _has_remote(settings: MemorySearchConfig) -> bool:
    remote = settings.remote
    return bool(remote.base_url or remote.api_key or remote.headers)


def _make(
    wish: _Wish, settings: MemorySearchConfig, sources: EmbeddingSources
) -> EmbeddingProvider:
    """The provider of this id.

    :raises EmbeddingError: if it cannot be made, or if nobody knows it.
    """
    context = _context(wish, settings, sources)
    builtin = builtin_provider(wish.provider_id)
    if builtin is not None:
        entry = entry_of(builtin, sources.entries)
        return make_remote(builtin, context, entry, own_server=wish.found)
    factory = sources.factories.get(wish.provider_id)
    if factory is not None:
        return _from_plugin(factory, context)
    entry = sources.entries.get(wish.provider_id)
    if entry is not None:
        return _from_entry(wish.provider_id, entry, context)
    raise _unknown(wish.provider_id, sources)


def _context(
    wish: _Wish, settings: MemorySearchConfig, sources: EmbeddingSources
) -> EmbeddingContext:
    remote = settings.remote
    query_type, document_type = _input_types(settings) if wish.own else (None, None)
    return EmbeddingContext(
        provider_id=wish.provider_id,
        agent_id=sources.agent_id,
        model=settings.model if wish.own else None,
        output_dimensionality=settings.output_dimensionality if wish.own else None,
        query_input_type=query_type,
        document_input_type=document_type,
        base_url=remote.base_url if wish.remote else None,
        api_key=remote.api_key if wish.remote else None,
        headers=remote.headers if wish.remote else {},
        concurrency=remote.non_batch_concurrency,
        batch_timeout_s=settings.sync.embedding_batch_timeout_seconds,
        environ=sources.environ,
        home=sources.home,
        logger=logger,
        plugin_config=sources.plugin_config(wish.provider_id),
    )


def _input_types(settings: MemorySearchConfig) -> tuple[str | None, str | None]:
    both = settings.input_type
    return settings.query_input_type or both, settings.document_input_type or both


def _from_plugin(factory: EmbeddingFactory, context: EmbeddingContext) -> EmbeddingProvider:
    where = context.provider_id
    try:
        provider = factory(context)
    except EmbeddingError:
        raise
    except Exception as error:
        logger.warning("embedding provider '%s' failed to start", where, exc_info=True)
        raise failure(where, "request", f"the provider failed to start: {error}").error from error
    if not isinstance(provider, EmbeddingProvider):
        message = f"its factory made a {type(provider).__name__}, not an EmbeddingProvider"
        raise failure(where, "request", message).error
    return provider


def _from_entry(
    provider_id: str, entry: ProviderEntry, context: EmbeddingContext
) -> EmbeddingProvider:
    """A server under ``models.providers``, asked for vectors; its ``api`` says how."""
    api = entry.api or "openai-compatible"
    builtin = builtin_provider(_PROTOCOLS_OF_API.get(api, ""))
    if builtin is None:
        message = f"models.providers.{provider_id}.api is '{api}', which has no embeddings"
        hint = f"Choose another {SETTINGS}.provider"
        raise failure(provider_id, "request", message, hint=hint).error
    # Neither the model nor the key of the protocol's first speaker is meant for this server.
    own = evolve(builtin, base_url=entry.base_url, default_model=None, key_names=())
    return make_remote(own, context, entry)


def _unknown(provider_id: str, sources: EmbeddingSources) -> EmbeddingError:
    if provider_id == LOCAL:
        message = "the plugin embeddings-local is not installed or not enabled"
        hint = "Install it: pip install hermitcrab-embeddings-local"
        return failure(LOCAL, "request", message, hint=hint).error
    builtin = [provider.id for provider in BUILTIN_PROVIDERS]
    known = sorted({*builtin, LOCAL, *sources.factories, *sources.entries})
    near = difflib.get_close_matches(provider_id, known, n=1)
    return failure(
        provider_id,
        "request",
        f"there is no such embedding provider; known are {', '.join(known)}",
        hint=f"Did you mean {near[0]}?" if near else "Install the plugin that brings it",
    ).error
