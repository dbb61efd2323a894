"""A LanceDB folder or address: opened when it is first needed, once, and again after a failure."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import importing
from hermitcrab_memory_lancedb.locking import alone
from hermitcrab_memory_lancedb.lookups import ensure_index

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from lancedb import AsyncConnection, AsyncTable

    from hermitcrab_memory_lancedb.config import Location

_LONGEST_REASON = 300


class Database:
    """The tables of one place. Every read sees what other processes have written before it."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._connection: AsyncConnection | None = None
        self._tables: dict[str, AsyncTable] = {}
        self._opening = asyncio.Lock()
        self._closed = False

    async def existing(self, name: str) -> AsyncTable | None:
        """A table that is there already; nothing is made where there is none.

        :raises MemoryBackendError: the place cannot be reached.
        """
        folder = self.location.folder
        if folder is not None and not await asyncio.to_thread((folder / f"{name}.lance").is_dir):
            # Deleted by hand, or never made.
            self._tables.pop(name, None)
            return None
        if name in self._tables:
            return self._tables[name]
        async with self._opening:
            with self.reporting():
                connection = await self._connected()
                if name not in self._tables and name in await _names(connection):
                    self._tables[name] = await connection.open_table(name)
        return self._tables.get(name)

    async def table(self, name: str, schema: Callable[[], pa.Schema]) -> AsyncTable:
        """A table with its full-text index; made where there is none.

        :raises MemoryBackendError: the place cannot be reached or written.
        """
        table = await self.existing(name)
        return await self._made(name, schema) if table is None else table

    async def indexed(self, name: str, schema: Callable[[], pa.Schema]) -> AsyncTable:
        """The table, after a look whether its full-text index is there: another process may have died before that."""
        table = await self.table(name, schema)
        with self.reporting():
            await ensure_index(table)
        return table

    async def connection(self) -> AsyncConnection:
        """The open connection, for work on whole tables."""
        async with self._opening:
            with self.reporting():
                return await self._connected()

    def forget(self, name: str) -> None:
        """Open a table anew when it is needed next."""
        self._tables.pop(name, None)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Turn what LanceDB raises into a :class:`MemoryBackendError` that names the place."""
        try:
            yield
        except MemoryBackendError:
            raise
        except Exception as error:
            # LanceDB raises ValueError, OSError, RuntimeError and more for what goes wrong in its engine.
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise MemoryBackendError(
                f"LanceDB failed: {lines[0][:_LONGEST_REASON]}", where=str(self.location)
            ) from error

    async def close(self) -> None:
        """Close all tables; may be called more than once."""
        async with self._opening:
            self._closed = True
            for table in self._tables.values():
                table.close()  # type: ignore[no-untyped-call]
            self._tables.clear()
            if self._connection is not None:
                self._connection.close()  # type: ignore[no-untyped-call]
                self._connection = None

    async def _made(self, name: str, schema: Callable[[], pa.Schema]) -> AsyncTable:
        """Make a table unless another process has made it meanwhile.

        LanceDB lets the second of two processes that make one table replace it, rows included. In a folder a lock
        stands before that; nothing does at an address.
        """
        folder = self.location.folder
        async with alone(folder, "tables") if folder is not None else nullcontext():
            table = await self.existing(name)
            if table is not None:
                return table
            async with self._opening:
                with self.reporting():
                    connection = await self._connected()
                    table = await connection.create_table(name, schema=schema(), exist_ok=True)
                    await ensure_index(table)
                self._tables[name] = table
        return table

    async def _connected(self) -> AsyncConnection:
        if self._closed:
            raise MemoryBackendError("the memory backend is closed", where=str(self.location))
        if self._connection is None:
            lancedb = await asyncio.to_thread(_imported)
            folder = self.location.folder
            if folder is not None:
                await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
            self._connection = await lancedb.connect_async(
                self.location.uri,
                # Without this an open table shows what it held when it was opened.
                read_consistency_interval=timedelta(0),
                storage_options=dict(self.location.options) or None,
            )
        return self._connection


def _imported():  # type: ignore[no-untyped-def] # the module, which takes over a second to import
    # Its engine writes to the error output, such as that a write was tried again; failures come as exceptions.
    os.environ.setdefault("LANCEDB_LOG", "error")
    with importing():
        import lancedb

    return lancedb


async def _names(connection: AsyncConnection) -> set[str]:
    names: set[str] = set()
    page: str | None = None
    while True:
        answer = await connection.list_tables(page_token=page, limit=100)
        names.update(answer.tables)
        page = answer.page_token
        if not page:
            return names
