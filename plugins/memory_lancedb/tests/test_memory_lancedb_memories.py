"""Single memories in LanceDB: agents apart in every verb, models never mixed, and old tables mended."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermitcrab.errors import EmbeddingError, MemoryBackendError
from hermitcrab.memory.longterm import LongTermStore, MemoryFilter, MemoryOrder
from hermitcrab.memory.longterm.filtering import Operator
from hermitcrab.testing.hashed_embeddings import HashedEmbeddings
from hermitcrab_memory_lancedb import migrating
from hermitcrab_memory_lancedb.config import LanceDbConfig
from hermitcrab_memory_lancedb.memory_rows import filter_predicate

_ID = "0b9f6a52-6f0e-4f6c-9d59-7b7a3c1c2d10"


def _store(shelf: Any, agent_id: str = "main", **how: Any) -> LongTermStore:
    store = shelf.open(agent_id, **how).long_term
    assert isinstance(store, LongTermStore)
    return store


async def test_no_verb_reaches_another_agent(shelf: Any) -> None:
    """C80 and #85240: search, id, replacing, deleting, listing, counting."""
    mine, theirs = _store(shelf), _store(shelf, "it's' OR '1'='1")
    memory = await mine.add("the walnut safe opens with 7431", scope="home")
    await theirs.add("something else")
    assert await theirs.get(memory.id) is None
    assert await theirs.delete(memory.id) is False
    replaced = await theirs.add("their own", memory_id=memory.id)
    assert (await mine.get(memory.id)) == memory
    assert (await theirs.get(memory.id)) == replaced
    everything = [
        *await theirs.nearest("walnut safe 7431", limit=50),
        *(await theirs.recall("walnut safe 7431", limit=50)).memories,
        *await theirs.listed(limit=50),
        *await theirs.listed(limit=50, where=MemoryFilter.parse("text LIKE '%walnut%'")),
    ]
    assert not [each for each in everything if "walnut" in each.text]
    assert await theirs.count() == 2
    assert await mine.count() == 1
    assert (await theirs.stats()).count == 2


async def test_the_agent_is_filtered_before_ranking(shelf: Any) -> None:
    """A hundred nearer memories of another agent do not push out the only one."""
    mine, theirs = _store(shelf), _store(shelf, "work")
    memory = await mine.add("a walnut tree")
    for number in range(100):
        await theirs.add(f"walnut {number}", created_at_ms=number)
    assert [each.id for each in await mine.nearest("walnut", limit=1)] == [memory.id]
    assert [each.id for each in (await mine.recall("walnut", limit=1)).memories] == [memory.id]


@pytest.mark.parametrize(
    "hostile", ["' OR true --", "x' UNION SELECT *", "\\", "\\'", "%", "_", "\x00", "it''s"]
)
async def test_hostile_texts_are_only_texts(shelf: Any, hostile: str) -> None:
    store = _store(shelf)
    plain = await store.add("plain")
    memory = await store.add(hostile)
    assert (await store.get(memory.id)) == memory
    assert await store.get(hostile) is None
    assert await store.delete(hostile) is False
    found = await store.listed(limit=9, where=MemoryFilter("text", "=", hostile))
    assert [each.id for each in found] == [memory.id]
    with pytest.raises(MemoryBackendError):
        await store.add("no", memory_id=hostile)
    with pytest.raises(MemoryBackendError):
        await store.add("no", scope=hostile + "'")
    assert {each.id for each in await store.listed(limit=9)} == {plain.id, memory.id}


_TEXTS = st.text(alphabet="ab%_\\'\"\n ", max_size=6)


@given(pattern=_TEXTS, texts=st.lists(_TEXTS, min_size=1, max_size=4, unique=True))
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_a_filter_lets_through_what_its_definition_does(
    shelf: Any, pattern: str, texts: list[str]
) -> None:
    store = _store(shelf, f"agent-{uuid.uuid4()}", without_embeddings=True)
    memories = [await store.add(text) for text in texts]
    for operator in get_args(Operator):
        where = MemoryFilter("text", operator, pattern)
        found = await store.listed(limit=9, where=where)
        expected = [memory for memory in memories if where.matches(memory)]
        assert {each.id for each in found} == {each.id for each in expected}


