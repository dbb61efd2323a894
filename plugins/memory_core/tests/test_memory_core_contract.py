"""memory-core keeps the contract of memory backends, and backends like it that break the contract are caught."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from hermitcrab.memory import Hit, MemoryBackend, MemoryContext, ReadResult, SearchResult
from hermitcrab.testing import (
    HashedEmbeddings,
    JsonLongTermStore,
    MemoryBackendContract,
    MemoryHome,
)
from hermitcrab.testing.memory_homes import NOTES
from hermitcrab_memory_core import create
from hermitcrab_memory_core.backend import MemoryCore


class TestMemoryCore(MemoryBackendContract):
    def make_backend(self, context: MemoryContext) -> MemoryBackend:
        return create(context)


class Keeping(MemoryCore):
    """memory-core with a store of single memories."""

    def __init__(self, context: MemoryContext) -> None:
        super().__init__(context)
        file = context.index_path.with_name("memories.json")
        self.long_term = JsonLongTermStore(file, context.embeddings or HashedEmbeddings())


class TestMemoryCoreWithSingleMemories(MemoryBackendContract):
    def make_backend(self, context: MemoryContext) -> MemoryBackend:
        return Keeping(context)


contract = MemoryBackendContract()
HomeOf = Callable[[Callable[[MemoryContext], MemoryBackend]], MemoryHome]


@pytest.fixture
async def home_of(tmp_path: Path) -> AsyncIterator[HomeOf]:
    """Makes a home with notes whose backends are made by a function."""
    homes: list[MemoryHome] = []

    def make(make_backend: Callable[[MemoryContext], MemoryBackend]) -> MemoryHome:
        home = MemoryHome(tmp_path / "home", make_backend)
        for path, text in NOTES.items():
            home.write(path, text)
        homes.append(home)
        return home

    yield make
    for home in homes:
        await home.close()


async def test_a_score_above_all_bounds_is_caught(home_of):
    class Proud(MemoryCore):
        async def search(self, query: str, **more: Any) -> SearchResult:
            found = await super().search(query, **more)
            return evolve(found, hits=tuple(evolve(hit, score=3.0) for hit in found.hits))

    home = home_of(Proud)
    with pytest.raises(AssertionError):
        await contract.test_the_best_hit_comes_first_and_scores_are_shares(await home.open())


async def test_a_snippet_from_elsewhere_is_caught(home_of):
    class Shifted(MemoryCore):
        async def search(self, query: str, **more: Any) -> SearchResult:
            found = await super().search(query, **more)
            hits = tuple(evolve(hit, start_line=1, end_line=1) for hit in found.hits)
            return evolve(found, hits=hits)

    home = home_of(Shifted)
    with pytest.raises(AssertionError):
        await contract.test_hits_say_where_they_stand(home, await home.open())


async def test_sources_that_are_ignored_are_caught(home_of):
    class Deaf(MemoryCore):
        async def search(self, query: str, *, sources: Any = None, **more: Any) -> SearchResult:
            return await super().search(query, **more)

    home = home_of(Deaf)
    with pytest.raises(AssertionError):
        await contract.test_sources_narrow_a_search(await home.open())


async def test_reading_what_is_not_of_memory_is_caught(home_of):
    class Open(MemoryCore):
        async def read(self, path: str, **more: Any) -> ReadResult:
            return ReadResult(path=path, text="secret")

    home = home_of(Open)
    with pytest.raises(pytest.fail.Exception):
        await contract.test_a_path_that_is_not_of_memory_is_refused(
            home, await home.open(), "../secret.md"
        )


async def test_a_silent_outage_is_caught(home_of):
    class Silent(MemoryCore):
        async def search(self, query: str, **more: Any) -> SearchResult:
            return evolve(await super().search(query, **more), degraded=False, reason=None)

    home = home_of(Silent)
    backend = await home.open()
    await backend.sync("contract")
    with pytest.raises(AssertionError):
        await contract.test_a_provider_that_fails_later_leaves_keyword_results_that_say_so(
            home, backend
        )


async def test_files_of_another_agent_are_caught(home_of):
    class Leaking(MemoryCore):
        async def search(self, query: str, **more: Any) -> SearchResult:
            hit = Hit(path="MEMORY.md", start_line=1, end_line=1, score=1, snippet="the quince")
            return evolve(await super().search(query, **more), hits=(hit,))

    home = home_of(Leaking)
    with pytest.raises(AssertionError):
        await contract.test_an_agent_never_sees_the_files_of_another(home)


async def test_an_exception_about_syntax_is_caught(home_of):
    class Picky(MemoryCore):
        async def search(self, query: str, **more: Any) -> SearchResult:
            if '"' in query:
                raise ValueError("syntax error")
            return await super().search(query, **more)

    home = home_of(Picky)
    with pytest.raises(ValueError, match="syntax error"):
        await contract.test_syntax_in_a_query_is_only_text(await home.open(), '"')


async def test_swallowing_the_cancelling_is_caught(home_of):
    class Stubborn(MemoryCore):
        async def search(self, query: str, **more: Any) -> SearchResult:
            try:
                return await super().search(query, **more)
            except asyncio.CancelledError as error:
                raise RuntimeError("cancelled") from error

    home = home_of(Stubborn)
    backend = await home.open()
    with pytest.raises(AssertionError):
        await contract.test_cancelling_goes_through_and_leaves_it_usable(home, backend, "search")


async def test_a_status_that_asks_a_provider_is_caught(home_of):
    class Curious(MemoryCore):
        def __init__(self, context: MemoryContext) -> None:
            super().__init__(context)
            self.provider = context.embeddings

        async def status(self) -> Any:
            if self.provider is not None:
                await self.provider.embed_query("ping")
            return await super().status()

    with pytest.raises(AssertionError):
        await contract.test_status_is_cheap_and_true(home_of(Curious))


async def test_an_index_that_is_lost_is_caught(home_of):
    class Forgetful(MemoryCore):
        async def close(self) -> None:
            await super().close()
            for file in self._worker.path.parent.glob("memory.sqlite*"):
                file.unlink()

    with pytest.raises(AssertionError):
        await contract.test_the_index_outlives_the_backend(home_of(Forgetful))


async def test_what_is_optional_is_skipped_with_the_reason(home_of):
    with pytest.raises(pytest.skip.Exception, match="long_term is optional"):
        await contract.open_store(home_of(create))


def test_a_contract_without_a_backend_says_what_to_write():
    with pytest.raises(NotImplementedError, match="def make_backend"):
        contract.make_backend(None)


async def test_texts_that_share_words_have_vectors_that_are_alike():
    embeddings = HashedEmbeddings()
    first, second, third = await embeddings.embed_documents(
        ["the staging port", "a port for staging", "walnut trees"]
    )

    def cosine(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert cosine(first, second) > 0.9 > 0.5 > cosine(first, third)
