"""The Markdown files in LanceDB: what is found, what a sync costs, and what happens when vectors fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from hermitcrab.errors import EmbeddingError
from hermitcrab.testing.hashed_embeddings import HashedEmbeddings
from hermitcrab_memory_lancedb import filling
from hermitcrab_memory_lancedb.config import LanceDbConfig

_NOTES = """# Ops

- The deploy key is 4f2a9c1b7e6d5a4f3c2b1a0f9e8d7c6b5a4f3e2d1c0b9a8f7e6d5c4b3a2f1e0d.
- The café closes at six.
- She was running the migrations.
- 我家的猫叫小白。
- 東京に引っ越した。
- 서울에서 만나요.
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("4f2a9c1b7e6d5a4f3c2b1a0f9e8d7c6b5a4f3e2d1c0b9a8f7e6d5c4b3a2f1e0d", "deploy key"),
        ("cafe", "café"),
        ("migration", "migrations"),
        ("猫", "小白"),
        ("小白", "小白"),
        ("東京", "東京"),
        ("만나", "만나요"),
        ('it\'s a "猫" AND (NOT *)', "小白"),
    ],
)
async def test_words_of_every_script_and_length_are_found(
    shelf: Any, query: str, expected: str
) -> None:
    """Pitfalls 5 and 6; LanceDB itself leaves out long words and cuts CJK text at dictionary words."""
    shelf.write("MEMORY.md", _NOTES)
    result = await shelf.open(without_embeddings=True).search(query)
    assert (result.mode, result.degraded) == ("keyword", False)
    assert expected in result.hits[0].snippet


