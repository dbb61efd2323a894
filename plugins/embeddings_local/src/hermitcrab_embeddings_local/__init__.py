"""Embeddings from weights that ship inside packages: the provider ``local``, which never uses a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermitcrab import hookimpl

if TYPE_CHECKING:
    from hermitcrab.memory import EmbeddingContext, EmbeddingProvider

__all__ = ["register_embedding_providers"]


@hookimpl
def register_embedding_providers(registry: Any) -> None:
    """Offer the provider ``local``."""
    registry.register("local", create)


def create(context: EmbeddingContext) -> EmbeddingProvider:
    """The provider for one agent; weights are looked for, and loaded when a text needs them.

    :raises EmbeddingError: there is no such model, or a package with its weights is not installed.
    """
    from hermitcrab_embeddings_local.provider import LocalEmbeddings

    return LocalEmbeddings(model=context.model, dims=context.output_dimensionality)
