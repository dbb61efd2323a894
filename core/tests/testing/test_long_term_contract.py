"""The contract of single memories: the store for tests keeps it, and each breach is caught."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from hermitcrab.memory import (
    MemoryBackend,
    MemoryContext,
    MemoryStatus,
    ReadResult,
    SearchResult,
    SyncReport,
)
from hermitcrab.memory.longterm import Memory, RecallResult
from hermitcrab.testing import HashedEmbeddings, JsonLongTermStore, MemoryHome
from hermitcrab.testing.long_term_stores import LongTermTests


def store_of(context: MemoryContext, kind: type[JsonLongTermStore]) -> JsonLongTermStore:
    file = context.index_path.with_name("memories.json")
    return kind(file, context.embeddings or HashedEmbeddings())


class Memories(MemoryBackend):
    """Keeps single memories and knows no files."""

    def __init__(
        self, context: MemoryContext, kind: type[JsonLongTermStore] = JsonLongTermStore
    ) -> None:
        self.long_term = store_of(context, kind)

    async def search(self, query: str, **more: Any) -> SearchResult:
        return SearchResult()

    async def read(self, path: str, **more: Any) -> ReadResult:
        return ReadResult(path=path, status="not_found")

    async def sync(self, reason: str, **more: Any) -> SyncReport:
        return SyncReport(reason=reason)

    async def status(self) -> MemoryStatus:
        return MemoryStatus(backend="memories")


class TestJsonLongTermStore(LongTermTests):
    def make_backend(self, context: MemoryContext) -> MemoryBackend:
        return Memories(context)


contract = LongTermTests()
HomeOf = Callable[[type[JsonLongTermStore]], MemoryHome]


@pytest.fixture
async def home_of(tmp_path: Path) -> AsyncIterator[HomeOf]:
    """Makes a home whose backends have stores of a kind."""
    homes: list[MemoryHome] = []

    def make(kind: type[JsonLongTermStore]) -> MemoryHome:
        homes.append(MemoryHome(tmp_path / "home", lambda context: Memories(context, kind)))
        return homes[-1]

    yield make
    for home in homes:
        await home.close()


async def test_an_id_that_is_made_anew_is_caught(home_of):
    class Renaming(JsonLongTermStore):
        async def add(self, text: str, *, memory_id: str | None = None, **more: Any) -> Memory:
            return await super().add(text, **more)

    store = await contract.open_store(home_of(Renaming))
    with pytest.raises(AssertionError):
        await contract.test_adding_under_an_id_again_replaces_the_memory(store)


async def test_a_text_that_is_tidied_is_caught(home_of):
    class Tidy(JsonLongTermStore):
        async def add(self, text: str, **more: Any) -> Memory:
            return await super().add(" ".join(text.split()), **more)

    store = await contract.open_store(home_of(Tidy))
    with pytest.raises(AssertionError):
        await contract.test_any_text_is_kept_as_it_is(store, "two\nlines")


async def test_a_distance_instead_of_a_cosine_is_caught(home_of):
    class Distant(JsonLongTermStore):
        async def nearest(self, text: str, **more: Any) -> tuple[Memory, ...]:
            found = await super().nearest(text, **more)
            return tuple(memory.scored(2 - 2 * (memory.score or 0)) for memory in found)

    store = await contract.open_store(home_of(Distant))
    with pytest.raises(AssertionError):
        await contract.test_the_nearest_come_first_with_their_cosine(store)


async def test_a_threshold_that_cuts_exact_words_is_caught(home_of):
    class Strict(JsonLongTermStore):
        async def recall(self, query: str, *, min_score: float = 0, **more: Any) -> RecallResult:
            found = await super().recall(query, min_score=min_score, **more)
            kept = tuple(each for each in found.memories if (each.score or 0) >= min_score)
            return evolve(found, memories=kept)

    store = await contract.open_store(home_of(Strict))
    with pytest.raises(AssertionError):
        await contract.test_what_has_a_word_of_the_query_is_never_cut(store)


async def test_a_recall_that_hides_an_outage_is_caught(home_of):
    class Silent(JsonLongTermStore):
        async def recall(self, query: str, **more: Any) -> RecallResult:
            return evolve(await super().recall(query, **more), degraded=False, reason=None)

    home = home_of(Silent)
    store = await contract.open_store(home)
    with pytest.raises(AssertionError):
        await contract.test_a_failing_provider_leaves_recall_by_words_and_says_so(home, store)


async def test_one_table_for_all_agents_is_caught(home_of, tmp_path):
    class Shared(JsonLongTermStore):
        def __init__(self, file: Path, embeddings: HashedEmbeddings) -> None:
            super().__init__(tmp_path / "all.json", embeddings)

    with pytest.raises(AssertionError):
        await contract.test_an_agent_never_sees_the_memories_of_another(home_of(Shared))


async def test_a_handle_that_sees_an_old_state_is_caught(home_of):
    class Stale(JsonLongTermStore):
        _seen: dict[str, Any] | None = None

        def _read(self) -> dict[str, Any]:
            if self._seen is None:
                self._seen = super()._read()
            return self._seen

    home = home_of(Stale)
    backend = await home.open()
    store = await contract.open_store(home)
    with pytest.raises(AssertionError):
        await contract.test_what_was_added_outlives_the_backend_and_is_seen_by_others(
            home, backend, store
        )


async def test_vectors_of_two_models_in_one_table_are_caught(home_of):
    class Mixing(JsonLongTermStore):
        def _checked(self, document: dict[str, Any]) -> dict[str, Any]:
            return document

    home = home_of(Mixing)
    store = await contract.open_store(home)
    with pytest.raises(pytest.fail.Exception):
        await contract.test_vectors_of_another_model_are_never_mixed(
            home, store, {"model": "other words"}
        )


async def test_a_page_that_is_shown_twice_is_caught(home_of):
    class Circling(JsonLongTermStore):
        async def listed(self, *, limit: int, offset: int = 0, **more: Any) -> tuple[Memory, ...]:
            return await super().listed(limit=limit, **more)

    store = await contract.open_store(home_of(Circling))
    with pytest.raises(AssertionError):
        await contract.test_listing_pages_through_each_memory_once(store)
