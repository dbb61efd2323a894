"""The contract of embedding providers as tests (memory 5)."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from hermitcrab.memory.contract import EmbeddingProvider

_TEXTS = (
    "The staging server listens on port 8443.",
    "Grandmother's apple cake needs cinnamon and patience.",
    "数据库迁移定在周五晚上。",
    "しりとりは語尾で始まる言葉を続ける遊びです。",
    "👩‍💻 pushed commit 4f2a-9c.1 to feature/login",
)
_CLOSE = 1e-3


class EmbeddingProviderContract:
    """Subclass as ``class TestMyProvider(EmbeddingProviderContract)`` and say how to make a provider.

    ``secrets`` are credentials that the made provider was given; none of them may stand in its fingerprint. A provider
    over a network is tested against a server of the test's own.
    """

    secrets: Sequence[str] = ()

    def make_provider(self) -> Any:
        """A new provider, or an awaitable of one; each call makes one that is configured alike."""
        raise NotImplementedError(
            "a contract test says how to make the provider: def make_provider(self)"
        )

    @pytest_asyncio.fixture
    async def provider(self) -> AsyncIterator[EmbeddingProvider]:
        """The provider under test; it is closed afterwards."""
        made = await _made(self)
        yield made
        await made.close()

    @pytest.mark.asyncio
    async def test_it_says_what_it_is(self, provider: EmbeddingProvider) -> None:
        assert isinstance(provider, EmbeddingProvider), "subclass hermitcrab.memory's class"
        assert provider.id == provider.id.strip() != "", "an id has no spaces around it"
        assert provider.model.strip(), "a model has a name"
        assert provider.dims >= 0, "0 says that the size is not known yet"
        assert isinstance(provider.remote, bool)

    @pytest.mark.asyncio
    async def test_each_text_has_one_vector_of_the_same_size(
        self, provider: EmbeddingProvider
    ) -> None:
        vectors = await provider.embed_documents(_TEXTS)
        assert [len(vector) for vector in vectors] == [provider.dims] * len(_TEXTS)
        assert provider.dims > 0, "after an answer the size is known"

    @pytest.mark.asyncio
    async def test_vectors_have_length_1(self, provider: EmbeddingProvider) -> None:
        for vector in [
            *await provider.embed_documents(_TEXTS),
            await provider.embed_query(_TEXTS[0]),
        ]:
            assert all(math.isfinite(number) for number in vector)
            assert math.isclose(_length(vector), 1, abs_tol=_CLOSE)

    @pytest.mark.asyncio
    async def test_no_texts_have_no_vectors(self, provider: EmbeddingProvider) -> None:
        assert await provider.embed_documents([]) == []

    @pytest.mark.asyncio
    async def test_many_texts_come_back_in_their_order(self, provider: EmbeddingProvider) -> None:
        many = [f"{_TEXTS[number % len(_TEXTS)]} {number}" for number in range(120)]
        vectors = await provider.embed_documents(many)
        alone = await provider.embed_documents([many[77]])
        assert len(vectors) == len(many)
        assert _cosine(vectors[77], alone[0]) > 1 - _CLOSE, "batches must not mix texts up"

    @pytest.mark.asyncio
    async def test_the_same_text_has_the_same_vector(self, provider: EmbeddingProvider) -> None:
        first, again = await provider.embed_documents([_TEXTS[0], _TEXTS[0]])
        assert _cosine(first, again) > 1 - _CLOSE

    @pytest.mark.asyncio
    async def test_a_query_finds_its_own_text(self, provider: EmbeddingProvider) -> None:
        vectors = await provider.embed_documents(_TEXTS)
        for number in (0, 1):
            query = await provider.embed_query(_TEXTS[number])
            nearest = max(range(len(vectors)), key=lambda each: _cosine(query, vectors[each]))
            assert nearest == number, "queries and documents share one space"

    @pytest.mark.asyncio
    async def test_a_weighed_query_is_a_query(self, provider: EmbeddingProvider) -> None:
        """Words without a weight, unknown words and weights of 0 are all there may be."""
        for weights in ({}, {"staging": 3.0, "server": 0.0}, {"elsewhere": 2.0}, {"staging": 0.0}):
            vector = await provider.embed_weighed_query(_TEXTS[0], weights)
            assert len(vector) == provider.dims
            assert math.isclose(_length(vector), 1, abs_tol=_CLOSE)

    @pytest.mark.parametrize("text", ["", " \n\t", "?", "\ud83d", "word " * 20_000, "字" * 20_000])
    @pytest.mark.asyncio
    async def test_any_text_has_a_vector(self, provider: EmbeddingProvider, text: str) -> None:
        """Zeros are fine for a text that says nothing; numbers that are none are not."""
        (vector,) = await provider.embed_documents([text])
        query = await provider.embed_query(text)
        assert len(vector) == len(query) == provider.dims
        assert all(math.isfinite(number) for number in (*vector, *query))

    @pytest.mark.asyncio
    async def test_the_fingerprint_is_stable_and_keeps_secrets(
        self, provider: EmbeddingProvider
    ) -> None:
        twin = await _made(self)
        try:
            before = provider.fingerprint()
            await provider.embed_query(_TEXTS[0])
            assert before, "a fingerprint is a text"
            assert provider.fingerprint() == before, "asking does not change it"
            assert twin.fingerprint() == before, "two that are configured alike share vectors"
            assert not [secret for secret in self.secrets if secret in before]
        finally:
            await twin.close()

    @pytest.mark.asyncio
    async def test_it_can_be_asked_from_several_tasks_at_once(
        self, provider: EmbeddingProvider
    ) -> None:
        alone = await provider.embed_documents(_TEXTS)
        together = await asyncio.gather(*(provider.embed_documents([text]) for text in _TEXTS))
        for vector, (other,) in zip(alone, together, strict=True):
            assert _cosine(vector, other) > 1 - _CLOSE

    @pytest.mark.asyncio
    async def test_cancelling_goes_through_and_leaves_it_usable(
        self, provider: EmbeddingProvider
    ) -> None:
        task: asyncio.Future[Any] = asyncio.ensure_future(provider.embed_documents(_TEXTS * 50))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=30)
        assert task.done(), "a cancelled call ends"
        assert task.cancelled() or task.exception() is None
        assert len(await provider.embed_query(_TEXTS[0])) == provider.dims

    @pytest.mark.asyncio
    async def test_it_can_be_probed(self, provider: EmbeddingProvider) -> None:
        assert (await provider.probe()).ok

    @pytest.mark.asyncio
    async def test_it_may_be_closed_twice_and_unused(self) -> None:
        unused = await _made(self)
        await unused.close()
        await unused.close()


async def _made(contract: EmbeddingProviderContract) -> EmbeddingProvider:
    made = contract.make_provider()
    provider: EmbeddingProvider = await made if inspect.isawaitable(made) else made
    return provider


def _length(vector: Sequence[float]) -> float:
    return math.sqrt(sum(number * number for number in vector))


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    size = _length(first) * _length(second)
    return sum(a * b for a, b in zip(first, second, strict=True)) / size if size else 0.0
