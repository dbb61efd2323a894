"""The embedding cache beside an index: opened when first needed, replaced when it is damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hermitcrab.errors import EmbeddingError
from hermitcrab_memory_core.embedding_cache import EmbeddingCache, remove_cache
from hermitcrab_memory_core.schema import is_damaged

T = TypeVar("T")


class CacheBeside:
    """The cache of the index at ``index_path``. Used from one thread at a time."""

    def __init__(self, index_path: Path) -> None:
        self._path = index_path.with_name(f"{index_path.stem}.embeddings.sqlite")
        self._cache: EmbeddingCache | None = None

    def use(self, function: Callable[[EmbeddingCache], T]) -> T:
        """Call ``function`` with the cache; a damaged one is replaced by an empty one.

        :raises EmbeddingError: it cannot be opened or used.
        """
        import sqlite3

        try:
            try:
                return function(self._opened())
            except sqlite3.DatabaseError as error:
                if not is_damaged(error):
                    raise
                self.close()
                remove_cache(self._path)
                return function(self._opened())
        except sqlite3.Error as error:
            raise EmbeddingError(
                f"the embedding cache cannot be used ({error})", kind="transient", where=self._path
            ) from error

    def close(self) -> None:
        """Close it; the next use opens it again."""
        cache, self._cache = self._cache, None
        if cache is not None:
            cache.close()

    def _opened(self) -> EmbeddingCache:
        if self._cache is None:
            self._cache = EmbeddingCache(self._path)
        return self._cache
