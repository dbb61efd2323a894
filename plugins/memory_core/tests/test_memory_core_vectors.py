"""Vectors come and go without ever standing in the way of an answer, and nothing is embedded twice."""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from hermitcrab.config.schema import MemorySearchConfig
from hermitcrab.config.schema.memory_search import ChunkingConfig
from hermitcrab.errors import EmbeddingError
from hermitcrab.memory import EmbeddingProvider, MemoryContext
from hermitcrab.memory.files import MemoryFile, keywords
from hermitcrab_memory_core import backend as backend_module
from hermitcrab_memory_core.backend import MemoryCore
from hermitcrab_memory_core.embedder import Embedder, checked
from hermitcrab_memory_core.embedding_cache import EmbeddingCache, text_hash
from hermitcrab_memory_core.identity import Cost, Identity, Verdict, judge, may_embed
from hermitcrab_memory_core.index import Index
from hermitcrab_memory_core.narrowing import narrowed
from hermitcrab_memory_core.ranking import Matches

MEANINGS = {"car": "vehicle", "automobile": "vehicle", "dog": "animal", "puppy": "animal"}


class Meanings(EmbeddingProvider):
    """Words by their meaning, hashed into a few numbers; keeps what it was asked."""

    id = "fake"

    def __init__(self, *, model: str = "meanings", dims: int = 64, remote: bool = False) -> None:
        self.model = model
        self.dims = dims
        self.remote = remote
        self.documents: list[str] = []
        self.queries: list[str] = []
        self.failure: BaseException | None = None
        self.failing_after: int | None = None
        self.delay_s = 0.0
        self.answer: object = None

    async def embed_documents(self, texts):
        await self._behave()
        if self.failing_after is not None and len(self.documents) + len(texts) > self.failing_after:
            raise EmbeddingError("the server is down", kind="transient")
        self.documents += texts
        return self.answer or [self.vector(text) for text in texts]

    async def embed_query(self, text):
        await self._behave()
        self.queries.append(text)
        return self.answer or self.vector(text)

    def fingerprint(self):
        return f"{self.id}/{self.model}"

    def vector(self, text: str) -> list[float]:
        numbers = [0.0] * self.dims
        for word in text.lower().split():
            word = word.strip(".,?-")
            numbers[crc32(MEANINGS.get(word, word).encode()) % self.dims] += 1.0
        return numbers

    async def _behave(self) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if self.failure is not None:
            raise self.failure


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Notes:
    """A workspace with an index, and the backends opened on it."""

    def __init__(self, root: Path) -> None:
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        self.index_path = root / "home" / "memory.sqlite"
        self.clock = Clock()
        self.opened: list[MemoryCore] = []

    def write(self, path: str, text: str) -> None:
        target = self.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def open(
        self,
        provider: EmbeddingProvider | None,
        *,
        problem: str | None = None,
        config: MemorySearchConfig | None = None,
        query_timeout_s: float = 5.0,
    ) -> MemoryCore:
        embedder = None
        if provider is not None:
            embedder = Embedder(provider, clock=self.clock, query_timeout_s=query_timeout_s)
        backend = MemoryCore(
            MemoryContext(
                agent_id="main",
                workspace=self.workspace,
                home=self.index_path.parent,
                index_path=self.index_path,
                logger=logging.getLogger("test"),
                config=config,
                embeddings=provider,
                embeddings_problem=problem,
            ),
            embedder=embedder,
        )
        self.opened.append(backend)
        return backend

    def matrices(self) -> list[Path]:
        return sorted(self.index_path.parent.glob("*.f32"))


@pytest.fixture
async def notes(tmp_path: Path) -> AsyncIterator[Notes]:
    notes = Notes(tmp_path)
    yield notes
    for backend in notes.opened:
        await backend.close()


@pytest.fixture
def pets(notes: Notes) -> Notes:
    notes.write("MEMORY.md", "- The automobile is red\n- A puppy sleeps\n- Port 5433 is taken\n")
    return notes


async def test_what_means_the_same_is_found_without_a_word_in_common(pets):
    memory = pets.open(Meanings())
    result = await memory.search("car")
    assert result.hits[0].snippet.startswith("- The automobile")
    assert (result.mode, result.degraded, result.reason) == ("hybrid", False, None)


