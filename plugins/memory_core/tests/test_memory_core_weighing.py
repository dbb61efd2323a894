"""The words of a question weigh by how rare they are in what is searched."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hermitcrab.memory import EmbeddingProvider, MemoryContext
from hermitcrab.memory.files import MemoryFile, keywords
from hermitcrab_memory_core.backend import MemoryCore
from hermitcrab_memory_core.index import Index


class Weighing(EmbeddingProvider):
    """Keeps the weights that it was told; it has one number for all texts."""

    id, model, dims = "fake", "weighing", 1

    def __init__(self, *, weighs_words: bool = True) -> None:
        self.weighs_words = weighs_words
        self.told: list[dict[str, float]] = []
        self.plain = 0

    async def embed_documents(self, texts):
        return [[1.0] for _ in texts]

    async def embed_query(self, text):
        self.plain += 1
        return [1.0]

    async def embed_weighed_query(self, text, weights):
        self.told.append(dict(weights))
        return [1.0]

    def fingerprint(self):
        return "weighing"


@pytest.fixture
async def opened(tmp_path: Path):
    backends: list[MemoryCore] = []

    def open_with(provider: EmbeddingProvider) -> MemoryCore:
        lines = "\n".join(f"- Mara said something on day {number}" for number in range(40))
        folder = tmp_path / "workspace" / "memory"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "a.md").write_text(f"{lines}\n- Mara keeps a kiln\n", encoding="utf-8")
        context = MemoryContext(
            agent_id="main",
            workspace=tmp_path / "workspace",
            home=tmp_path / "home",
            index_path=tmp_path / "home" / "memory.sqlite",
            logger=logging.getLogger("test"),
            embeddings=provider,
        )
        backends.append(MemoryCore(context))
        return backends[-1]

    yield open_with
    for backend in backends:
        await backend.close()


async def test_a_name_in_every_note_weighs_less_than_a_word_in_one(opened):
    provider = Weighing()
    memory = opened(provider)
    await memory.sync("test")
    await memory.search("Does Mara have a kiln, or an oven?")
    [weights] = provider.told
    assert weights.keys() == {"mara", "kiln", "oven"}
    assert 0 <= weights["mara"] < 0.1 < weights["kiln"] < weights["oven"]
    assert provider.plain == 0


async def test_the_first_search_of_all_weighs_as_the_second_does(opened):
    """The notes are indexed before the words are weighed."""
    provider = Weighing()
    memory = opened(provider)
    first = await memory.search("kiln of Mara")
    again = await memory.search("kiln of Mara")
    assert provider.told[0] == provider.told[1]
    assert first.hits == again.hits


async def test_a_provider_that_weighs_nothing_is_asked_plainly(opened):
    provider = Weighing(weighs_words=False)
    memory = opened(provider)
    await memory.sync("test")
    await memory.search("kiln")
    assert (provider.told, provider.plain) == ([], 1)


def test_a_count_is_not_remembered_beyond_a_write(tmp_path: Path):
    def add(index: Index, path: str, text: str) -> None:
        file = MemoryFile(path=path, absolute=tmp_path / path, mtime_ns=0, size=len(text))
        index.replace(file, text, "hash", 0)

    index = Index(tmp_path / "a.sqlite", chunk_tokens=400, chunk_overlap=80)
    other = Index(tmp_path / "a.sqlite", chunk_tokens=400, chunk_overlap=80)
    try:
        add(index, "memory/a.md", "- one kiln\n- two ovens\n- three pots\n")
        rare = index.word_weights(keywords("kiln"))["kiln"]
        assert index.word_weights(keywords("kiln"))["kiln"] == rare
        add(other, "memory/b.md", "- a kiln\n\n- that kiln\n\n- my kiln\n")
        assert index.word_weights(keywords("kiln"))["kiln"] < rare
    finally:
        index.close()
        other.close()