def test_numbers_are_compared_as_numbers() -> None:
    assert filter_predicate(MemoryFilter.parse("importance >= 0.5")) == "importance >= 0.5"
    assert filter_predicate(MemoryFilter.parse("createdAt < 7")) == "createdAt < 7"


async def test_ties_of_an_order_go_by_id(shelf: Any) -> None:
    store = _store(shelf)
    for _ in range(4):
        await store.add("the same", created_at_ms=5)
    found = await store.listed(limit=9, order_by=MemoryOrder("createdAt", True))
    ids = [memory.id for memory in found]
    assert ids == sorted(ids)
    backwards = await store.listed(limit=9, order_by=MemoryOrder("id", True))
    assert [memory.id for memory in backwards] == ids[::-1]


async def test_stop_words_do_not_let_every_memory_through(shelf: Any) -> None:
    """Pitfall 44: recall that filters nothing puts anything into every prompt."""
    store = _store(shelf)
    await store.add("the staging database is on port 5433")
    assert (await store.recall("what is it and why?", min_score=0.35)).memories == ()
    found = (await store.recall("what is the port?", min_score=0.99)).memories
    assert [memory.text for memory in found] == ["the staging database is on port 5433"]


async def test_a_score_is_the_cosine(shelf: Any) -> None:
    store = _store(shelf)
    await store.add("walnut quince")
    (memory,) = await store.nearest("walnut quince")
    assert memory.score == pytest.approx(1, abs=1e-5)
    vectors = await shelf.embeddings.embed_documents(["walnut", "walnut quince"])
    cosine = sum(a * b for a, b in zip(*vectors, strict=True))
    (memory,) = (await store.recall("walnut")).memories
    assert memory.score == pytest.approx(cosine, abs=1e-5)


@pytest.mark.parametrize("query", ["猫", "小白", "我家的猫", "東", "서울"])
async def test_memories_in_cjk_are_found_by_one_character_and_more(shelf: Any, query: str) -> None:
    store = _store(shelf, without_embeddings=True)
    await store.add("I like tea")
    await store.add("我家的猫叫小白。東京, 서울에서")
    result = await store.recall(query)
    assert len(result.memories) == 1
    assert (result.mode, result.degraded) == ("keyword", False)


async def test_without_embeddings_memories_are_kept_and_get_their_vectors_later(
    shelf: Any,
) -> None:
    without = _store(shelf, without_embeddings=True)
    memory = await without.add("the walnut tree")
    assert [each.id for each in (await without.recall("walnut")).memories] == [memory.id]
    with pytest.raises(MemoryBackendError, match="provider"):
        await without.nearest("walnut")
    store = _store(shelf)
    await store.add("the quince tree")
    result = await store.recall("walnut")
    assert [each.id for each in result.memories] == [memory.id]
    assert "ltm migrate" in str(result.reason)
    assert "1 memories have no vector" in (await store.stats()).notes[0]
    assert (await store.migrate()).changed
    assert (await store.stats()).notes == ()
    assert [each.id for each in await store.nearest("walnut tree", limit=1)] == [memory.id]
    assert not (await store.recall("walnut")).degraded


async def test_an_embedding_of_another_length_is_never_stored(shelf: Any) -> None:
    """Pitfall 35."""
    embeddings = HashedEmbeddings(dims=16)
    store = _store(shelf, embeddings=embeddings)
    await store.add("the walnut tree")
    await shelf.close()
    embeddings.dims = 0
    lying = _Lying(dims=16)
    store = _store(shelf, embeddings=lying)
    with pytest.raises(EmbeddingError, match="12 numbers instead of 16"):
        await store.add("the quince tree")
    result = await store.recall("walnut")
    assert (result.mode, result.degraded, len(result.memories)) == ("keyword", True, 1)
    assert await store.count() == 1


class _Lying(HashedEmbeddings):
    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [vector[:12] for vector in await super().embed_documents(texts)]