async def test_the_nearest_is_no_hit_if_it_has_nothing_in_common_with_the_question(pets):
    """Vectors always have a nearest neighbour: nonsense was answered with whatever there was."""
    result = await pets.open(Meanings()).search("xyzzy")
    assert (result.hits, result.mode, result.degraded) == ((), "hybrid", False)


async def test_without_a_provider_keywords_answer_and_nothing_is_degraded_unless_one_was_wanted(
    pets,
):
    result = await pets.open(None).search("port")
    assert (result.mode, result.degraded) == ("keyword", False)
    result = await pets.open(None, problem="there is no key").search("port")
    assert (result.mode, result.degraded, result.reason) == ("keyword", True, "there is no key")
    assert result.hits


async def test_a_sync_embeds_each_text_once(pets):
    provider = Meanings()
    memory = pets.open(provider)
    assert (await memory.sync("cli")).embedded == 3
    assert (await memory.sync("cli")).embedded == 0
    assert (await memory.sync("cli", force=True)).embedded == 0
    pets.write("memory/copy.md", "- A puppy sleeps\n- A cat wakes\n")
    report = await memory.sync("cli")
    assert (report.embedded, report.problem) == (1, None)
    assert sorted(provider.documents) == sorted(set(provider.documents))


async def test_a_changed_file_keeps_the_vectors_of_what_stayed(notes):
    boat, puppy, port = "The boat is blue", "A puppy sleeps", "Port 5433 is taken"
    notes.write("MEMORY.md", f"# One\n\n{puppy}\n\n# Two\n\n{port}\n")
    provider = Meanings()
    memory = notes.open(provider)
    await memory.sync("cli")
    rows = notes.matrices()[0].stat().st_size // (64 * 4)
    notes.write("MEMORY.md", f"# One\n\n{puppy}\n\n# Two\n\n{port}\n\n# Three\n\n{boat}\n")
    report = await memory.sync("cli")
    assert 0 < report.embedded < rows
    assert notes.matrices()[0].stat().st_size == (rows + report.embedded) * 64 * 4
    assert puppy in (await memory.search("dog")).hits[0].snippet


async def test_vectors_survive_the_loss_of_the_index_and_of_their_file(pets):
    """The cache is a file of its own: an index that is set aside costs no call (memory 3.8, #146908)."""
    await pets.open(Meanings()).sync("cli")
    await pets.opened[0].close()
    pets.index_path.write_bytes(b"no database" * 100)
    provider = Meanings()
    memory = pets.open(provider)
    assert (await memory.search("car")).mode == "hybrid"
    pets.matrices()[0].unlink()
    await memory.close()
    memory = pets.open(provider)
    await memory.search("car")
    result = await memory.search("car")
    assert (result.mode, result.hits[0].snippet[:16]) == ("hybrid", "- The automobile")
    assert provider.documents == []
    assert len(pets.matrices()) == 1


async def test_a_shortened_matrix_file_is_laid_out_anew(pets):
    memory = pets.open(Meanings())
    await memory.sync("cli")
    await memory.close()
    pets.matrices()[0].write_bytes(b"\0" * 8)
    provider = Meanings()
    memory = pets.open(provider)
    pets.write("memory/new.md", "- A boat\n")
    await memory.sync("cli")
    assert (await memory.search("car")).mode == "hybrid"
    assert provider.documents == ["- A boat"]


async def test_a_damaged_cache_is_replaced_and_the_index_is_kept(pets):
    await pets.open(Meanings()).sync("cli")
    await pets.opened[0].close()
    pets.index_path.with_name("memory.embeddings.sqlite").write_bytes(b"garbage" * 1000)
    memory = pets.open(Meanings())
    pets.write("memory/new.md", "- A boat\n")
    assert (await memory.sync("cli")).embedded == 1
    assert (await memory.status()).notes == ()
    assert (await memory.search("car")).mode == "hybrid"


