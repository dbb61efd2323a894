"""The embedding provider ``local``: two encoders side by side, each text for the one that knows its writing."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hermitcrab.memory import EmbeddingProvider, importing
from hermitcrab_embeddings_local.encoders import Encoder, SentenceEncoder, StaticVectors, shared
from hermitcrab_embeddings_local.models import ENCODER_DIMS, Model, model_named
from hermitcrab_embeddings_local.weights import SENTENCE_ENCODER, WORDLLAMA

if TYPE_CHECKING:
    from hermitcrab_embeddings_local.encoders import Matrix

#: What stands behind this character of a text is not embedded: 2,048 tokens at four characters (memory 3.4).
MAX_CHARACTERS = 8_192
#: Texts that go to a worker thread at once: cancelling takes effect between two such batches.
BATCH_TEXTS = 64
#: Changes whenever the same weights give other vectors: preparation of texts, pooling, projection, weighing.
VECTORS_VERSION = 1


class LocalEmbeddings(EmbeddingProvider):
    """Vectors of ``dims`` numbers and length 1; of a blank text, zeros.

    Queries and documents are embedded alike, but for the words of a query that is weighed: the static vectors heed it.

    :param model: ``by-script`` (the default), ``static`` or ``multilingual``.
    :param dims: how many numbers a vector must have; ``None`` is what the model gives.
    :raises EmbeddingError: there is no such model, or a package with its weights is not installed.
    """

    id = "local"
    remote = False

    def __init__(self, *, model: str | None = None, dims: int | None = None) -> None:
        self._model = model_named(model, dims)
        self.model = self._model.name
        self.dims = self._model.dims
        self.weighs_words = self._model.static
        self._encoders: tuple[StaticVectors, Encoder] | None = None
        for package in _packages(self._model):
            package.locate()

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = texts[start : start + BATCH_TEXTS]
            vectors += await asyncio.to_thread(self._embed, batch)
        return vectors

    async def embed_query(self, text: str) -> list[float]:
        return (await self.embed_documents([text]))[0]

    async def embed_weighed_query(self, text: str, weights: Mapping[str, float]) -> list[float]:
        return (await asyncio.to_thread(self._embed, [text], weights))[0]

    def fingerprint(self) -> str:
        """Model, weights with their versions, and the version of what is done with them."""
        weights = (
            f"{package.distribution}-{package.version()}" for package in _packages(self._model)
        )
        return ":".join((self.id, self.model, *weights, f"vectors-{VECTORS_VERSION}"))

    async def close(self) -> None:
        """Let go of the weights; a later text takes them up again."""
        self._encoders = None

    def _embed(
        self, texts: Sequence[str], weights: Mapping[str, float] | None = None
    ) -> list[list[float]]:
        with importing():
            import numpy as np

        prepared = [prepare(text) for text in texts]
        shares = np.array([self._model.share(text) for text in prepared], dtype=np.float32)
        static, multilingual = self._held_encoders()
        parts = []
        if self._model.static:
            encode = partial(static.encode, weights=weights) if weights else static.encode
            parts.append(_weighed(encode, prepared, 1 - shares))
        if self._model.multilingual:
            parts.append(_weighed(multilingual.encode, prepared, shares))
        vectors: list[list[float]] = np.hstack(parts).tolist()
        return vectors

    def _held_encoders(self) -> tuple[StaticVectors, Encoder]:
        """The encoders, which read their weights when a text is for them."""
        held = self._encoders
        if held is None:
            held = self._encoders = (shared(StaticVectors), shared(SentenceEncoder))
        return held


def prepare(text: str) -> str:
    """A text as the encoders take it: no longer than they need, encodable, and in one Unicode form."""
    encodable = text[:MAX_CHARACTERS].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return unicodedata.normalize("NFKC", encodable)[:MAX_CHARACTERS].strip()


def _weighed(
    encode: Callable[[Sequence[str]], Matrix], texts: Sequence[str], shares: Any
) -> Matrix:
    """One row for each text, whose squared length is its share; texts without a share are not encoded."""
    import numpy as np

    rows = np.zeros((len(texts), ENCODER_DIMS), dtype=np.float32)
    meant = [row for row, text in enumerate(texts) if text and shares[row] > 0]
    if meant:
        encoded = encode([texts[row] for row in meant])
        rows[meant] = encoded * np.sqrt(shares[meant])[:, np.newaxis]
    return rows


def _packages(model: Model) -> tuple[Any, ...]:
    chosen = ((model.static, WORDLLAMA), (model.multilingual, SENTENCE_ENCODER))
    return tuple(package for is_used, package in chosen if is_used)
