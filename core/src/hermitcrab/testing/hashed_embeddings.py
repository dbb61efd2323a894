"""An embedding provider for tests: the same vectors everywhere, made from words, without weights or a network."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence

from hermitcrab.errors import EmbeddingError
from hermitcrab.memory.contract import EmbeddingProvider
from hermitcrab.memory.files import keywords


class HashedEmbeddings(EmbeddingProvider):
    """Texts that share words have vectors that are alike; each word has a direction of its own, nearly.

    ``texts`` counts what it was asked for, failures included. While ``problem`` is set, it fails with that message. A
    text without words has a vector of zeros. ``model`` tells two spaces apart that are not comparable.
    """

    id = "hashed"

    def __init__(self, *, dims: int = 256, model: str = "words") -> None:
        self.dims = dims
        self.model = model
        self.problem: str | None = None
        self.texts = 0

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text.

        :raises EmbeddingError: ``problem`` is set.
        """
        self.texts += len(texts)
        if self.problem is not None:
            raise EmbeddingError(self.problem, kind="transient", where=f"{self.id}/{self.model}")
        return [self._vector(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        """The vector of a query: that of a document with the same text."""
        (vector,) = await self.embed_documents([text])
        return vector

    def fingerprint(self) -> str:
        """The model and the size."""
        return f"{self.id}:{self.model}:{self.dims}"

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dims
        for place, sign in self._places(text):
            vector[place] += sign
        length = math.sqrt(sum(number * number for number in vector))
        return [number / length for number in vector] if length else vector

    def _places(self, text: str) -> Iterator[tuple[int, float]]:
        terms = keywords(text)
        for term in (*terms.words, *(terms.pairs or terms.characters)):
            for part in range(4):
                digest = zlib.crc32(f"{self.model}\x00{part}\x00{term}".encode(errors="replace"))
                yield digest % self.dims, 1.0 if digest & 0x8000_0000 else -1.0