async def test_another_local_model_takes_over_by_itself_and_coming_back_costs_nothing(pets):
    """C83, #83333: vectors of another model were searched in silence."""
    first, second = Meanings(), Meanings(model="other", dims=32)
    await pets.open(first).sync("cli")
    result = await pets.open(second).search("car")
    assert (result.mode, result.hits[0].snippet[:16]) == ("hybrid", "- The automobile")
    assert len(pets.matrices()) == 1
    await pets.open(first).sync("cli")
    assert len(first.documents) == 3


async def test_while_a_local_model_takes_over_keywords_answer_and_say_so(pets, monkeypatch):
    monkeypatch.setattr(backend_module, "_BUILD_PATIENCE_S", 0.01)
    await pets.open(Meanings()).sync("cli")
    slow = Meanings(model="slow")
    slow.delay_s = 0.5
    memory = pets.open(slow)
    result = await memory.search("port")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert "being made" in result.reason
    assert result.hits
    slow.delay_s = 0.0
    await memory.sync("cli")
    assert (await memory.search("port")).mode == "hybrid"


@pytest.mark.parametrize("change", ["model", "dims", "chunking"])
async def test_another_remote_model_waits_until_it_is_asked_for_and_tells_its_cost(pets, change):
    """#83333, #146908: a rebuild that costs money is never silent."""
    old = Meanings(remote=True)
    await pets.open(old).sync("cli")
    new = Meanings(
        model="other" if change == "model" else "meanings",
        dims=32 if change == "dims" else 64,
        remote=True,
    )
    chunking = ChunkingConfig(tokens=50 if change == "chunking" else 400)
    memory = pets.open(new, config=MemorySearchConfig(chunking=chunking))
    if change == "chunking":
        pets.write("memory/new.md", "- A boat\n")
    report = await memory.sync("cli")
    result = await memory.search("port")
    assert (new.documents, new.queries) == ([], [])
    assert (result.mode, result.degraded) == ("keyword", True)
    assert result.hits
    texts = 1 if change == "chunking" else 3
    for told in (report.problem, result.reason):
        assert f"{texts} text" in told
        assert "hermitcrab memory index --force" in told
    status = await memory.status()
    assert status.mode == "keyword"
    assert status.details["indexIdentity"]["status"] == "mismatched"
    assert status.details["vector"]["cost"]["texts"] == texts
    assert (await memory.sync("cli", force=True)).embedded == texts
    result = await memory.search("car")
    assert (result.mode, result.degraded) == ("hybrid", False)


async def test_a_remote_provider_makes_the_first_vectors_of_a_small_memory_unasked(pets):
    memory = pets.open(Meanings(remote=True))
    assert (await memory.search("car")).mode == "hybrid"


def test_the_first_vectors_of_a_large_memory_are_asked_for_where_they_cost_money():
    missing, large = Verdict("missing", "x"), Cost(100_000, 10_000_000)
    assert not may_embed(missing, remote=True, force=False, cost=large)
    assert may_embed(missing, remote=True, force=True, cost=large)
    assert may_embed(missing, remote=False, force=False, cost=large)
    assert may_embed(Verdict("valid"), remote=True, force=False, cost=large)


def test_an_identity_says_in_words_what_is_different():
    old = Identity(provider="a", model="m", fingerprint="1", dims=8, chunking="c")
    new = Identity(provider="a", model="m", fingerprint="1", dims=16, chunking="c")
    assert judge(None, new).state == "missing"
    assert judge(old, old) == Verdict("valid")
    assert "8 numbers, the provider gives 16" in judge(old, new).reason
    other = Identity(provider="b", model="n", fingerprint="2", dims=8, chunking="c")
    assert "vectors are of a/m, the provider is now b/n" in judge(old, other).reason
    unknown = Identity(provider="a", model="m", fingerprint="1", dims=0, chunking="c")
    assert judge(old, unknown).state == "valid"
    assert Identity.from_json(old.to_json()) == old


