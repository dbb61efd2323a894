"""Moving house between real memory plugins: whole, in both directions, and again after a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermitcrab import Host
from hermitcrab.agent.memory_copy.copying import CopyReport
from hermitcrab.agent.memory_copy.opening import copy_memory
from hermitcrab.config import config_from, load_config
from hermitcrab.models import OfflineModel

TOTAL = 60
PAIRS = [
    ("memory-lancedb", "memory-chroma", (41,)),
    pytest.param("memory-chroma", "memory-lancedb", (17, 18, 41), marks=pytest.mark.slow),
]

#: Copies memories and is killed as soon as so many are done.
DRIVER = """
import asyncio, os, signal, sys
from pathlib import Path
from hermitcrab.agent.memory_copy.opening import copy_memory
from hermitcrab.config import load_config

home, source, target, last = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])

def progress(done, total, label):
    if done == last:
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(copy_memory(load_config(home=home), home=home, source=source, target=target, progress=progress))
"""


def opened(home: Path, slot: str) -> Any:
    config = config_from({"plugins": {"slots": {"memory": slot}}})
    return Host.open(home=home, config=config, model=OfflineModel(), environ={})


async def fill(home: Path, slot: str, total: int = TOTAL) -> None:
    async with opened(home, slot) as host:
        store = host.memory.long_term
        assert store is not None
        for number in range(total):
            await store.add(
                f"Memory number {number}: the walnut is worth {number * 7} ducats",
                category=("fact", "preference", "decision")[number % 3],
                importance=number / total,
                created_at_ms=1_700_000_000_000 + number,
                scope="work" if number % 5 == 0 else "",
                session_key="agent:main:main" if number % 2 else None,
                source="tool" if number % 4 == 0 else "user",
            )


async def memories(home: Path, slot: str) -> list[Any]:
    async with opened(home, slot) as host:
        store = host.memory.long_term
        assert store is not None
        found = await store.listed(limit=1_000)
        assert await store.count() == len(found)
        return [(*_fields(memory), round(memory.importance, 5)) for memory in found]


def _fields(memory: Any) -> tuple[Any, ...]:
    return (
        memory.id,
        memory.text,
        memory.category,
        memory.created_at_ms,
        memory.scope,
        memory.session_key,
        memory.source,
    )


def copied(home: Path, source: str, target: str) -> CopyReport:
    config = load_config(home=home)
    return asyncio.run(copy_memory(config, home=home, source=source, target=target, environ={}))


def killed_at(home: Path, source: str, target: str, last: int) -> None:
    environ = {name: text for name, text in os.environ.items() if not name.startswith("HERMITCRAB")}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(home), source, target, str(last)],
        capture_output=True,
        text=True,
        timeout=180,
        env=environ,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(("source", "target", "kills"), PAIRS)
def test_a_copy_that_was_killed_ends_with_every_memory_once(home, source, target, kills):
    (home / "workspace").mkdir(parents=True)
    (home / "workspace" / "MEMORY.md").write_text("- The staging port is 6543.\n")
    asyncio.run(fill(home, source))
    before = asyncio.run(memories(home, source))
    for last in kills:
        killed_at(home, source, target, last)
    there = asyncio.run(memories(home, target))
    assert set(there) <= set(before)
    assert len(there) == kills[-1], "what was acknowledged before the kill is there"
    report = copied(home, source, target)
    assert report.is_complete
    assert (report.memories, report.found, report.refused) == (TOTAL, TOTAL, ())
    assert (report.moved, report.already) == (TOTAL - kills[-1], kills[-1])
    assert report.files_found == 1
    assert asyncio.run(memories(home, target)) == before
    assert asyncio.run(memories(home, source)) == before, "the source is left alone"


@pytest.mark.parametrize("source", ["memory-lancedb", "memory-chroma"])
def test_to_memory_core_they_become_a_file_that_is_found(home, source):
    (home / "workspace").mkdir(parents=True)
    asyncio.run(fill(home, source, 5))
    first = copied(home, source, "memory-core")
    path = f"memory/memories-of-{source}.md"
    assert first.notes == path
    assert (first.moved, first.found) == (5, 5)
    again = copied(home, source, "memory-core")
    assert (again.moved, again.already) == (0, 5)

    async def search() -> list[str]:
        async with opened(home, "memory-core") as host:
            found = await host.memory.search("walnut 28 ducats")
            return [hit.path for hit in found.hits if "28 ducats" in hit.snippet]

    assert path in asyncio.run(search())


@pytest.mark.parametrize("target", ["memory-lancedb", "memory-chroma"])
def test_from_memory_core_the_files_are_searchable_at_once(home, target):
    folder = home / "workspace" / "memory"
    folder.mkdir(parents=True)
    for number in range(3):
        file = folder / f"2026-03-0{number + 1}.md"
        file.write_text(f"- walnut number {number}\n")
        os.utime(file, (1_700_000_000, 1_700_000_000))  # a fresh file is looked at twice
    report = copied(home, "memory-core", target)
    assert (report.is_complete, report.files_found) == (True, 3)
    assert report.files.problem is None

    async def search() -> set[str]:
        async with opened(home, target) as host:
            assert (await host.memory.status()).dirty is False
            return {hit.path for hit in (await host.memory.search("walnut")).hits}

    assert len(asyncio.run(search())) == 3
