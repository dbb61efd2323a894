"""The connection to a Chroma server, which may go away and come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import importing
from hermitcrab_memory_chroma.connection import (
    DEFAULT_BATCH,
    CollectionSpec,
    Connection,
    ConnectionStatus,
)
from hermitcrab_memory_chroma.failures import ChromaAwayError, ChromaSlowError, away, refused, slow
from hermitcrab_memory_chroma.greeting import greet
from hermitcrab_memory_chroma.settings import (
    DEFAULT_DATABASE,
    DEFAULT_HOST,
    DEFAULT_PORT,
    DEFAULT_TENANT,
    ChromaConfig,
)

if TYPE_CHECKING:
    from hermitcrab_memory_chroma.server_api import ServerApi

T = TypeVar("T")

# A server that was away is left alone for a while, twice as long after each failure in a row.
_SHORTEST_REST_S = 0.25
_LONGEST_REST_S = 15.0


class ServerConnection(Connection):
    """Connects when it is first used, and again with pauses after the server was away.

    Belongs to one event loop. Calls fail at once during a pause.
    """

    def __init__(
        self, config: ChromaConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._clock = clock
        self._place: dict[str, Any] = {
            "tenant": config.tenant or DEFAULT_TENANT,
            "database": config.database or DEFAULT_DATABASE,
        }
        self._api: ServerApi | None = None
        self._version: str | None = None
        self._collections: dict[str, Any] = {}
        self._connecting = asyncio.Lock()
        self._is_closed = False
        self._connections = 0
        self._failures = 0
        self._failure: MemoryBackendError | None = None
        self._rests_until = 0.0

    async def call(
        self, spec: CollectionSpec, verb: str, *, create: bool = True, **arguments: Any
    ) -> Any:
        async def call(api: ServerApi) -> Any:
            with importing():
                from chromadb.errors import NotFoundError

            try:
                collection = await self._collection(api, spec, create)
                return None if collection is None else await getattr(collection, verb)(**arguments)
            except NotFoundError:  # deleted, and perhaps made anew, by someone else
                self._collections.pop(spec.name, None)
                self.generation += 1
                collection = await self._collection(api, spec, create)
                return None if collection is None else await getattr(collection, verb)(**arguments)

        return await self._run(call)

    async def metadata(self, spec: CollectionSpec) -> Mapping[str, Any] | None:
        async def read(api: ServerApi) -> Mapping[str, Any] | None:
            self._collections.pop(spec.name, None)
            collection = await self._collection(api, spec, create=False)
            return None if collection is None else dict(collection.metadata or {})

        return await self._run(read)

    async def names(self) -> tuple[str, ...]:
        async def names(api: ServerApi) -> tuple[str, ...]:
            return tuple(model.name for model in await api.list_collections(**self._place))

        return await self._run(names)

    async def drop(self, name: str) -> bool:
        async def drop(api: ServerApi) -> bool:
            with importing():
                from chromadb.errors import NotFoundError

            self._collections.pop(name, None)
            try:
                await api.delete_collection(name, **self._place)
            except NotFoundError:
                return False
            return True

        return await self._run(drop)

    def status(self) -> ConnectionStatus:
        return ConnectionStatus(
            mode="server",
            address=self._config.address,
            version=self._version,
            last_error=None if self._failure is None else str(self._failure),
            reconnects=max(0, self._connections - 1),
        )

    async def close(self) -> None:
        self._is_closed = True
        if self._api is not None:
            await self._disconnect(self._api)

    async def _run(self, work: Callable[[ServerApi], Awaitable[T]]) -> T:
        """``work``, and once more on a new connection if the old one broke."""
        was_connected = self._api is not None
        try:
            return await self._tried(work)
        except ChromaSlowError:
            raise
        except ChromaAwayError:
            if not was_connected:
                raise
        self._rests_until = 0.0
        return await self._tried(work)

    async def _tried(self, work: Callable[[ServerApi], Awaitable[T]]) -> T:
        import httpx

        api = await self._connected()
        try:
            async with asyncio.timeout(self._config.timeout_seconds):
                answer = await work(api)
        except (httpx.TimeoutException, TimeoutError) as error:
            await self._disconnect(api)
            raise self._noted(slow(self._config.address, self._config.timeout_seconds)) from error
        except httpx.TransportError as error:
            await self._disconnect(api)
            raise self._noted(away(self._config.address, _reason(error))) from error
        except MemoryBackendError:
            raise
        except Exception as error:
            raise refused(self._config.address, error) from error
        self._failure, self._failures = None, 0
        return answer

    async def _connected(self) -> ServerApi:
        async with self._connecting:
            if self._is_closed:
                raise MemoryBackendError(
                    "this memory was closed", where=self._config.address, hint="Open a new one"
                )
            if self._api is not None:
                return self._api
            if self._failure is not None and self._clock() < self._rests_until:
                raise away(self._config.address, _again(self._failure))
            api = await asyncio.to_thread(self._made)
            try:
                async with asyncio.timeout(self._config.timeout_seconds):
                    self._version = await greet(api, self._config.address, **self._place)
                    self.max_batch = await _batch_of(api)
            except BaseException as error:
                await api.close()
                if isinstance(error, MemoryBackendError):
                    raise self._noted(error) from error.__cause__
                if isinstance(error, TimeoutError):
                    raise self._noted(away(self._config.address, _reason(error))) from error
                raise
            self._api = api
            self._connections += 1
            self.generation += 1
            return api

    def _made(self) -> ServerApi:
        # Importing chromadb takes most of a second.
        config = self._config
        with importing():
            from hermitcrab_memory_chroma.server_api import server_api

            return server_api(
                host=config.host or DEFAULT_HOST,
                port=config.port or DEFAULT_PORT,
                ssl=config.ssl,
                headers=dict(config.headers),
                connect_timeout_s=config.connect_timeout_seconds,
                timeout_s=config.timeout_seconds,
            )

    async def _collection(self, api: ServerApi, spec: CollectionSpec, create: bool) -> Any:
        with importing():
            from chromadb.errors import NotFoundError

        if spec.name in self._collections:
            return self._collections[spec.name]
        try:
            model = await api.get_collection(spec.name, **self._place)
        except NotFoundError:
            if not create:
                return None
            configuration: Any = spec.configuration
            model = await api.create_collection(
                spec.name,
                configuration=configuration,
                metadata=dict(spec.metadata) or None,
                get_or_create=True,
                **self._place,
            )
        self._collections[spec.name] = api.collection(model)
        return self._collections[spec.name]

    async def _disconnect(self, api: ServerApi) -> None:
        if self._api is api:  # another call may have connected again already
            self._api = None
            self._collections.clear()
        await api.close()

    def _noted(self, error: MemoryBackendError) -> MemoryBackendError:
        self._failure = error
        rest = min(_LONGEST_REST_S, _SHORTEST_REST_S * 2.0**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._rests_until = self._clock() + rest
        return error


async def _batch_of(api: ServerApi) -> int:
    size = await api.get_max_batch_size()
    return size if size > 0 else DEFAULT_BATCH


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__} {error}".split())


def _again(error: MemoryBackendError) -> str:
    return f"it failed a moment ago: {error.message}"