FAILURES = {
    "down": EmbeddingError("connection refused", kind="transient"),
    "429": EmbeddingError("too many requests", kind="transient", retry_after_s=30),
    "quota": EmbeddingError("the quota is used up", kind="quota"),
    "broken": ValueError("a plugin's own bug"),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
async def test_a_failed_provider_leaves_keyword_results_and_recovers_without_a_restart(
    pets, failure
):
    """C85, C87, C88, #36685: a provider that fails is said, and asked again later."""
    provider = Meanings()
    memory = pets.open(provider)
    await memory.sync("cli")
    provider.failure = failure
    result = await memory.search("port")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert str(failure) in result.reason
    assert result.hits[0].path == "MEMORY.md"
    provider.failure = None
    asked = len(provider.queries)
    assert (await memory.search("port")).degraded
    assert len(provider.queries) == asked
    pets.clock.now += 61
    result = await memory.search("car")
    assert (result.mode, result.degraded) == ("hybrid", False)


@pytest.mark.parametrize(
    "answer",
    [
        [[1.0] * 63],
        [[math.nan] * 64],
        [["x"] * 64],
        "garbage",
        {"error": 1},
        [[]],
        [[1.0], [1.0] * 2],
    ],
    ids=["dims", "nan", "words", "text", "object", "empty", "ragged"],
)
async def test_an_answer_that_is_no_vectors_never_reaches_the_index(pets, answer):
    """#32036, C83: dimensions are checked on every write and every query."""
    provider = Meanings()
    provider.answer = answer
    memory = pets.open(provider)
    report = await memory.sync("cli")
    assert "answer cannot be used" in report.problem
    result = await memory.search("port")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert result.hits
    provider.answer = None
    pets.clock.now += 61
    assert (await memory.search("car")).mode == "hybrid"


async def test_a_query_vector_of_another_length_is_refused(pets):
    provider = Meanings()
    memory = pets.open(provider)
    await memory.sync("cli")
    provider.answer = [1.0] * 8
    result = await memory.search("port")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert "8 numbers instead of 64" in result.reason


async def test_a_provider_that_hangs_costs_a_query_its_time_limit_only(pets):
    provider = Meanings()
    memory = pets.open(provider, query_timeout_s=0.05)
    await memory.sync("cli")
    provider.delay_s = 3600
    async with asyncio.timeout(10):
        result = await memory.search("port")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert "did not answer within" in result.reason
    assert result.hits


async def test_closing_does_not_wait_for_a_provider_that_hangs(pets):
    provider = Meanings()
    provider.delay_s = 3600
    memory = pets.open(provider)
    running = asyncio.create_task(memory.sync("cli"))
    await asyncio.sleep(0.2)
    async with asyncio.timeout(10):
        await memory.close()
    assert "closed" in (await running).problem


async def test_the_sync_after_a_turn_does_not_wait_for_the_vectors_of_a_large_memory(
    pets, monkeypatch
):
    monkeypatch.setattr(backend_module, "_BUILD_PATIENCE_S", 0.01)
    provider = Meanings()
    provider.delay_s = 3600
    async with asyncio.timeout(10):
        report = await pets.open(provider).sync("turn")
    assert (report.indexed, report.embedded) == (1, 0)


async def test_what_was_embedded_before_a_failure_is_kept_and_the_rest_is_counted(notes):
    """C84, #116955, #26772: nine of many vectors were kept, and it was called a success."""
    notes.write("MEMORY.md", "".join(f"- note {number}\n" for number in range(300)))
    provider = Meanings()
    provider.failing_after = 200
    memory = notes.open(provider)
    report = await memory.sync("cli")
    assert report.embedded == 128
    assert "the server is down" in report.problem
    status = await memory.status()
    assert (status.details["vector"]["vectors"], status.details["vector"]["pending"]) == (128, 172)
    result = await memory.search("note")
    assert (result.mode, result.degraded) == ("keyword", True)
    provider.failing_after = None
    notes.clock.now += 61
    assert (await memory.sync("cli")).embedded == 172
    assert len(provider.documents) == len(set(provider.documents)) == 300


async def test_a_provider_whose_quota_is_gone_is_not_asked_at_every_sync(pets):
    """#128945: exhausted quota was retried without end."""
    provider = Meanings()
    asked: list[int] = []

    async def refuse(texts):
        asked.append(len(texts))
        raise EmbeddingError("the quota is used up", kind="quota")

    provider.embed_documents = refuse
    memory = pets.open(provider)
    for _ in range(3):
        assert "quota" in (await memory.sync("turn")).problem
    assert len(asked) == 1
    await memory.sync("cli", force=True)
    pets.clock.now += 61
    await memory.sync("turn")
    assert len(asked) == 3


async def test_a_provider_without_a_fingerprint_leaves_keyword_results(pets):
    provider = Meanings()
    provider.fingerprint = lambda: 1 / 0
    memory = pets.open(provider)
    result = await memory.search("port")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert "fingerprint" in result.reason
    assert result.hits
    assert "fingerprint" in (await memory.sync("cli")).problem


async def test_a_cache_that_cannot_be_used_is_said_and_the_index_is_kept(pets):
    pets.index_path.parent.mkdir()
    path = pets.index_path.with_name("memory.embeddings.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    memory = pets.open(Meanings())
    result = await memory.search("port")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert "newer version" in result.reason
    assert result.hits
    assert (await memory.status()).keyword_search


async def test_a_fallback_that_takes_over_makes_vectors_of_its_own(pets):
    class Switching(Meanings):
        async def embed_documents(self, texts):
            if self.model == "meanings":
                self.model, self.dims = "fallback", 32
                raise EmbeddingError("the fallback takes its place", kind="switched")
            return await super().embed_documents(texts)

    memory = pets.open(Switching())
    report = await memory.sync("cli")
    assert (report.embedded, report.problem) == (3, None)
    assert (await memory.status()).details["model"] == "fallback"
    assert (await memory.search("car")).mode == "hybrid"


async def test_a_provider_that_does_not_know_its_length_learns_it_from_the_first_answer(pets):
    class Unknown(Meanings):
        def vector(self, text):
            self.dims = 64
            try:
                return super().vector(text)
            finally:
                self.dims = 0

    memory = pets.open(Unknown(dims=0))
    assert (await memory.search("car")).mode == "hybrid"
    assert (await memory.status()).details["vector"]["dims"] == 64


async def test_a_vector_of_zeros_is_no_reason_to_fail(pets):
    provider = Meanings()
    memory = pets.open(provider)
    await memory.sync("cli")
    provider.answer = [0.0] * 64
    result = await memory.search("port")
    assert result.hits[0].path == "MEMORY.md"
    assert not result.degraded


async def test_status_has_every_field_that_has_a_meaning(pets):
    memory = pets.open(Meanings())
    await memory.sync("cli")
    status = await memory.status()
    details = status.details
    assert status.mode == "hybrid"
    assert (details["provider"], details["model"]) == ("fake", "meanings")
    assert details["indexIdentity"] == {"status": "valid"}
    assert details["batch"] == {"enabled": False}
    assert details["cache"]["entries"] == 3
    assert details["sourceCounts"] == [{"source": "memory", "files": 1, "chunks": 1}]
    assert details["vector"] == {
        "enabled": True,
        "available": True,
        "dims": 64,
        "vectors": 3,
        "pending": 0,
        "bytes": 3 * 64 * 4,
    }


async def test_weights_of_zero_switch_a_side_off(pets):
    from hermitcrab.config.schema.memory_query import HybridConfig, QueryConfig

    provider = Meanings()
    config = MemorySearchConfig(query=QueryConfig(hybrid=HybridConfig(vector_weight=0.0)))
    result = await pets.open(provider, config=config).search("port")
    assert (result.mode, result.degraded, provider.queries) == ("keyword", False, [])
    config = MemorySearchConfig(query=QueryConfig(hybrid=HybridConfig(text_weight=0.0)))
    result = await pets.open(provider, config=config).search("port")
    assert (result.mode, result.degraded) == ("vector", False)


async def test_rows_of_passages_that_are_gone_make_way(notes, monkeypatch):
    monkeypatch.setattr("hermitcrab_memory_core.vector_store._MOST_DEAD_ROWS", 10)
    memory = notes.open(Meanings())
    for turn in range(4):
        notes.write("MEMORY.md", "".join(f"- note {turn} {number}\n" for number in range(20)))
        await memory.sync("cli")
    notes.write("memory/a.md", "- a puppy\n")
    await memory.sync("cli")
    (matrix,) = notes.matrices()
    assert matrix.stat().st_size <= 42 * 64 * 4
    assert (await memory.search("dog")).hits[0].path == "memory/a.md"


async def test_a_matrix_file_that_no_index_points_to_is_swept(pets):
    await pets.open(Meanings()).sync("cli")
    await pets.opened[0].close()
    stale = pets.index_path.with_name("memory.vectors-0123456789ab.f32")
    stale.write_bytes(b"x")
    await pets.open(Meanings()).sync("cli")
    assert not stale.exists()
    assert len(pets.matrices()) == 1


def test_the_cache_drops_the_oldest_that_nobody_needs(tmp_path):
    cache = EmbeddingCache(tmp_path / "cache.sqlite")
    vectors = {text_hash(str(number)): np.ones(4, dtype="<f4") for number in range(10)}
    cache.add("p", vectors)
    needed = list(vectors)[:3]
    assert cache.prune(needed, most=2) == 5
    assert set(needed) <= cache.find("p", list(vectors), 4).keys()
    assert cache.count() == 5
    assert cache.find("other", list(vectors), 4) == {}
    assert cache.find("p", needed, 8) == {}
    cache.close()


def test_a_cache_of_a_newer_version_is_left_alone(tmp_path):
    path = tmp_path / "cache.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(sqlite3.OperationalError, match="newer version"):
        EmbeddingCache(path)
    assert path.exists()


def test_vectors_are_brought_to_length_one():
    rows = checked([[3.0, 4.0], [0.0, 0.0]], 2, 2)
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0]]


