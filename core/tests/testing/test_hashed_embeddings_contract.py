"""The embedding provider for tests keeps the contract of its kind."""

from __future__ import annotations

import pytest

from hermitcrab.errors import EmbeddingError
from hermitcrab.testing import EmbeddingProviderContract, HashedEmbeddings


class TestHashedEmbeddings(EmbeddingProviderContract):
    def make_provider(self) -> HashedEmbeddings:
        return HashedEmbeddings()


async def test_it_fails_while_it_has_a_problem():
    provider = HashedEmbeddings()
    provider.problem = "away"
    with pytest.raises(EmbeddingError, match="away"):
        await provider.embed_query("walnut")
    assert not (await provider.probe()).ok
    provider.problem = None
    await provider.embed_documents(["walnut", "quince"])
    assert provider.texts == 4


async def test_another_model_has_other_vectors():
    first, second = HashedEmbeddings(), HashedEmbeddings(model="other words")
    assert first.fingerprint() != second.fingerprint()
    assert await first.embed_query("walnut") != await second.embed_query("walnut")
