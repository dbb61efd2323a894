"""The files of memory in Chroma: what is indexed, what is repaired, what a change of the model does."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab.memory import EmbeddingProvider, MemoryContext
from hermitcrab.testing import HashedEmbeddings
from hermitcrab_memory_chroma.backend import MemoryChroma
from hermitcrab_memory_chroma.connection import CollectionSpec
from hermitcrab_memory_chroma.failures import DimensionsError

Make = Callable[..., MemoryChroma]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Backends over one workspace and one folder, which are closed in the end."""
    made: list[MemoryChroma] = []
    (tmp_path / "workspace" / "memory").mkdir(parents=True)

    def make(embeddings: EmbeddingProvider | None = None, transcripts: Any = None) -> MemoryChroma:
        backend = MemoryChroma(
            MemoryContext(
                agent_id="main",
                workspace=tmp_path / "workspace",
                home=tmp_path,
                index_path=tmp_path / "index",
                logger=logging.getLogger("test"),
                embeddings=embeddings,
                transcripts=transcripts,
            )
        )
        made.append(backend)
        return backend

    yield make
    for backend in made:
        await backend.close()


def note(folder: Path, name: str, text: str) -> None:
    """Write a note that looks as if that had been a while ago."""
    path = folder / "workspace" / name
    path.write_text(text, encoding="utf-8")
    when = time.time() - 60
    os.utime(path, (when, when))


class Remote(HashedEmbeddings):
    remote = True


class Failing(HashedEmbeddings):
    """Makes so many vectors, then fails."""

    def __init__(self, good: int, **more: Any) -> None:
        super().__init__(**more)
        self.good = good

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        if self.texts + len(texts) > self.good:
            raise EmbeddingError("the service went away", kind="transient", where="failing")
        return await super().embed_documents(texts)


async def test_words_find_files_without_any_embedding_provider(make: Make, tmp_path: Path) -> None:
    """Chroma has no rows without vectors: ours have a placeholder that no search looks at."""
    note(tmp_path, "MEMORY.md", "- The walnut key hangs in the shed.\n- 数据库迁移定在周五晚上。\n")
    backend = make()
    for query in ("Where is the WALNUT key?", "keys", "数据库", "周五"):
        result = await backend.search(query)
        assert result.hits, query
        assert (result.mode, result.degraded) == ("keyword", False)
    assert (await backend.search("elephant")).hits == ()


async def test_status_says_that_transcripts_are_not_searched(make: Make) -> None:
    assert (await make().status()).notes == ()
    wanted = await make(transcripts=object()).status()
    assert any("transcripts" in text for text in wanted.notes)


async def test_passages_that_chroma_lost_are_indexed_again_at_the_next_start(
    make: Make, tmp_path: Path
) -> None:
    """C91: the count is checked on open."""
    note(tmp_path, "MEMORY.md", "- The walnut key hangs in the shed.\n\n- The quince is ripe.\n")
    backend = make(HashedEmbeddings())
    await backend.sync("test")
    index = (await backend._opened())[0]
    await backend._connection.call(
        index.passages, "delete", ids=[(await _ids(backend, index.passages))[0]]
    )
    again = make(HashedEmbeddings())
    assert (await again.search("walnut")).hits
    assert any("indexed again" in text for text in (await again.status()).notes)


async def test_a_sync_that_was_cut_short_before_its_record_is_done_again(
    make: Make, tmp_path: Path
) -> None:
    note(tmp_path, "MEMORY.md", "- The walnut key hangs in the shed.\n")
    note(tmp_path, "memory/gone.md", "- The quince is ripe.\n")
    backend = make()
    await backend.sync("test")
    index = (await backend._opened())[0]
    await backend._connection.call(index.records, "delete", ids=await _ids(backend, index.records))
    (tmp_path / "workspace" / "memory" / "gone.md").unlink()
    again = make()
    assert (await again.search("walnut")).hits
    assert (await again.search("quince")).hits == ()
    status = await again.status()
    assert (status.files, status.dirty) == (1, False)


async def test_a_changed_model_on_this_machine_gets_its_vectors_by_itself(
    make: Make, tmp_path: Path
) -> None:
    """C83: 8 dimensions, then 16, were mixed without a word."""
    note(tmp_path, "MEMORY.md", "- The walnut key hangs in the shed.\n")
    first = make(HashedEmbeddings(dims=8))
    await first.sync("test")
    second = make(HashedEmbeddings(dims=16))
    result = await second.search("walnut key")
    assert (result.mode, result.degraded) == ("hybrid", False)
    names = await second._connection.names()
    assert sum("vectors" in name for name in names) == 1


async def test_a_changed_model_that_costs_money_waits_to_be_asked(
    make: Make, tmp_path: Path
) -> None:
    """C83: vectors are paused, words answer, the result says why, and a forced index goes on."""
    note(tmp_path, "MEMORY.md", "- The walnut key hangs in the shed.\n")
    await make(HashedEmbeddings()).sync("test")
    remote = Remote(model="other")
    backend = make(remote)
    result = await backend.search("walnut key")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert "memory index --force" in str(result.reason)
    assert result.hits
    assert remote.texts == 0
    assert (await backend.status()).details["vector"]["pending"] == 1
    report = await backend.sync("cli", force=True)
    assert (report.embedded, report.problem) == (1, None)
    assert (await backend.search("walnut key")).mode == "hybrid"


