"""A Chroma in a folder: one process at a time, no network, nothing lost at a restart."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.errors import MemoryBackendError
from hermitcrab.memory.longterm import Memory, new_memory_id
from hermitcrab.testing import HashedEmbeddings
from hermitcrab_memory_chroma.connection import CollectionSpec
from hermitcrab_memory_chroma.embedded import EmbeddedConnection
from hermitcrab_memory_chroma.embedder import Embedder
from hermitcrab_memory_chroma.failures import FolderInUseError
from hermitcrab_memory_chroma.folders import Folder
from hermitcrab_memory_chroma.memories import ChromaMemories
from hermitcrab_memory_chroma.memory_rows import row_of
from hermitcrab_memory_chroma.memory_table import MemoryTables, lost_vectors
from hermitcrab_memory_chroma.rows import write

SPEC = CollectionSpec(name="some-rows")


def folder(path: Path) -> EmbeddedConnection:
    return EmbeddedConnection(path, timeout_s=60)


def memories(connection: EmbeddedConnection, agent_id: str = "main") -> ChromaMemories:
    return ChromaMemories(
        connection,
        agent_id=agent_id,
        prefix="test",
        embedder=_embedder(),
        no_embeddings=None,
    )


def _embedder() -> Embedder:
    return Embedder(HashedEmbeddings())


async def test_the_agents_of_a_process_share_a_folder(tmp_path: Path) -> None:
    first, second = folder(tmp_path), folder(tmp_path / "." / "")
    await first.call(SPEC, "upsert", ids=["a"], embeddings=[[1.0]], documents=["x"])
    assert await second.call(SPEC, "count") == 1
    await first.close()
    assert await second.call(SPEC, "count") == 1
    await second.close()
    await second.close()


async def test_a_second_process_is_told_who_has_the_folder_and_what_to_do(tmp_path: Path) -> None:
    """C91: several processes on one folder lag behind each other, or corrupt it."""
    holder = _holder_of(tmp_path)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline().strip() == "open"
        mine = folder(tmp_path)
        with pytest.raises(FolderInUseError) as refused:
            await mine.call(SPEC, "count")
        assert f"process {holder.pid}" in str(refused.value)
        assert "mode: server" in str(refused.value.hint)
        holder.stdin.close()
        holder.wait(30)
        assert await mine.call(SPEC, "count") == 1
        await mine.close()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


async def test_the_folder_of_a_killed_process_can_be_opened_with_all_it_acknowledged(
    tmp_path: Path,
) -> None:
    holder = _holder_of(tmp_path)
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "open"
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    mine = folder(tmp_path)
    assert await mine.call(SPEC, "count") == 1
    await mine.close()


async def test_a_damaged_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "chroma.sqlite3").write_bytes(b"garbage" * 1_000)
    mine = folder(tmp_path)
    for _ in range(2):
        with pytest.raises(MemoryBackendError, match="cannot open") as damaged:
            await mine.call(SPEC, "count")
        assert "backup" in str(damaged.value.hint)
    assert "cannot open" in str(mine.status().last_error)
    await mine.close()


async def test_a_panic_in_native_code_is_an_error_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        pass

    def panic(_: Folder) -> None:
        raise PanicException("index out of bounds")

    mine = folder(tmp_path)
    await mine.call(SPEC, "count")
    monkeypatch.setattr(Folder, "api", panic)
    with pytest.raises(MemoryBackendError, match="broke down: index out of bounds"):
        await mine.call(SPEC, "count")
    monkeypatch.undo()
    assert await mine.call(SPEC, "count") == 0
    await mine.close()


async def test_1200_memories_are_all_found_after_a_restart(tmp_path: Path) -> None:
    """C91: the graph of vectors was lost after more than 1,000 items and a restart."""
    connection = folder(tmp_path)
    store = memories(connection)
    first = await store.add(_text(0))
    await _add_at_once(connection, range(1, 1_150))
    for number in range(1_150, 1_200):
        await store.add(_text(number))
    await connection.close()
    connection = folder(tmp_path)
    store = memories(connection)
    assert await store.count() == 1_200
    table = await MemoryTables(connection, "test").current()
    assert await lost_vectors(connection, table) == 0
    assert await store.get(first.id) == first
    for number in (0, 1, 999, 1_000, 1_149, 1_150, 1_199):
        # Two texts may have the very same vector of hashed words.
        (found,) = await store.nearest(_text(number), limit=1)
        assert found.score == pytest.approx(1.0, abs=1e-3)
    await connection.close()


async def test_vectors_that_chroma_lost_are_noticed(tmp_path: Path) -> None:
    """C91: rows that are there and that no search by vectors finds."""
    connection = folder(tmp_path)
    store = memories(connection)
    await store.add(_text(1))
    table = await MemoryTables(connection, "test").current()

    class Losing(EmbeddedConnection):
        async def call(self, spec: CollectionSpec, verb: str, **arguments: Any) -> Any:
            answer = await super().call(spec, verb, **arguments)
            return {"ids": [[]]} if verb == "query" else answer

    losing = Losing(tmp_path, timeout_s=60)
    assert await lost_vectors(losing, table) == 1
    assert any("does not find 1" in note for note in (await memories(losing).stats()).notes)
    assert (await store.stats()).notes == ()
    await losing.close()
    await connection.close()


def _text(number: int) -> str:
    return f"memory number{number} of walnut{number % 7}"


async def _add_at_once(connection: EmbeddedConnection, numbers: range) -> None:
    table = await MemoryTables(connection, "test").current()
    made = [
        Memory(id=new_memory_id(), text=_text(number), created_at_ms=number) for number in numbers
    ]
    vectors = await _embedder().documents([memory.text for memory in made])
    rows = [row_of("main", *pair) for pair in zip(made, vectors, strict=True)]
    await write(connection, table.spec, rows)


def test_nothing_is_downloaded_and_nobody_is_called(tmp_path: Path) -> None:
    """C91: an 83 MB model was fetched at the first call, and telemetry was sent."""
    done = subprocess.run(
        [sys.executable, "-c", _NO_NETWORK, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        env={"HOME": str(tmp_path), "PATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[] quince"
    assert not (tmp_path / ".cache").exists()


def _holder_of(path: Path) -> subprocess.Popen[str]:
    """A process that opens the folder, and closes it when its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


