"""The same of mem0: its memories added as they are (``infer=False``), in its own Chroma, with our vectors."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.retrieval.collections import Collection, load_collections
from bench.retrieval.measure import share_found, within_budget

from .ours import QUESTIONS, UnavailableError
from .places import Place
from .sizes import disk_of, percentile_ms, resident
from .texts import entries_of, questions_about
from .vectors import PreparedEmbeddings

NAME = "mem0"

_WARM_UP = 5
_RESULTS = 6
# More than fit the budget, as bench.retrieval asks for.
_MOST_RESULTS = 100
_BUDGET = 1_000
_USER = "bench"
# How long a rate is looked at before it is said how long the rest would take.
_TRIAL_S = 10.0


class _Embedder:
    """What mem0 calls for a vector."""

    def __init__(self, provider: PreparedEmbeddings) -> None:
        self._provider = provider
        self._loop = asyncio.new_event_loop()

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self._vectors([text])[0]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return self._vectors(texts)

    def _vectors(self, texts: list[str]) -> list[list[float]]:
        return self._loop.run_until_complete(self._provider.embed_documents(texts))


async def insert(place: Place, patience_s: float) -> dict[str, Any]:
    """Add the entries one at a time, which is the only way there is.

    :raises UnavailableError: the rest would take longer than ``patience_s``.
    """
    return await asyncio.to_thread(_insert, place, patience_s)


async def search(place: Place) -> dict[str, Any]:
    """Ask questions of a memory that another process has filled."""
    return await asyncio.to_thread(_search, place)


async def recall(folder: Path, data: Path, limit: int | None) -> dict[str, Any]:
    """The share of the evidence within 1,000 tokens; an utterance is a memory."""
    return await asyncio.to_thread(_recall, folder, data, limit)


def _insert(place: Place, patience_s: float) -> dict[str, Any]:
    memory = _memory(place.home, place.vectors)
    started = time.perf_counter()
    for number, entry in enumerate(entries_of(place.size), start=1):
        memory.add(entry, user_id=_USER, infer=False)
        taken = time.perf_counter() - started
        whole = taken / number * place.size
        if taken > _TRIAL_S and whole > patience_s:
            raise UnavailableError(
                f"{number / taken:.0f} inserts/s: {place.size:,} entries would take {whole / 60:.0f} minutes"
                " (see --patience)"
            )
    rate = place.size / (time.perf_counter() - started)
    return {
        "insertsPerSecond": None,
        "singleInsertsPerSecond": rate,
        "chunks": place.size,
        "diskBytes": disk_of(place.home),
    }


def _search(place: Place) -> dict[str, Any]:
    memory = _memory(place.home, None)
    seconds, found = [], 0
    questions = list(questions_about(entries_of(place.size), QUESTIONS + _WARM_UP))
    for number, (question, entry) in enumerate(questions):
        started = time.perf_counter()
        results = _ask(memory, question, _USER, _RESULTS)
        taken = time.perf_counter() - started
        if number >= _WARM_UP:
            seconds.append(taken)
            found += any(entry in text for text in results)
    return {
        "searchP50Ms": percentile_ms(seconds, 0.5),
        "searchP99Ms": percentile_ms(seconds, 0.99),
        "found": found / len(seconds),
        "residentBytes": resident(),
    }


def _recall(folder: Path, data: Path, limit: int | None) -> dict[str, Any]:
    memory = _memory(folder / "home", None)
    shares: list[float] = []
    for collection in load_collections(data):
        for text in _utterances(collection):
            memory.add(text, user_id=collection.name, infer=False)
        for question in collection.questions[:limit]:
            results = _ask(memory, question.text, collection.name, _MOST_RESULTS)
            shares.append(share_found(question.evidence, within_budget(results, _BUDGET)))
    return {"recall": round(sum(shares) / len(shares), 4), "questions": len(shares)}


def _utterances(collection: Collection) -> Iterator[str]:
    """The lines of the notes that are no headings."""
    for text in collection.notes.values():
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                yield line


def _ask(memory: Any, question: str, user: str, limit: int) -> list[str]:
    found = memory.search(question, filters={"user_id": user}, top_k=limit)
    return [each["memory"] for each in found["results"]]


def _memory(home: Path, vectors: Path | None) -> Any:
    """mem0 over a folder; the models that it is configured with are never asked."""
    home.mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "MEM0_TELEMETRY": "False",
        "ANONYMIZED_TELEMETRY": "False",
        "MEM0_DIR": str(home / "settings"),
    }
    model = {"provider": "openai", "config": {"api_key": "not-used"}}
    with _saying_why():
        memory = import_module("mem0").Memory.from_config(
            {
                "vector_store": {
                    "provider": "chroma",
                    "config": {"collection_name": "bench", "path": str(home / "chroma")},
                },
                "embedder": model,
                "llm": model,
                "history_db_path": str(home / "history.db"),
            }
        )
    memory.embedding_model = _Embedder(PreparedEmbeddings(vectors))
    return memory


@contextmanager
def _saying_why() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise UnavailableError(
            f"{error}: pip install -r bench/requirements.txt, into an environment of its own"
        ) from error
