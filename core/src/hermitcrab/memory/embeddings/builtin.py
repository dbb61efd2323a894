"""The embedding providers of the core, and how one is made from config (memory 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Protocol as StructuralType
from urllib.parse import urlsplit

from attrs import field, frozen

from hermitcrab.memory.embeddings import protocols
from hermitcrab.memory.embeddings.contract import EmbeddingContext
from hermitcrab.memory.embeddings.failures import SETTINGS, failure
from hermitcrab.memory.embeddings.fingerprint import same_server
from hermitcrab.memory.embeddings.protocols import Protocol
from hermitcrab.memory.embeddings.remote import BATCH_TIMEOUT_S, Limits, RemoteEmbeddings, Server

#: A server that loads its model when it is first asked takes its time.
_LOCAL_SERVER_TIMEOUT_S = 600.0


@frozen(kw_only=True)
class BuiltinProvider:
    """A provider of the core.

    :param default_model: ``None`` where config must name one.
    :param dims: how many numbers the vectors of a model have, for models where that is certain.
    :param base_url: its own address, up to and including the version; ``None`` where config must give it.
    :param key_names: the environment variables of its key; without one, no key is needed.
    :param config_ids: the entries of ``models.providers`` that speak of it.
    :param prefixes: what may stand before a model's name.
    """

    id: str
    protocol: Protocol
    default_model: str | None
    base_url: str | None
    dims: Mapping[str, int] = field(factory=dict)
    key_names: tuple[str, ...] = ()
    config_ids: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    items: int = 64
    concurrency: int = 4
    batch_timeout_s: float = BATCH_TIMEOUT_S


#: In the order in which ``auto`` tries them; it leaves out ``ollama``, which needs no key.
BUILTIN_PROVIDERS: tuple[BuiltinProvider, ...] = (
    BuiltinProvider(
        id="openai",
        protocol=protocols.OPENAI,
        default_model="text-embedding-3-small",
        base_url="https://api.openai.com/v1",
        dims={
            "text-embedding-3-small": 1536,
            "text-embedding-3-large": 3072,
            "text-embedding-ada-002": 1536,
        },
        key_names=("OPENAI_API_KEY",),
        config_ids=("openai",),
        prefixes=("openai/",),
    ),
    BuiltinProvider(
        id="gemini",
        protocol=protocols.GEMINI,
        default_model="gemini-embedding-001",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        dims={"gemini-embedding-001": 3072},
        key_names=("GEMINI_API_KEY",),
        config_ids=("gemini", "google"),
        prefixes=("models/", "gemini/", "google/"),
    ),
    BuiltinProvider(
        id="voyage",
        protocol=protocols.VOYAGE,
        default_model="voyage-4-large",
        base_url="https://api.voyageai.com/v1",
        key_names=("VOYAGE_API_KEY",),
        config_ids=("voyage",),
        prefixes=("voyage/",),
    ),
    BuiltinProvider(
        id="mistral",
        protocol=protocols.MISTRAL,
        default_model="mistral-embed",
        base_url="https://api.mistral.ai/v1",
        dims={"mistral-embed": 1024},
        key_names=("MISTRAL_API_KEY",),
        config_ids=("mistral",),
        prefixes=("mistral/",),
    ),
    BuiltinProvider(
        id="ollama",
        protocol=protocols.OLLAMA,
        default_model="nomic-embed-text",
        base_url="http://127.0.0.1:11434",
        dims={"nomic-embed-text": 768},
        config_ids=("ollama",),
        prefixes=("ollama/",),
        concurrency=1,
        batch_timeout_s=_LOCAL_SERVER_TIMEOUT_S,
    ),
)


class ProviderEntry(StructuralType):
    """What ``models.providers.<id>`` says of a server."""

    @property
    def api(self) -> str | None: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def api_key(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


def builtin_provider(provider_id: str) -> BuiltinProvider | None:
    """The provider of the core with this id, or None."""
    return next((each for each in BUILTIN_PROVIDERS if each.id == provider_id), None)


def entry_of(
    provider: BuiltinProvider, entries: Mapping[str, ProviderEntry]
) -> ProviderEntry | None:
    """What config says of a provider's server under ``models.providers``, or None."""
    return next((entries[name] for name in provider.config_ids if name in entries), None)


