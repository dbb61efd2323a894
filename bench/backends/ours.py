"""What is measured of a memory backend of hermitcrab, through its contract, in a process of its own."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from bench.retrieval.collections import load_collections
from bench.retrieval.measure import measure

from hermitcrab import Host
from hermitcrab.config import Config, config_from
from hermitcrab.memory import MemoryBackend

from .places import Place
from .sizes import disk_of, percentile_ms, resident
from .texts import entries_of, questions_about
from .vectors import PROVIDER, PreparedPlugin

BACKENDS = ("memory-core", "memory-lancedb", "memory-chroma")

#: So many entries are added one at a time.
SINGLE = 50
QUESTIONS = 200
_WARM_UP = 5
_RESULTS = 6
_PAUSE_S = 0.1
_PATIENCE_S = 3_600.0


class UnavailableError(Exception):
    """A backend cannot be measured here; the message says why."""


async def insert(backend_id: str, place: Place) -> dict[str, Any]:
    """Index the notes at once, then add a few entries one at a time."""
    async with _host(backend_id, place, prepared=True) as host:
        memory = _memory(host)
        started = time.perf_counter()
        report = await memory.sync("bench")
        await _settle(memory)
        seconds = time.perf_counter() - started
        if report.problem is not None:
            raise UnavailableError(report.problem)
        started = time.perf_counter()
        for number in range(SINGLE):
            await _add_one(memory, place, f"an entry by itself, number{number}")
        single = time.perf_counter() - started
    return {
        "insertsPerSecond": place.size / seconds,
        "singleInsertsPerSecond": SINGLE / single,
        "chunks": report.chunks,
        "diskBytes": disk_of(place.home, without=place.workspace),
    }


async def search(backend_id: str, place: Place) -> dict[str, Any]:
    """Ask questions of a memory that another process has filled."""
    entries = entries_of(place.size)
    questions = list(questions_about(entries, QUESTIONS + _WARM_UP))
    del entries
    seconds, found = [], 0
    async with _host(backend_id, place, prepared=False) as host:
        memory = _memory(host)
        for number, (question, entry) in enumerate(questions):
            started = time.perf_counter()
            result = await memory.search(question, max_results=_RESULTS)
            taken = time.perf_counter() - started
            if result.mode != "hybrid":
                raise UnavailableError(f"it searched by {result.mode}: {result.reason}")
            if number >= _WARM_UP:
                seconds.append(taken)
                found += any(entry in hit.snippet for hit in result.hits)
        memory_bytes = resident()
    return {
        "searchP50Ms": percentile_ms(seconds, 0.5),
        "searchP99Ms": percentile_ms(seconds, 0.99),
        "found": found / len(seconds),
        "residentBytes": memory_bytes,
    }


async def recall(backend_id: str, data: Path, limit: int | None) -> dict[str, Any]:
    """The share of the evidence within 1,000 tokens, as :mod:`bench.retrieval` counts it."""
    from attrs import evolve

    collections = load_collections(data)
    if limit is not None:
        collections = [evolve(each, questions=each.questions[:limit]) for each in collections]
    measured = await measure(collections, ["hybrid"], config=_config(backend_id, None))
    record = measured.record()
    if "hybrid" not in record:
        raise UnavailableError(str(record["absent"]))
    return {"recall": record["hybrid"]["budgets"]["1000"], "questions": record["questions"]}


def _host(backend_id: str, place: Place, *, prepared: bool) -> Any:
    vectors = place.vectors if prepared else None
    return Host.open(
        home=place.home,
        config=_config(backend_id, PROVIDER),
        plugins=[("bench-vectors", PreparedPlugin(vectors))],
    )


def _config(backend_id: str, provider: str | None) -> Config:
    search = {"provider": provider} if provider else {}
    return config_from(
        {
            "plugins": {"slots": {"memory": backend_id}},
            "agents": {"defaults": {"memorySearch": search}},
        }
    )


def _memory(host: Host) -> MemoryBackend:
    try:
        return host.memory
    except Exception as error:
        raise UnavailableError(str(error)) from error


async def _settle(memory: MemoryBackend) -> None:
    """Wait for vectors that are made in the background."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        vector = (await memory.status()).details.get("vector", {})
        if not vector.get("pending"):
            return
        await asyncio.sleep(_PAUSE_S)


async def _add_one(memory: MemoryBackend, place: Place, text: str) -> None:
    """Keep one entry: as a single memory, else as a line of today's note that is indexed at once."""
    if memory.long_term is not None:
        await memory.long_term.add(text)
        return
    with (place.workspace / "memory" / "2026-01-31.md").open("a", encoding="utf-8") as note:
        note.write(f"- {text}\n")
    await memory.sync("bench")