async def test_a_provider_that_fails_keeps_nothing_and_says_so(shelf: Any) -> None:
    store = _store(shelf)
    await store.add("the walnut tree")
    shelf.embeddings.problem = "the service is away"
    with pytest.raises(EmbeddingError, match="away"):
        await store.add("the quince tree")
    assert await store.count() == 1


async def test_the_model_is_refused_by_name_and_the_command_mends_it(shelf: Any) -> None:
    store = _store(shelf)
    await store.add("the walnut tree")
    other = _store(shelf, embeddings=HashedEmbeddings(dims=64, model="other"))
    with pytest.raises(MemoryBackendError, match=r"hashed/words.*hashed/other.*ltm migrate"):
        await other.nearest("walnut")
    degraded = await other.recall("walnut")
    assert (degraded.mode, len(degraded.memories)) == ("keyword", 1)
    assert "ltm migrate" in str(degraded.reason)
    report = await other.migrate()
    assert report.after == "hashed/other with 64 numbers"
    assert (await other.recall("walnut")).mode == "hybrid"
    # The store with the old model sees at once that it must not write.
    with pytest.raises(MemoryBackendError, match="ltm migrate"):
        await store.add("the quince tree")


class _FailsAfter(HashedEmbeddings):
    def __init__(self, texts: int) -> None:
        super().__init__(dims=64, model="other")
        self.left = texts

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        if len(texts) > self.left:
            raise EmbeddingError("the service is away", kind="transient")
        self.left -= len(texts)
        return await super().embed_documents(texts)


