"""Asking a memory backend the questions of collections, and counting the evidence in what it returns."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from attrs import evolve, field, frozen, mutable

from hermitcrab import Host
from hermitcrab.config import Config
from hermitcrab.memory import MemoryBackend, SearchResult
from hermitcrab.memory.files import weighted_length

from .collections import Collection, Question

BUDGETS = (500, 1000, 2000)
MODES = ("hybrid", "keyword", "vector")

# More than fit the largest budget: a result of 20 tokens is a very short one.
_MOST_RESULTS = 100
# How long to wait for vectors that are made in the background.
_PATIENCE_S = 600.0
_PAUSE_S = 0.2


@frozen(kw_only=True)
class Answer:
    """What one question found: the share of its evidence, and how much text that took."""

    category: str
    recall: float
    tokens: float
    within: dict[int, float]
    seconds: float


@mutable(kw_only=True)
class Measurement:
    """All answers by mode, why a mode is absent, and what indexing took."""

    questions: int = 0
    files: int = 0
    chunks: int = 0
    seconds: float = 0.0
    answers: dict[str, list[Answer]] = field(factory=dict)
    absent: dict[str, str] = field(factory=dict)

    def record(self) -> dict[str, Any]:
        """The measurement as JSON data; shares between 0 and 1, times in the unit of their name."""
        modes = {
            mode: _summary(answers)
            for mode, answers in self.answers.items()
            if len(answers) == self.questions
        }
        return {
            "questions": self.questions,
            "index": {
                "files": self.files,
                "chunks": self.chunks,
                "seconds": round(self.seconds, 3),
            },
            **modes,
            "absent": {mode: why for mode, why in self.absent.items() if mode not in modes},
        }


async def measure(
    collections: Sequence[Collection], modes: Sequence[str], *, config: Config | None = None
) -> Measurement:
    """Index each collection in a home of its own and ask its questions in each mode."""
    result = Measurement()
    for collection in collections:
        result.questions += len(collection.questions)
        with tempfile.TemporaryDirectory(prefix="bench-retrieval-") as folder:
            await _measure_one(collection, modes, Path(folder), config or Config(), result)
    return result


async def _measure_one(
    collection: Collection,
    modes: Sequence[str],
    home: Path,
    config: Config,
    result: Measurement,
) -> None:
    _write_notes(home / "workspace", collection.notes)
    for position, mode in enumerate(modes):
        async with Host.open(home=home, config=_config(config, mode)) as host:
            memory = (await host.agent()).memory
            if memory is None:
                raise RuntimeError("there is no memory backend to measure")
            if position == 0:
                started = time.perf_counter()
                report = await memory.sync("bench", force=True)
                found = await _settled(memory, collection.questions[0].text)
                result.seconds += time.perf_counter() - started
                result.files += report.indexed
                result.chunks += report.chunks
            else:
                found = await _settled(memory, collection.questions[0].text)
            if found.mode != mode:
                result.absent[mode] = found.reason or "there is no embedding provider"
                continue
            limit = config.agents.defaults.memory_search.query.max_results
            answers = [await _ask(memory, each, limit) for each in collection.questions]
            result.answers.setdefault(mode, []).extend(answers)


def _write_notes(workspace: Path, notes: dict[str, str]) -> None:
    for path, text in notes.items():
        file = workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _config(config: Config, mode: str) -> Config:
    """The same configuration with the weights of a mode; where there are no vectors, all are the same."""
    search = config.agents.defaults.memory_search
    hybrid = search.query.hybrid
    if mode == "keyword":
        hybrid = evolve(hybrid, vector_weight=0.0)
    elif mode == "vector":
        hybrid = evolve(hybrid, enabled=False)
    search = evolve(search, query=evolve(search.query, hybrid=hybrid))
    defaults = evolve(config.agents.defaults, memory_search=search)
    return evolve(config, agents=evolve(config.agents, defaults=defaults))


async def _settled(memory: MemoryBackend, query: str) -> SearchResult:
    """An answer once all vectors are there that will be made without being asked for."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        found = await memory.search(query)
        if not await _is_building(memory) or time.monotonic() > until:
            return found
        await asyncio.sleep(_PAUSE_S)


async def _is_building(memory: MemoryBackend) -> bool:
    status = await memory.status()
    vector = status.details.get("vector", {})
    wanted = vector.get("enabled") and "lastError" not in vector and "cost" not in vector
    return bool(wanted and (vector.get("pending") or not vector.get("available")))


async def _ask(memory: MemoryBackend, question: Question, limit: int) -> Answer:
    started = time.perf_counter()
    few = await memory.search(question.text, max_results=limit)
    seconds = time.perf_counter() - started
    many = await memory.search(question.text, max_results=_MOST_RESULTS)
    snippets = [hit.snippet for hit in few.hits]
    ranked = [hit.snippet for hit in many.hits]
    return Answer(
        category=question.category,
        recall=share_found(question.evidence, snippets),
        tokens=sum(map(tokens, snippets)),
        within={
            budget: share_found(question.evidence, within_budget(ranked, budget))
            for budget in BUDGETS
        },
        seconds=seconds,
    )


def tokens(text: str) -> float:
    """Four characters are a token, or one wide character."""
    return weighted_length(text) / 4


def within_budget(snippets: Iterable[str], budget: int) -> list[str]:
    """The first snippets that together stay within ``budget`` tokens, whole ones only."""
    taken: list[str] = []
    left = float(budget)
    for snippet in snippets:
        cost = tokens(snippet)
        if cost > left:
            break
        taken.append(snippet)
        left -= cost
    return taken


def share_found(evidence: Sequence[str], snippets: Iterable[str]) -> float:
    """The share of the evidence whose whole text is in the snippets, whatever the white space."""
    shown = [" ".join(snippet.split()) for snippet in snippets]
    found = sum(any(" ".join(text.split()) in snippet for snippet in shown) for text in evidence)
    return found / len(evidence)


def _summary(answers: Sequence[Answer]) -> dict[str, Any]:
    by_category: defaultdict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_category[answer.category].append(answer)
    times = sorted(answer.seconds * 1000 for answer in answers)
    return {
        **_recalls(answers),
        "byCategory": {
            category: {"questions": len(some), **_recalls(some)}
            for category, some in sorted(by_category.items())
        },
        "queryP50Ms": round(times[len(times) // 2], 2),
        "queryP99Ms": round(times[min(len(times) - 1, len(times) * 99 // 100)], 2),
    }


def _recalls(answers: Sequence[Answer]) -> dict[str, Any]:
    return {
        "default": {
            "recall": round(fmean(answer.recall for answer in answers), 4),
            "tokens": round(fmean(answer.tokens for answer in answers), 1),
        },
        "budgets": {
            str(budget): round(fmean(answer.within[budget] for answer in answers), 4)
            for budget in BUDGETS
        },
    }
