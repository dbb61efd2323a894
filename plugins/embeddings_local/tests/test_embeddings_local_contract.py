"""The local provider keeps the contract of embedding providers; its default model is made of both others."""

from __future__ import annotations

from hermitcrab.testing import EmbeddingProviderContract
from hermitcrab_embeddings_local.provider import LocalEmbeddings


class TestLocalEmbeddings(EmbeddingProviderContract):
    def make_provider(self) -> LocalEmbeddings:
        return LocalEmbeddings()