def test_the_nearest_are_found_among_many_rows_of_the_dead(tmp_path):
    index = Index(tmp_path / "memory.sqlite", chunk_tokens=400, chunk_overlap=80)
    generator = np.random.default_rng(7)
    data = checked(generator.standard_normal((500, 8)), 500, 8)
    connection = index._connection
    with connection:
        connection.executemany(
            "INSERT INTO passages (path, start_line, end_line, text) VALUES ('a', 1, 1, ?)",
            ((str(number),) for number in range(500)),
        )
    from hermitcrab_memory_core.vector_store import NewVector

    name = index.vectors.begin(
        Identity(provider="a", model="m", fingerprint="1", dims=8, chunking="c")
    ).name
    vectors = [
        NewVector(number + 1, text_hash(str(number)), row.tobytes())
        for number, row in enumerate(data)
    ]
    assert index.vectors.append(name, 8, vectors)
    assert not index.vectors.append("0" * 12, 8, vectors)
    connection.execute("DELETE FROM vector_rows WHERE passage % 50")
    near = index.vectors.nearest(data[49], limit=5, also=[100])
    exact = sorted(range(50, 501, 50), key=lambda passage: -float(data[passage - 1] @ data[49]))
    assert set(near.cosines) == {*exact[:5], 100}
    assert near.cosines[50] == pytest.approx(1.0)
    index.close()