def make_remote(
    provider: BuiltinProvider,
    context: EmbeddingContext,
    entry: ProviderEntry | None = None,
    *,
    own_server: bool = False,
) -> RemoteEmbeddings:
    """A provider as config asks for it; nothing is sent.

    :param context: what is asked for; its ``provider_id`` may be that of an entry of ``models.providers``.
    :param own_server: take the provider's own server and no other; of another nobody has said that it makes vectors.
    :raises EmbeddingError: of the kind ``auth`` without a key that is needed, ``request`` without a model or address.
    """
    server = server_of(provider, context, entry)
    if own_server and not _is_own(provider, server):
        message = "config names another server for it, which may not make vectors"
        hint = f"Name the provider in {SETTINGS}.provider"
        raise failure(context.provider_id, "request", message, hint=hint).error
    model = _model_name(provider, context, server)
    if provider.key_names and _needs_key(provider, server):
        names = " or ".join(provider.key_names)
        raise failure(
            context.provider_id,
            "auth",
            "there is no key",
            hint=f"Set {names}, or {SETTINGS}.remote.apiKey",
        ).error
    return RemoteEmbeddings(
        context.provider_id,
        model,
        provider.protocol,
        server,
        input_types=(context.query_input_type, context.document_input_type),
        dimensions=context.output_dimensionality,
        known_dims=provider.dims.get(model, 0) if _is_own(provider, server) else 0,
        limits=Limits(
            items=provider.items,
            concurrency=context.concurrency or provider.concurrency,
            batch_timeout_s=context.batch_timeout_s or provider.batch_timeout_s,
        ),
    )


def server_of(
    provider: BuiltinProvider, context: EmbeddingContext, entry: ProviderEntry | None
) -> Server:
    """The server to ask. A key goes to the server for which it was given, and to no other.

    :raises EmbeddingError: of the kind ``request``, if nobody says where it is.
    """
    known = (entry.base_url if entry else None) or provider.base_url
    address = context.base_url or known
    if address is None:
        hint = f"Set {SETTINGS}.remote.baseUrl"
        raise failure(context.provider_id, "request", "the server has no address", hint=hint).error
    key, headers = context.api_key, dict(context.headers)
    if known is not None and same_server(address, known):
        headers = {**(entry.headers if entry else {}), **headers}
        key = key or (entry.api_key if entry else None)
    if provider.base_url is not None and same_server(address, provider.base_url):
        from_environ = (context.environ.get(name) for name in provider.key_names)
        key = key or next((value for value in from_environ if value), None)
    if provider.id == "ollama":
        # The address for chat ends in the path of another protocol.
        address = address.rstrip("/").removesuffix("/v1").removesuffix("/api")
    return Server(
        base_url=address, api_key=key, headers=headers, remote=not _is_on_this_machine(address)
    )


def _model_name(provider: BuiltinProvider, context: EmbeddingContext, server: Server) -> str:
    name = context.model or provider.default_model
    if name is None:
        hint = f"Set {SETTINGS}.model"
        raise failure(context.provider_id, "request", "no model is named", hint=hint).error
    if not _is_own(provider, server):
        # A router in front of several providers wants the prefix.
        return name
    for prefix in provider.prefixes:
        name = name.removeprefix(prefix)
    return name


def _needs_key(provider: BuiltinProvider, server: Server) -> bool:
    if server.api_key or not _is_own(provider, server):
        return False
    names = {name.lower() for name in provider.protocol.credentials("-")}
    return not names & {name.lower() for name in server.headers}


def _is_own(provider: BuiltinProvider, server: Server) -> bool:
    return provider.base_url is not None and same_server(server.base_url, provider.base_url)


def _is_on_this_machine(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
