"""The same vectors for every backend, made before anything is measured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermitcrab.hooks import hookimpl
from hermitcrab.memory import EmbeddingProvider
from hermitcrab.memory.files import passages_of
from hermitcrab.memory.ranking import embedding_texts

PROVIDER = "bench"
_BATCH = 2_000


class PreparedEmbeddings(EmbeddingProvider):
    """Looks vectors up in a folder; what is not there, such as a question, is asked of the local provider."""

    id = PROVIDER

    def __init__(self, folder: Path | None = None) -> None:
        from hermitcrab_embeddings_local.provider import LocalEmbeddings

        self._local = LocalEmbeddings()
        self.model = self._local.model
        self.dims = self._local.dims
        self._rows: dict[str, int] = {}
        self._matrix: Any = None
        if folder is not None:
            self._load(folder)

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text."""
        missing = [text for text in texts if text not in self._rows]
        made = iter(await self._local.embed_documents(missing) if missing else [])
        self.dims = self._local.dims or self.dims
        return [
            self._matrix[self._rows[text]].tolist() if text in self._rows else next(made)
            for text in texts
        ]

    async def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return await self._local.embed_query(text)

    def fingerprint(self) -> str:
        """That of the local provider."""
        return self._local.fingerprint()

    def _load(self, folder: Path) -> None:
        import numpy

        texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
        self._rows = {text: row for row, text in enumerate(texts)}
        self._matrix = numpy.load(folder / "vectors.npy", mmap_mode="r")
        self.dims = int(self._matrix.shape[1])


class PreparedPlugin:
    """Offers :class:`PreparedEmbeddings` to a host as the provider ``bench``."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @hookimpl
    def register_embedding_providers(self, registry: Any) -> None:
        registry.register(PROVIDER, lambda context: PreparedEmbeddings(self._folder))


def prepare(folder: Path, entries: list[str], workspace: Path) -> None:
    """Make the vectors of the entries, and of what backends embed of the notes with them."""
    import numpy

    texts = dict.fromkeys(entries)
    for file in sorted(workspace.rglob("*.md")):
        texts |= dict.fromkeys(embedding_texts(passages_of(file.read_text(encoding="utf-8"))))
    every = list(texts)
    vectors = asyncio.run(_embed(every))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.json").write_text(json.dumps(every), encoding="utf-8")
    numpy.save(folder / "vectors.npy", numpy.array(vectors, dtype=numpy.float32))


async def _embed(texts: list[str]) -> list[list[float]]:
    provider = PreparedEmbeddings()
    vectors: list[list[float]] = []
    for start in range(0, len(texts), _BATCH):
        vectors += await provider.embed_documents(texts[start : start + _BATCH])
    return vectors