_HOLDER = textwrap.dedent(
    """
    import asyncio, pathlib, sys
    from hermitcrab_memory_chroma.connection import CollectionSpec
    from hermitcrab_memory_chroma.embedded import EmbeddedConnection

    async def main():
        connection = EmbeddedConnection(pathlib.Path(sys.argv[1]), timeout_s=60)
        spec = CollectionSpec(name="some-rows")
        await connection.call(spec, "upsert", ids=["a"], embeddings=[[1.0]], documents=["x"])
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await connection.close()

    asyncio.run(main())
    """
)

# Connections are refused by the interpreter's own hook, whoever asks for them.
_NO_NETWORK = textwrap.dedent(
    """
    import asyncio, logging, pathlib, sys

    called = []

    def watch(event, arguments):
        if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib.Request"):
            called.append((event, str(arguments)))
            raise OSError("no network")

    sys.addaudithook(watch)
    from hermitcrab.memory import MemoryContext
    from hermitcrab.testing import HashedEmbeddings
    from hermitcrab_memory_chroma.backend import MemoryChroma

    home = pathlib.Path(sys.argv[1])
    (home / "workspace").mkdir()
    (home / "workspace" / "MEMORY.md").write_text("- The quince is ripe.")

    async def main():
        backend = MemoryChroma(MemoryContext(
            agent_id="main", workspace=home / "workspace", home=home, index_path=home / "index",
            logger=logging.getLogger("test"), embeddings=HashedEmbeddings(),
        ))
        await backend.sync("test")
        await backend.store("The quince tree stands in the garden")
        found = await backend.search("quince")
        assert found.mode == "hybrid", found
        await backend.long_term.recall("quince")
        await backend.close()
        print(called, found.hits[0].snippet.split()[2])

    asyncio.run(main())
    """
)
