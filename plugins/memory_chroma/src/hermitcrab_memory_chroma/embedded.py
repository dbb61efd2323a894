"""The connection to a Chroma in a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hermitcrab.errors import HermitcrabError, MemoryBackendError
from hermitcrab.memory import importing
from hermitcrab_memory_chroma.connection import CollectionSpec, Connection, ConnectionStatus
from hermitcrab_memory_chroma.failures import refused
from hermitcrab_memory_chroma.folders import Folder, borrow, give_back

T = TypeVar("T")


class EmbeddedConnection(Connection):
    """Works in one thread, which all agents of this process that use the folder share.

    :param timeout_s: seconds that a call may take, those before it included.
    """

    def __init__(self, path: Path, *, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._folder: Folder | None = None
        self._last_error: str | None = None

    async def call(
        self, spec: CollectionSpec, verb: str, *, create: bool = True, **arguments: Any
    ) -> Any:
        return await self._run(lambda folder: _called(folder, spec, verb, create, arguments))

    async def metadata(self, spec: CollectionSpec) -> Mapping[str, Any] | None:
        def read(folder: Folder) -> Mapping[str, Any] | None:
            folder.collections.pop(spec.name, None)
            collection = _collection(folder, spec, create=False)
            return None if collection is None else dict(collection.metadata or {})

        return await self._run(read)

    async def names(self) -> tuple[str, ...]:
        return await self._run(lambda folder: tuple(folder.api().names()))

    async def drop(self, name: str) -> bool:
        def drop(folder: Folder) -> bool:
            folder.collections.pop(name, None)
            if name not in folder.api().names():
                return False
            folder.api().drop(name)
            return True

        return await self._run(drop)

    def status(self) -> ConnectionStatus:
        api = None if self._folder is None else self._folder.opened
        return ConnectionStatus(
            mode="embedded",
            address=str(self._path),
            version=None if api is None else api.version,
            last_error=self._last_error,
        )

    async def close(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(give_back, folder)

    async def _run(self, work: Callable[[Folder], T]) -> T:
        if self._folder is None:
            self._folder = borrow(self._path)
        running = asyncio.get_running_loop().run_in_executor(
            self._folder.worker, partial(_guarded, work, self._folder)
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await running
        except HermitcrabError as error:
            self._last_error = str(error)
            raise
        except TimeoutError as error:
            self._last_error = f"no answer within {self._timeout_s:g} s"
            raise MemoryBackendError(
                f"Chroma did not finish within {self._timeout_s:g} s",
                where=self._path,
                hint="Try again, or raise plugins.entries.memory-chroma.config.timeoutSeconds",
            ) from error
        except Exception as error:
            self._last_error = f"{type(error).__name__}: {error}"
            raise refused(str(self._path), error) from error
        self._last_error = None
        api = self._folder.opened if self._folder is not None else None
        if api is not None:
            self.max_batch = api.max_batch
        return answer


def _guarded(work: Callable[[Folder], T], folder: Folder) -> T:
    """``work``; a panic in Chroma's native code, which is no Exception, becomes one."""
    try:
        return work(folder)
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"Chroma broke down: {error}") from error


def _called(
    folder: Folder, spec: CollectionSpec, verb: str, create: bool, arguments: Mapping[str, Any]
) -> Any:
    with importing():
        from chromadb.errors import NotFoundError

    try:
        collection = _collection(folder, spec, create)
        return None if collection is None else getattr(collection, verb)(**arguments)
    except NotFoundError:
        folder.collections.pop(spec.name, None)
        collection = _collection(folder, spec, create)
        return None if collection is None else getattr(collection, verb)(**arguments)


def _collection(folder: Folder, spec: CollectionSpec, create: bool) -> Any:
    with importing():
        from chromadb.errors import NotFoundError

    api = folder.api()
    if spec.name not in folder.collections:
        try:
            folder.collections[spec.name] = api.find(spec.name)
        except NotFoundError:
            if not create:
                return None
            folder.collections[spec.name] = api.make(
                spec.name, spec.configuration, dict(spec.metadata)
            )
    return folder.collections[spec.name]
