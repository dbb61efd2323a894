"""Several hosts on one server: what they share, what they do not, and what a crash of the server leaves."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory import EmbeddingProvider, MemoryContext
from hermitcrab.testing import HashedEmbeddings
from hermitcrab_memory_chroma.backend import MemoryChroma
from hermitcrab_memory_chroma.failures import ChromaAwayError
from hermitcrab_memory_chroma.settings import ChromaConfig

NOTE = "# Notes\n\n- {name} keeps the walnut key in the shed.\n"


def host(
    home: Path,
    port: int,
    *,
    agent_id: str = "main",
    prefix: str,
    embeddings: EmbeddingProvider | None = None,
    **more: Any,
) -> MemoryChroma:
    """The backend of an agent on one machine, with a note of that machine."""
    workspace = home / "workspace"
    if not workspace.exists():
        workspace.mkdir(parents=True)
        (workspace / "MEMORY.md").write_text(NOTE.format(name=home.name), encoding="utf-8")
    config = ChromaConfig(
        mode="server", host="127.0.0.1", port=port, collection_prefix=prefix, **more
    )
    return MemoryChroma(
        MemoryContext(
            agent_id=agent_id,
            workspace=workspace,
            home=home,
            index_path=home / "index",
            logger=logging.getLogger("test"),
            plugin_config=config,
            embeddings=embeddings or HashedEmbeddings(dims=64),
        )
    )


@pytest.fixture
def prefix() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


async def test_hosts_share_single_memories_and_keep_their_files_to_themselves(
    chroma_server: Any, tmp_path: Path, prefix: str
) -> None:
    first = host(tmp_path / "attic", chroma_server.port, prefix=prefix)
    second = host(tmp_path / "cellar", chroma_server.port, prefix=prefix)
    memory_id = await first.store("The plumber comes on Tuesday")
    for each in (first, second):
        await each.sync("test")
        found = (await each.long_term.recall("plumber")).memories
        assert [memory.id for memory in found] == [memory_id]
    for each, own in ((first, "attic"), (second, "cellar")):
        hits = (await each.search("walnut key")).hits
        assert [hit.path for hit in hits] == ["MEMORY.md"]
        assert own in hits[0].snippet
    assert await second.forget(memory_id)
    assert await first.long_term.get(memory_id) is None
    await first.close()
    await second.close()


async def test_files_of_other_hosts_are_found_where_that_is_asked_for(
    chroma_server: Any, tmp_path: Path, prefix: str
) -> None:
    first = host(tmp_path / "attic", chroma_server.port, prefix=prefix)
    await first.sync("test")
    for agent_id, expected in (("main", {"attic", "cellar"}), ("other", {"cellar"})):
        second = host(
            tmp_path / "cellar",
            chroma_server.port,
            prefix=prefix,
            agent_id=agent_id,
            share_files=True,
        )
        await second.sync("test")
        hits = (await second.search("walnut key")).hits
        assert {name for hit in hits for name in expected if name in hit.snippet} == expected
        assert len(hits) == len(expected)
        foreign = [hit for hit in hits if "attic" in hit.snippet]
        # It is not this host's MEMORY.md, and must not be read as such.
        assert all(hit.path.startswith("@") for hit in foreign)
        await second.close()
    await first.close()


async def test_no_agent_reaches_the_memories_or_files_of_another_in_any_verb(
    chroma_server: Any, tmp_path: Path, prefix: str
) -> None:
    """C80: a leak through search, or by id."""
    owner = host(tmp_path / "home", chroma_server.port, prefix=prefix)
    await owner.sync("test")
    memory = await owner.long_term.add("The plumber comes on Tuesday", scope="house")
    for agent_id in ("main2", "Main", "main:x", "", "main' OR '1'='1", '{"$ne": ""}', "日本"):
        other = host(tmp_path / "home", chroma_server.port, prefix=prefix, agent_id=agent_id)
        store = other.long_term
        assert await store.get(memory.id) is None
        assert await store.delete(memory.id) is False
        assert await other.forget(memory.id) is False
        assert await store.nearest(memory.text) == ()
        assert await store.nearest(memory.text, scope="house") == ()
        assert (await store.recall("plumber Tuesday")).memories == ()
        assert await store.listed(limit=10) == ()
        assert await store.count() == (await store.stats()).count == 0
        await other.close()
    assert await owner.long_term.get(memory.id) == memory
    await owner.close()


async def test_two_processes_write_and_search_at_once(
    chroma_server: Any, tmp_path: Path, prefix: str
) -> None:
    async def run(name: str) -> dict[str, Any]:
        return await asyncio.to_thread(
            _run, [str(tmp_path / name), str(chroma_server.port), prefix, name]
        )

    done = await asyncio.gather(run("attic"), run("cellar"))
    assert [each["searches"] for each in done] == [20, 20]
    watching = host(tmp_path / "third", chroma_server.port, prefix=prefix)
    texts = {memory.text for memory in await watching.long_term.listed(limit=100)}
    assert texts == {f"{name} number {n}" for name in ("attic", "cellar") for n in range(20)}
    await watching.close()


async def test_what_was_acknowledged_outlives_a_server_that_is_killed_and_restarted(
    mortal_server: Any, tmp_path: Path, prefix: str
) -> None:
    mortal_server.start()
    hosts = [host(tmp_path / name, mortal_server.port, prefix=prefix) for name in ("a", "b")]
    acknowledged: list[str] = []
    failures: list[MemoryBackendError] = []
    stop = asyncio.Event()

    async def write(backend: MemoryChroma, name: str) -> None:
        number = 0
        while not stop.is_set():
            try:
                memory = await backend.long_term.add(f"{name} number {number}")
            except MemoryBackendError as error:
                failures.append(error)
                await asyncio.sleep(0.05)
            else:
                acknowledged.append(memory.id)
                number += 1

    async def search(backend: MemoryChroma) -> None:
        while not stop.is_set():
            try:
                await backend.search("walnut key")
            except MemoryBackendError as error:
                failures.append(error)
            await asyncio.sleep(0.05)

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    work = [
        asyncio.create_task(each)
        for each in (write(hosts[0], "a"), write(hosts[1], "b"), search(hosts[0]))
    ]
    await until(lambda: len(acknowledged) >= 20)
    await asyncio.to_thread(mortal_server.kill)
    await until(lambda: bool(failures))
    before = len(acknowledged)
    await asyncio.to_thread(mortal_server.start)
    await until(lambda: len(acknowledged) >= before + 20)
    stop.set()
    await asyncio.gather(*work)
    assert any(isinstance(error, ChromaAwayError) and error.hint for error in failures)
    memories = await _until_back(lambda: hosts[1].long_term.listed(limit=10_000))
    stored = {memory.id for memory in memories}
    assert stored >= set(acknowledged)
    assert "walnut" in (await _until_back(lambda: hosts[0].search("walnut key"))).hits[0].snippet
    status = await hosts[0].status()
    assert status.details["chroma"]["reconnects"] >= 1
    for each in hosts:
        await each.close()


async def test_without_its_server_a_host_says_so_at_once_and_still_reads_files(
    tmp_path: Path, prefix: str
) -> None:
    """The host answers searches from the files meanwhile; that needs a quick error."""
    backend = host(tmp_path / "home", 1, prefix=prefix)
    async with asyncio.timeout(10):
        for ask in (
            lambda: backend.search("walnut"),
            lambda: backend.sync("test"),
            lambda: backend.store("x"),
            lambda: backend.long_term.recall("x"),
        ):
            with pytest.raises(ChromaAwayError) as away:
                await ask()
            assert "chroma run" in str(away.value.hint)
        status = await backend.status()
        assert "does not answer" in str(status.last_error)
        assert status.details["chroma"]["address"] == "http://127.0.0.1:1"
        assert not (await backend.probe()).ok
        assert "walnut" in (await backend.read("MEMORY.md")).text
    await backend.close()


async def test_a_server_whose_data_is_gone_is_filled_again(
    mortal_server: Any, tmp_path: Path, prefix: str
) -> None:
    """A running host must not go on believing that its files are indexed."""
    mortal_server.start()
    backend = host(tmp_path / "home", mortal_server.port, prefix=prefix)
    await backend.sync("test")
    mortal_server.kill()
    mortal_server.folder = tmp_path / "new-folder"
    mortal_server.start()
    result = await backend.search("walnut key")
    assert [hit.path for hit in result.hits] == ["MEMORY.md"]
    assert (result.mode, result.degraded) == ("hybrid", False)
    await backend.close()


async def _until_back(ask: Callable[[], Any]) -> Any:
    for _ in range(300):
        try:
            return await ask()
        except ChromaAwayError:
            await asyncio.sleep(0.1)
    raise AssertionError("the server is not found again")


def _run(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _HOST, str(Path(__file__)), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


_HOST = textwrap.dedent(
    """
    import asyncio, importlib.util, json, pathlib, sys

    spec = importlib.util.spec_from_file_location("hosts", sys.argv[1])
    hosts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hosts)
    home, port, prefix, name = sys.argv[2:]

    async def main():
        backend = hosts.host(pathlib.Path(home), int(port), prefix=prefix)
        await backend.sync("test")
        searches = 0
        for number in range(20):
            memory = await backend.long_term.add(f"{name} number {number}")
            (itself,) = await backend.long_term.nearest(memory.text, limit=1)
            assert itself.score > 0.99
            found = await backend.search("walnut key")
            assert name in found.hits[0].snippet
            searches += 1
        await backend.close()
        print(json.dumps({"searches": searches}))

    asyncio.run(main())
    """
)
