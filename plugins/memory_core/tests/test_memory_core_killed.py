"""Killed at any moment, or shared by two processes: an index answers, keeps what it paid for and leaves no litter."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from hermitcrab.memory import MemoryContext
from hermitcrab_memory_core.backend import MemoryCore

# A provider that writes down what it has embedded, and the work that is killed: syncs of files that change.
PROGRAM = """
import asyncio, json, logging, os, sys, zlib
from pathlib import Path
from hermitcrab.memory import EmbeddingProvider, MemoryContext
from hermitcrab_memory_core import vector_store
from hermitcrab_memory_core.backend import MemoryCore

vector_store._MOST_DEAD_ROWS = 20

class Logged(EmbeddingProvider):
    id, dims, remote = "logged", 16, False
    def __init__(self, log, model):
        self.log, self.model = log, model
    async def embed_documents(self, texts):
        await asyncio.sleep(0.002)
        lines = "".join(json.dumps([self.model, text]) + "\\n" for text in texts)
        with open(self.log, "ab", buffering=0) as stream:
            stream.write(lines.encode())
        return [self.vector(text) for text in texts]
    async def embed_query(self, text):
        return self.vector(text)
    def vector(self, text):
        return [float(zlib.crc32(f"{number}{text}".encode()) % 1000) for number in range(16)]
    def fingerprint(self):
        return self.model

def opened(workspace, index, log, model):
    return MemoryCore(MemoryContext(
        agent_id="main", workspace=Path(workspace), home=Path(index).parent,
        index_path=Path(index), logger=logging.getLogger("x"), embeddings=Logged(log, model)))
"""

WORK = """
async def main():
    workspace, index, log, model, name = sys.argv[1:]
    memory = opened(workspace, index, log, model)
    print("ready", flush=True)
    for turn in range(int(os.environ.get("TURNS", "1000000"))):
        path = Path(workspace) / "memory" / f"{name}.md"
        path.write_text("".join(f"- note {name} {turn // 3} {n}\\n" for n in range(40)))
        await memory.sync("cli", force=turn % 5 == 4)
        result = await memory.search("harbour")
        assert result.hits and result.hits[0].path == "MEMORY.md", result
    await memory.close()
asyncio.run(main())
"""

CHECK = """
async def main():
    workspace, index, log, model, name = sys.argv[1:]
    memory = opened(workspace, index, log, model)
    result = await memory.search("harbour")
    assert result.hits and result.hits[0].path == "MEMORY.md", result
    report = await memory.sync("cli")
    assert report.problem is None, report
    result = await memory.search("harbour")
    assert (result.mode, result.degraded) == ("hybrid", False), result
    status = await memory.status()
    assert not status.notes, status.notes
    assert status.details["vector"]["pending"] == 0, status
    await memory.close()