def test_importing_the_plugin_does_not_import_lancedb() -> None:
    script = (
        "import sys, hermitcrab_memory_lancedb as plugin; plugin.config_class()\n"
        "import hermitcrab_memory_lancedb.backend, hermitcrab_memory_lancedb.memories\n"
        "print(sorted({'lancedb', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


async def test_status_makes_nothing_and_asks_nobody(shelf: Any) -> None:
    shelf.write("MEMORY.md", _NOTES)
    status = await shelf.open().status()
    assert (status.files, status.dirty, status.last_error) == (0, True, None)
    assert not (shelf.home / "memory").exists()
    assert shelf.embeddings.texts == 0


async def test_a_renamed_file_keeps_its_vectors(shelf: Any) -> None:
    file = shelf.write("memory/2026-03-01.md", "- walnuts\n- quinces\n")
    backend = shelf.open()
    assert (await backend.sync("test")).embedded > 0
    file.rename(file.with_name("2026-03-02.md"))
    report = await backend.sync("test")
    assert (report.indexed, report.removed, report.embedded) == (1, 1, 0)
    result = await backend.search("walnuts")
    assert result.mode == "hybrid"
    assert result.hits[0].path == "memory/2026-03-02.md"


async def test_a_changed_line_costs_that_line(shelf: Any) -> None:
    lines = [f"- subject{number} is about matter{number}\n\n" for number in range(50)]
    shelf.write("MEMORY.md", "".join(lines))
    backend = shelf.open()
    await backend.sync("test")
    lines[20] = "- subject20 changed\n\n"
    shelf.write("MEMORY.md", "".join(lines))
    report = await backend.sync("test")
    assert 1 <= report.embedded <= 3


async def test_a_file_without_text_is_known_and_not_read_again(shelf: Any) -> None:
    shelf.write("memory/empty.md", "\n\n")
    backend = shelf.open()
    assert (await backend.sync("test")).indexed == 1
    report = await backend.sync("test")
    assert (report.indexed, report.unchanged) == (0, 1)
    status = await backend.status()
    assert (status.files, status.chunks, status.dirty) == (1, 0, False)


class FailingAfter(HashedEmbeddings):
    """Fails once it has embedded so many texts."""

    def __init__(self, texts: int) -> None:
        super().__init__()
        self.left = texts

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        if len(texts) > self.left:
            raise EmbeddingError("the service is away", kind="transient")
        self.left -= len(texts)
        return await super().embed_documents(texts)


async def test_what_was_embedded_before_a_failure_stays_and_the_next_sync_goes_on(
    shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C84: 9 of 9,169 vectors were there, and the sync reported success."""
    monkeypatch.setattr(filling, "_BATCH", 4)
    shelf.write("MEMORY.md", "".join(f"- item{number} is here\n\n" for number in range(10)))
    embeddings = FailingAfter(9)
    backend = shelf.open(embeddings=embeddings)
    report = await backend.sync("test")
    assert report.embedded == 8
    assert report.problem is not None
    assert "8 of 10 passages" in report.problem
    result = await backend.search("item3")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert "item3" in result.hits[0].snippet
    embeddings.left = 100
    again = await shelf.open(embeddings=embeddings).sync("test")
    assert (again.embedded, again.problem) == (2, None)


async def test_an_answer_of_another_length_is_never_stored(shelf: Any) -> None:
    """Pitfall 35: dimensions that were configured and not sent."""
    embeddings = HashedEmbeddings(dims=16)
    shelf.write("MEMORY.md", _NOTES)
    backend = shelf.open(embeddings=embeddings)
    await backend.sync("test")
    embeddings.dims = 32
    lying = shelf.open(embeddings=_Lying(embeddings))
    shelf.write("memory/more.md", "- walnuts\n")
    report = await lying.sync("test")
    assert "32 numbers instead of 16" in str(report.problem)
    result = await lying.search("walnuts")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert "walnuts" in result.hits[0].snippet


class _Lying(HashedEmbeddings):
    """Says 16 numbers and answers as another provider does."""

    def __init__(self, other: HashedEmbeddings) -> None:
        super().__init__(dims=16)
        self.other = other

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return await self.other.embed_documents(texts)


async def test_a_local_model_that_changed_makes_its_vectors_anew_and_drops_the_old_ones(
    shelf: Any,
) -> None:
    """C83: mixed vectors were searched in silence."""
    shelf.write("MEMORY.md", _NOTES)
    await shelf.open().sync("test")
    backend = shelf.open(embeddings=HashedEmbeddings(dims=32, model="other"))
    report = await backend.sync("test")
    assert report.embedded == report.chunks
    assert (await backend.search("猫")).mode == "hybrid"
    columns = await backend._table.vector_columns()
    assert [column.rpartition("_")[2] for column in columns] == ["32"]


async def test_a_remote_model_that_changed_costs_nothing_until_it_is_asked_for(shelf: Any) -> None:
    """Pitfalls 12 and 16: paid calls in silence."""
    shelf.write("MEMORY.md", _NOTES)
    await shelf.open().sync("test")
    remote = HashedEmbeddings(dims=32, model="remote")
    remote.remote = True
    backend = shelf.open(embeddings=remote)
    report = await backend.sync("test")
    assert (report.embedded, remote.texts) == (0, 0)
    assert "--force" in str(report.problem)
    result = await backend.search("migration")
    assert (result.mode, result.degraded) == ("keyword", True)
    assert "tokens" in str(result.reason)
    forced = await backend.sync("test", force=True)
    assert (forced.embedded, forced.problem) == (forced.chunks, None)
    assert (await backend.search("running migrations")).mode == "hybrid"


async def test_agents_with_different_models_share_a_folder(shelf: Any) -> None:
    shelf.write("MEMORY.md", "- the walnut tree\n")
    shelf.write("MEMORY.md", "- the quince tree\n", agent_id="work")
    first = shelf.open()
    second = shelf.open("work", embeddings=HashedEmbeddings(dims=16, model="small"))
    for _ in range(2):
        await first.sync("test", force=True)
        await second.sync("test", force=True)
    for backend, fruit in ((first, "walnut"), (second, "quince")):
        result = await backend.search("tree")
        assert result.mode == "hybrid"
        assert [fruit in hit.snippet for hit in result.hits] == [True]


async def test_two_homes_with_one_folder_keep_their_files_apart(tmp_path: Any, shelf: Any) -> None:
    """The same agent of two homes: a sync of one must not remove what the other has indexed."""
    other = type(shelf)(tmp_path / "other")
    config = LanceDbConfig(db_path=str(tmp_path / "shared"))
    try:
        shelf.write("MEMORY.md", "- the walnut tree\n")
        other.write("MEMORY.md", "- the quince tree\n")
        backends = [shelf.open(config=config), other.open(config=config)]
        for backend in (*backends, *backends):
            await backend.sync("test", force=True)
        found = [(await backend.search("tree")).hits for backend in backends]
        assert ["walnut" in found[0][0].snippet, "quince" in found[1][0].snippet] == [True, True]
        assert [len(hits) for hits in found] == [1, 1]
    finally:
        await other.close()


async def test_many_passages_are_all_found_after_a_restart(shelf: Any) -> None:
    """C91: entries were lost beyond a thousand of them and a restart."""
    for part in range(4):
        lines = [f"- entry{part * 300 + number} of the ledger\n\n" for number in range(300)]
        shelf.write(f"memory/part{part}.md", "".join(lines))
    assert (await shelf.open().sync("test")).chunks == 1200
    await shelf.close()
    backend = shelf.open()
    status = await backend.status()
    assert (status.chunks, status.dirty, status.mode) == (1200, False, "hybrid")
    for number in (0, 299, 300, 731, 1199):
        hits = (await backend.search(f"entry{number}", max_results=1)).hits
        assert f"entry{number} " in hits[0].snippet


async def test_a_folder_that_cannot_be_made_is_an_error_with_its_place(shelf: Any) -> None:
    shelf.write("MEMORY.md", _NOTES)
    blocked = shelf.home / "file"
    blocked.write_text("not a folder")
    backend = shelf.open(config=LanceDbConfig(db_path=str(blocked / "db")))
    probe = await backend.probe()
    assert not probe.ok
    assert str(blocked) in str(probe.error)
    assert (await backend.status()).backend == "memory-lancedb"


async def test_an_index_that_is_deleted_under_a_running_host_is_made_again(shelf: Any) -> None:
    shelf.write("MEMORY.md", "- the walnut tree\n")
    backend = shelf.open()
    memory = await backend.long_term.add("the quince tree")
    await backend.sync("test")
    shutil.rmtree(shelf.home / "memory" / "lancedb" / "passages.lance")
    assert (await backend.status()).files == 0
    assert "walnut" in (await backend.search("walnut")).hits[0].snippet
    assert (await backend.status()).files == 1
    assert await backend.long_term.get(memory.id) == memory
