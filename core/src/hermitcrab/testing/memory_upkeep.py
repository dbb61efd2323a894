"""How a memory backend keeps up with files, other tasks, restarts and failures, as tests (memory 2.2, 3, 11)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermitcrab.memory.contract import MemoryBackend, MemoryStatus, SyncReport
from hermitcrab.testing.memory_homes import NOTES, MemoryHome, MemoryHomeTests, paths_of


class UpkeepTests(MemoryHomeTests):
    """Syncing, status, closing, and what happens when something is away."""

    @pytest.mark.asyncio
    async def test_what_was_written_after_a_sync_is_found(
        self, memory_home: MemoryHome, backend: MemoryBackend
    ) -> None:
        memory_home.write("memory/2026-03-02.md", "- The walnut tree is planted.\n")
        await backend.sync("contract")
        assert await paths_of(backend, "walnut") == ["memory/2026-03-02.md"]

    @pytest.mark.asyncio
    async def test_what_a_link_leads_to_is_not_indexed(
        self, memory_home: MemoryHome, backend: MemoryBackend
    ) -> None:
        outside = memory_home.folder / "outside.md"
        outside.write_text("- the walnut is secret\n", encoding="utf-8")
        (memory_home.workspace() / "memory" / "linked.md").symlink_to(outside)
        await backend.sync("contract")
        assert await paths_of(backend, "walnut secret") == []

    @pytest.mark.asyncio
    async def test_a_sync_reports_what_it_did(self, memory_home: MemoryHome) -> None:
        backend = await memory_home.open()
        first = await backend.sync("contract")
        assert isinstance(first, SyncReport)
        await _skip_without_index(backend, first)
        assert (first.reason, first.removed, first.unchanged) == ("contract", 0, 0)
        assert first.indexed == len(NOTES)
        assert first.chunks > 0
        assert first.problem is None
        again = await backend.sync("contract")
        assert (again.indexed, again.removed, again.unchanged) == (0, 0, len(NOTES))
        memory_home.write("MEMORY.md", "- Coffee, not tea.\n")
        memory_home.remove("memory/2026-03-01.md")
        changed = await backend.sync("contract")
        assert (changed.indexed, changed.removed) == (1, 1)
        assert changed.unchanged == len(NOTES) - 2
        assert await paths_of(backend, "printer cellar") == []
        assert await paths_of(backend, "staging database") == []
        forced = await backend.sync("contract", force=True)
        assert forced.indexed == len(NOTES) - 1

    @pytest.mark.asyncio
    async def test_a_sync_embeds_only_what_is_new(
        self, memory_home: MemoryHome, backend: MemoryBackend
    ) -> None:
        memory_home.skip_without_vectors()
        before = memory_home.embeddings.texts
        await backend.sync("contract")
        assert memory_home.embeddings.texts == before

    @pytest.mark.asyncio
    async def test_a_file_that_is_no_text_stops_nothing(
        self, memory_home: MemoryHome, backend: MemoryBackend
    ) -> None:
        folder = memory_home.workspace() / "memory"
        (folder / "bytes.md").write_bytes(b"\xff\xfe\x00 walnut")
        (folder / "empty.md").write_bytes(b"")
        (folder / "marked.md").write_bytes("\ufeff- the medlar is ripe\r\n".encode())
        odd = 'memory/it\'s "so" - 100%.md'
        memory_home.write(odd, "- the quince is ripe\n")
        await backend.sync("contract")
        assert await paths_of(backend, "quince") == [odd]
        assert await paths_of(backend, "medlar") == ["memory/marked.md"]
        memory_home.remove(odd)
        await backend.sync("contract")
        assert await paths_of(backend, "quince") == []
        assert "MEMORY.md" in await paths_of(backend, "staging database")

    @pytest.mark.asyncio
    async def test_the_index_outlives_the_backend(self, memory_home: MemoryHome) -> None:
        """Pitfall 11: nothing was indexed after every restart."""
        first = await memory_home.open()
        await first.sync("contract")
        await first.close()
        embedded = memory_home.embeddings.texts
        second = await memory_home.open()
        status = await second.status()
        assert (status.files, status.dirty) == (len(NOTES), False)
        assert (await second.sync("contract")).indexed == 0
        assert memory_home.embeddings.texts == embedded
        assert "MEMORY.md" in await paths_of(second, "staging database")

    @pytest.mark.asyncio
    async def test_searches_and_syncs_at_once(
        self, memory_home: MemoryHome, backend: MemoryBackend
    ) -> None:
        other = await memory_home.open()
        for number in range(5):
            memory_home.write(f"memory/many-{number}.md", f"- walnut number {number}\n")
        work: list[Any] = [one.sync("contract") for one in (backend, other, backend)]
        work += [one.search("staging database") for one in (backend, other) for _ in range(4)]
        done = await asyncio.gather(*work)
        for result in done[3:]:
            assert any(hit.path == "MEMORY.md" for hit in result.hits)
        for each in (backend, other):
            assert len(await paths_of(each, "walnut")) == 5

    @pytest.mark.parametrize("verb", ["search", "sync"])
    @pytest.mark.asyncio
    async def test_cancelling_goes_through_and_leaves_it_usable(
        self, memory_home: MemoryHome, backend: MemoryBackend, verb: str
    ) -> None:
        memory_home.write("memory/new.md", "- the walnut tree\n")
        call = backend.search("walnut") if verb == "search" else backend.sync("contract")
        task: asyncio.Future[Any] = asyncio.ensure_future(call)
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=30)
        assert task.done(), "a cancelled call ends"
        assert task.cancelled() or task.exception() is None, "CancelledError has to go through"
        await backend.sync("contract")
        assert await paths_of(backend, "walnut") == ["memory/new.md"]

    @pytest.mark.asyncio
    async def test_status_is_cheap_and_true(self, memory_home: MemoryHome) -> None:
        backend = await memory_home.open()
        before = await backend.status()
        assert isinstance(before, MemoryStatus)
        assert before.backend.strip()
        assert memory_home.embeddings.texts == 0, "a status asks no provider"
        await _skip_without_index(backend, await backend.sync("contract"))
        assert (before.files, before.dirty) == (0, True)
        has_vectors = memory_home.embeddings.texts > 0
        after = await backend.status()
        assert (after.files, after.dirty) == (len(NOTES), False)
        assert after.mode in (("hybrid", "vector") if has_vectors else ("keyword",))
        assert after.chunks >= after.files
        assert after.keyword_search
        assert after.last_error is None
        memory_home.write("MEMORY.md", "- Coffee, not tea.\n")
        assert (await backend.status()).dirty

    @pytest.mark.asyncio
    async def test_it_can_be_probed(self, backend: MemoryBackend) -> None:
        assert (await backend.probe()).ok

    @pytest.mark.asyncio
    async def test_a_provider_that_fails_leaves_keyword_results_that_say_so(
        self, memory_home: MemoryHome
    ) -> None:
        """Pitfalls 3 and 24: an outage was total, or silent."""
        memory_home.embeddings.problem = "the service of vectors is away"
        backend = await memory_home.open()
        report = await backend.sync("contract")
        memory_home.skip_without_vectors()
        assert "away" in str(report.problem)
        result = await backend.search("staging database")
        assert any("5433" in hit.snippet for hit in result.hits)
        assert (result.mode, result.degraded) == ("keyword", True)
        assert "away" in str(result.reason)
        await backend.close()
        memory_home.embeddings.problem = None
        healed = await memory_home.open()
        await healed.sync("contract")
        assert (await healed.search("staging database")).mode in ("hybrid", "vector")

    @pytest.mark.asyncio
    async def test_a_provider_that_fails_later_leaves_keyword_results_that_say_so(
        self, memory_home: MemoryHome, backend: MemoryBackend
    ) -> None:
        memory_home.skip_without_vectors()
        memory_home.embeddings.problem = "the service of vectors is away"
        result = await backend.search("staging database")
        assert any("5433" in hit.snippet for hit in result.hits)
        assert (result.mode, result.degraded) == ("keyword", True)
        assert "away" in str(result.reason)

    @pytest.mark.asyncio
    async def test_it_may_be_closed_twice_and_unused(self, memory_home: MemoryHome) -> None:
        unused = await memory_home.open()
        await unused.close()
        await unused.close()
        used = await memory_home.open()
        await used.sync("contract")
        await used.close()
        await used.close()


async def _skip_without_index(backend: MemoryBackend, first: SyncReport) -> None:
    """Skip the test if a first sync had nothing to do, and the files are found all the same."""
    if first.indexed == 0 and (await backend.search("staging database")).hits:
        pytest.skip("this backend reads the files at each search (an index is optional)")