async def test_a_provider_that_fails_in_the_middle_is_reported_and_goes_on_later(
    make: Make, tmp_path: Path
) -> None:
    """C84: 9 of 9,169 vectors were kept, and that was called a success."""
    for number in range(3):
        lines = "".join(f"- walnut number {number}-{line}\n\n" for line in range(60))
        note(tmp_path, f"memory/{number}.md", lines)
    failing = Failing(130)
    backend = make(failing)
    report = await backend.sync("test")
    assert "went away" in str(report.problem)
    vector = (await backend.status()).details["vector"]
    assert 0 < vector["vectors"] < 180
    assert vector["vectors"] + vector["pending"] == 180
    result = await backend.search("walnut")
    assert result.degraded
    assert result.hits
    asked = failing.texts
    failing.good = 10_000
    report = await backend.sync("test")
    assert report.problem is None
    assert (await backend.status()).details["vector"]["pending"] == 0
    assert failing.texts - asked <= vector["pending"]


async def test_unchanged_passages_of_a_changed_file_keep_their_vectors(
    make: Make, tmp_path: Path
) -> None:
    lines = [f"- walnut number {number} {'x' * 350}\n\n" for number in range(20)]
    note(tmp_path, "MEMORY.md", "".join(lines))
    embeddings = HashedEmbeddings()
    backend = make(embeddings)
    await backend.sync("test")
    asked = embeddings.texts
    note(tmp_path, "MEMORY.md", f"- something new {'y' * 350}\n\n" + "".join(lines[:-1]))
    await backend.sync("test")
    assert embeddings.texts - asked == 1
    vector = (await backend.status()).details["vector"]
    assert (vector["vectors"], vector["pending"]) == (20, 0)


async def test_hostile_notes_are_only_text(make: Make, tmp_path: Path) -> None:
    texts = (
        '- {"$ne": null} walnut',
        "- '; DROP TABLE embeddings; -- walnut",
        "- walnut \x00 nul",
        "- walnut 👩‍💻 العربية \u202e",
        "- " + "walnut " * 5_000,
    )
    for number, text in enumerate(texts):
        note(tmp_path, f"memory/$and-{number} %_'\".md", text)
    backend = make(HashedEmbeddings())
    await backend.sync("test")
    hits = (await backend.search("walnut", max_results=300)).hits
    assert len({hit.path for hit in hits}) == len(texts)
    for query in ('{"$contains": ""}', "$and", "%", "\x00", "\ud83d", "a" * 5_000):
        await backend.search(query)


async def test_memories_of_the_wrong_dimensions_are_refused_and_nothing_is_written(
    make: Make,
) -> None:
    """C83."""
    await make(HashedEmbeddings(dims=8)).store("The plumber comes on Tuesday")
    other = make(HashedEmbeddings(dims=16))
    with pytest.raises(DimensionsError, match="ltm migrate"):
        await other.store("The quince is ripe")
    with pytest.raises(DimensionsError, match="ltm migrate"):
        await other.long_term.nearest("plumber")
    result = await other.long_term.recall("plumber")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert "ltm migrate" in str(result.reason)
    assert [memory.text for memory in result.memories] == ["The plumber comes on Tuesday"]
    assert await other.long_term.count() == 1


async def test_a_migration_that_fails_leaves_everything_as_it_was_and_goes_on_where_it_was(
    make: Make,
) -> None:
    old = make(HashedEmbeddings(dims=8))
    added = {await old.store(f"walnut number {number}") for number in range(100)}
    failing = Failing(80, dims=16)
    moving = make(failing)
    with pytest.raises(EmbeddingError):
        await moving.long_term.migrate()
    assert len(await old.long_term.nearest("walnut number 7", limit=100)) == 100
    await old.store("walnut number 100")
    gone = added.pop()
    await old.forget(gone)
    asked = failing.texts
    failing.good = 10_000
    report = await moving.long_term.migrate()
    assert (report.changed, report.memories) == (True, 100)
    assert failing.texts - asked < 100
    memories = await moving.long_term.listed(limit=200)
    assert {memory.id for memory in memories} >= added
    assert gone not in {memory.id for memory in memories}
    assert len(memories) == 100
    assert (await moving.long_term.nearest("walnut number 100", limit=1))[0].score == pytest.approx(
        1.0, abs=1e-3
    )
    # The host with the old model sees the new table, and is told what happened.
    assert await old.long_term.count() == 100
    with pytest.raises(DimensionsError):
        await old.store("x y z")


async def test_nothing_is_written_while_memories_are_moved(make: Make) -> None:
    """What is added to the old table after it was copied would be lost."""
    old = make(HashedEmbeddings(dims=8))
    first = await old.store("walnut")
    refused: list[str] = []

    class Meanwhile(HashedEmbeddings):
        async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
            if texts != ["ping"]:
                for work in (lambda: old.store("quince"), lambda: old.forget(first)):
                    with pytest.raises(MemoryBackendError, match="embedded again") as error:
                        await work()
                    refused.append(str(error.value))
            return await super().embed_documents(texts)

    moving = make(Meanwhile(dims=16))
    await moving.long_term.migrate()
    assert len(refused) == 2
    assert [memory.id for memory in await moving.long_term.listed(limit=9)] == [first]


async def test_memories_need_an_embedding_provider_and_say_so(make: Make) -> None:
    await make(HashedEmbeddings()).store("The plumber comes on Tuesday")
    backend = make()
    with pytest.raises(MemoryBackendError, match="embedding provider"):
        await backend.store("x")
    found = await backend.long_term.recall("plumber")
    assert [memory.text for memory in found.memories] == ["The plumber comes on Tuesday"]


async def _ids(backend: MemoryChroma, spec: CollectionSpec) -> list[str]:
    answer = await backend._connection.call(spec, "get", include=[])
    return list(answer["ids"])