asyncio.run(main())
"""


EXPECTED = {
    "memory.sqlite",
    "memory.sqlite.lock",
    "memory.embeddings.sqlite",
    "memory.embeddings.sqlite.lock",
    "memory.vectors",
}


class Home:
    def __init__(self, root: Path) -> None:
        self.workspace = root / "workspace"
        self.index = root / "home" / "memory.sqlite"
        self.log = root / "embedded.jsonl"
        (self.workspace / "memory").mkdir(parents=True)
        (self.workspace / "MEMORY.md").write_text("- The harbour is closed\n", encoding="utf-8")

    def start(
        self, program: str, *, model: str = "one", name: str = "a", turns: int = 1_000_000
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                PROGRAM + program,
                str(self.workspace),
                str(self.index),
                str(self.log),
                model,
                name,
            ],
            env={**os.environ, "TURNS": str(turns), "OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def check(self, model: str) -> None:
        process = self.start(CHECK, model=model)
        process.communicate(timeout=60)
        assert process.returncode == 0

    def embedded(self) -> list[tuple[str, str]]:
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [tuple(json.loads(line)) for line in lines]

    def kept(self) -> set[tuple[str, bytes]]:
        """What the cache has, by model and the hash of the text."""
        path = self.index.with_name("memory.embeddings.sqlite")
        if not path.exists():
            return set()
        connection = sqlite3.connect(path)
        try:
            return set(
                connection.execute(
                    "SELECT fingerprint, hash FROM vectors JOIN providers ON provider = providers.id"
                )
            )
        except sqlite3.OperationalError:  # killed before there were tables
            return set()
        finally:
            connection.close()

    def lost(self) -> list[tuple[str, str]]:
        """What was embedded and not kept: it was under way when the process was killed."""
        kept = self.kept()
        return [
            each
            for each in sorted(set(self.embedded()))
            if (each[0], sha256(each[1].encode()).digest()) not in kept
        ]


def kill_at_random(home: Home, times: int) -> None:
    """Kill a process that indexes, and every third time one that rebuilds for another model."""
    chance = random.Random(20)
    excused: Counter[tuple[str, str]] = Counter()
    for turn in range(times):
        model = ("one", "one", "two")[turn % 3]
        process = home.start(WORK, model=model)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.0, 0.35))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        lost = home.lost()
        assert len(lost) <= 41 * (turn + 1)
        excused.update(lost)
        home.check(model)
        litter = {path.name.split("-")[0] for path in home.index.parent.iterdir()}
        assert litter <= EXPECTED
        assert len(list(home.index.parent.glob("*.f32"))) == 1
    # What was under way at a kill is lost; nothing that was kept is embedded again.
    again = Counter(home.embedded()) - Counter(set(home.embedded()))
    assert all(count <= excused[each] for each, count in again.items())


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_an_index_that_is_killed_while_it_is_made_answers_and_leaves_no_litter(tmp_path):
    """#97015, #92874, #92891, #36035, C89: temporary files, empty metadata and malformed databases were left."""
    kill_at_random(Home(tmp_path), 6)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_an_index_that_is_killed_a_hundred_times_answers_and_leaves_no_litter(tmp_path):
    """The same, a hundred times at random moments."""
    kill_at_random(Home(tmp_path), 100)


def test_two_processes_index_and_search_one_home_and_embed_each_text_once(tmp_path):
    """C25, #113622: writers met a locked database; here also nobody pays twice."""
    home = Home(tmp_path)
    processes = [home.start(WORK, name=name, turns=8) for name in ("a", "b")]
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0]
    embedded = home.embedded()
    assert len(embedded) == len(set(embedded)) == len(home.kept())
    home.check("one")


async def test_a_reader_that_is_open_while_vectors_are_laid_out_anew_sees_old_or_new(
    tmp_path, monkeypatch
):
    """C89, #91216: after a swap a reader held a deleted file, or saw an empty index."""
    monkeypatch.setattr("hermitcrab_memory_core.vector_store._MOST_DEAD_ROWS", 5)
    namespace: dict[str, object] = {}
    exec(PROGRAM, namespace)
    home = Home(tmp_path)
    logged = namespace["Logged"]

    def opened() -> MemoryCore:
        return MemoryCore(
            MemoryContext(
                agent_id="main",
                workspace=home.workspace,
                home=home.index.parent,
                index_path=home.index,
                logger=logging.getLogger("test"),
                embeddings=logged(home.log, "one"),  # type: ignore[operator]
            )
        )

    writer, reader = opened(), opened()
    names: set[str] = set()
    try:
        await writer.sync("cli")
        for turn in range(6):
            (home.workspace / "memory" / "a.md").write_text(
                "".join(f"- note {turn} {number}\n" for number in range(10)), encoding="utf-8"
            )
            answers = await asyncio.gather(
                writer.sync("cli"), *(reader.search("harbour") for _ in range(5))
            )
            names |= {path.name for path in home.index.parent.glob("*.f32")}
            for result in answers[1:]:
                assert result.hits[0].path == "MEMORY.md"
        assert (await reader.search("harbour")).mode == "hybrid"
    finally:
        await writer.close()
        await reader.close()
    assert len(names) > 1