def test_of_very_many_matches_the_best_are_ranked_with_what_stands_beside_them():
    common = Matches(10_000, 5_000, dict.fromkeys(range(1, 5001), 1.0))
    rare = Matches(10_000, 2, {100: 5.0, 4_000: 6.0})
    first, second = narrowed([common, rare], limit=2)
    assert set(first.scores) == {99, 100, 101, 3_999, 4_000, 4_001}
    assert second.scores == rare.scores
    assert (first.rows, first.matching) == (10_000, 5_000)
    assert narrowed([rare], limit=2) == [rare]


def test_a_word_of_most_passages_is_weighed_only_where_rarer_words_stand(tmp_path, monkeypatch):
    monkeypatch.setattr("hermitcrab_memory_core.index._COMMON", 20)
    monkeypatch.setattr("hermitcrab_memory_core.index._ENOUGH", 2)
    index = Index(tmp_path / "memory.sqlite", chunk_tokens=400, chunk_overlap=80)
    lines = [f"- harbour number{number}{' anchor' * (number < 3)}\n" for number in range(30)]
    index.replace(MemoryFile("MEMORY.md", tmp_path, 1, 1), "".join(lines), "hash", 0)
    harbour, anchor = index.passage_matches(keywords("harbour anchor"))
    assert (harbour.matching, anchor.matching) == (30, 3)
    assert harbour.scores.keys() == anchor.scores.keys()
    (alone,) = index.passage_matches(keywords("harbour"))
    assert len(alone.scores) == 30
    index.close()