async def test_a_migration_that_fails_changes_nothing_and_goes_on_from_there(
    shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C84: all agents' memories are there before, after a failure, and after the end."""
    monkeypatch.setattr(migrating, "_BATCH", 4)
    for agent_id in ("main", "work"):
        store = _store(shelf, agent_id)
        for number in range(5):
            await store.add(f"{agent_id} memory{number}", memory_id=_ID[:-1] + str(number))
    embeddings = _FailsAfter(9)
    migration = _store(shelf, embeddings=embeddings)
    with pytest.raises(EmbeddingError):
        await migration.migrate()
    assert await _store(shelf).count() == 5
    assert (await _store(shelf).recall("memory3")).mode == "hybrid"
    embeddings.left = 100
    done: list[tuple[int, int]] = []
    report = await _store(shelf, embeddings=embeddings).migrate(
        progress=lambda each, total, _: done.append((each, total))
    )
    assert (report.changed, report.memories) == (True, 10)
    assert done == [(10, 10)]
    for agent_id in ("main", "work"):
        store = _store(shelf, agent_id, embeddings=embeddings)
        assert await store.count() == 5
        (best,) = await store.nearest(f"{agent_id} memory3", limit=1)
        assert best.id.endswith("3")
    assert not (shelf.home / "memory" / "lancedb" / "memories_migrating.lance").exists()


async def test_what_is_deleted_or_changed_during_a_migration_stays_so(
    shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrating, "_BATCH", 2)
    store = _store(shelf)
    memories = [await store.add(f"memory{number} is old") for number in range(4)]
    embeddings = _FailsAfter(3)
    with pytest.raises(EmbeddingError):
        await _store(shelf, embeddings=embeddings).migrate()
    await store.delete(memories[0].id)
    await store.add("memory1 is new", memory_id=memories[1].id)
    embeddings.left = 100
    migrated = _store(shelf, embeddings=embeddings)
    await migrated.migrate()
    texts = {memory.text for memory in await migrated.listed(limit=9)}
    assert texts == {"memory1 is new", "memory2 is old", "memory3 is old"}
    assert [each.text for each in await migrated.nearest("memory1 is new", limit=1)] == [
        "memory1 is new"
    ]


async def test_what_is_written_right_before_the_swap_is_not_lost(
    shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _store(shelf)
    kept, changed, deleted = [await store.add(f"memory{number} is old") for number in range(3)]
    swap = migrating.Migration._swap

    async def late(self: Any, *args: Any, **how: Any) -> None:
        await store.add("memory1 is new", memory_id=changed.id)
        await store.add("memory3 is late", scope="late")
        await store.delete(deleted.id)
        await swap(self, *args, **how)

    monkeypatch.setattr(migrating.Migration, "_swap", late)
    migrated = _store(shelf, embeddings=HashedEmbeddings(dims=64, model="other"))
    await migrated.migrate()
    found = {memory.text: memory for memory in await migrated.listed(limit=9)}
    assert set(found) == {"memory0 is old", "memory1 is new", "memory3 is late"}
    assert found["memory0 is old"] == kept
    assert [each.text for each in await migrated.nearest("memory3 is late", limit=1)] == [
        "memory3 is late"
    ]
    assert not (await migrated.recall("memory1")).degraded


async def test_a_migration_to_one_model_gives_way_to_one_to_another(
    shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrating, "_BATCH", 2)
    store = _store(shelf)
    for number in range(4):
        await store.add(f"memory{number}")
    with pytest.raises(EmbeddingError):
        await _store(shelf, embeddings=_FailsAfter(3)).migrate()
    third = _store(shelf, embeddings=HashedEmbeddings(dims=128, model="third"))
    assert (await third.migrate()).after == "hashed/third with 128 numbers"
    assert len(await third.nearest("memory2")) == 4


async def _old_table(folder: Path) -> None:
    """What a program without agents keeps: its own columns, and vectors of nobody knows what."""
    import lancedb

    connection = await lancedb.connect_async(str(folder))
    rows = [
        {
            "id": _ID,
            "text": "the walnut tree",
            "vector": [1.0, 0.0, 0.0],
            "importance": 0.9,
            "category": "fact",
            "createdAt": 1_700_000_000_000,
        },
        {
            "id": "7",
            "text": "the quince tree",
            "vector": [0.0, 2.0, 0.0],
            "importance": 7.0,
            "category": "strange",
            "createdAt": 5,
        },
    ]
    table = await connection.create_table("memories", rows)
    table.close()  # type: ignore[no-untyped-call]
    connection.close()  # type: ignore[no-untyped-call]


async def test_a_table_without_agents_is_refused_until_the_command_mends_it(shelf: Any) -> None:
    folder = shelf.home / "memory" / "lancedb"
    folder.mkdir(parents=True)
    await _old_table(folder)
    store = _store(shelf)
    for verb in (
        store.add("new"),
        store.nearest("walnut"),
        store.recall("walnut"),
        store.get(_ID),
        store.delete(_ID),
        store.listed(limit=5),
        store.count(),
    ):
        with pytest.raises(MemoryBackendError, match=r"lacks agentId.*ltm migrate"):
            await verb
    assert "ltm migrate" in (await store.stats()).notes[0]
    assert (await store.migrate()).memories == 2
    memory = await store.get(_ID)
    assert memory is not None
    assert (memory.text, memory.category, memory.importance) == ("the walnut tree", "fact", 0.9)
    assert [each.text for each in await store.nearest("quince tree", limit=1)] == [
        "the quince tree"
    ]
    assert await _store(shelf, "work").count() == 0


async def test_memories_at_an_address_and_the_index_of_files_in_the_home(
    shelf: Any, tmp_path: Path
) -> None:
    bucket = tmp_path / "bucket"
    config = LanceDbConfig(db_path=f"file://{bucket}", storage_options={"timeout": "60s"})
    shelf.write("MEMORY.md", "- the quince tree\n")
    backend = shelf.open(config=config)
    memory = await backend.long_term.add("the walnut tree")
    await backend.sync("test")
    assert [path.name for path in bucket.glob("*.lance")] == ["memories.lance"]
    assert (shelf.home / "memory" / "lancedb" / "passages.lance").is_dir()
    other = _store(shelf, config=config)
    assert await other.get(memory.id) == memory
    assert (await other.stats()).location == f"file://{bucket}"
    assert (await backend.probe()).ok


async def test_closing_is_final_and_may_be_repeated(shelf: Any) -> None:
    backend = shelf.open()
    await backend.long_term.add("the walnut tree")
    await backend.close()
    await backend.close()
    with pytest.raises(MemoryBackendError, match="closed"):
        await backend.long_term.count()
