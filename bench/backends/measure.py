"""All phases of all backends, each in a process of its own, one after another."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from . import mem0
from .ours import BACKENDS
from .places import Place
from .texts import entries_of, write_notes
from .vectors import prepare

ALL = (*BACKENDS, mem0.NAME)

_ROOT = Path(__file__).parents[2]


@frozen(kw_only=True)
class Row:
    """One backend with one number of entries; ``absent`` says why there are no numbers.

    Rates in entries per second, ``single_inserts_per_second`` for those that are added one at a time; ``found`` is the
    share of questions whose entry is among six hits, ``recall`` the share of LoCoMo's evidence within 1,000 tokens.
    """

    backend: str
    size: int
    inserts_per_second: float | None = None
    single_inserts_per_second: float | None = None
    search_p50_ms: float | None = None
    search_p99_ms: float | None = None
    found: float | None = None
    recall: float | None = None
    recall_absent: str | None = None
    disk_bytes: int | None = None
    resident_bytes: int | None = None
    absent: str | None = None

    def record(self) -> dict[str, Any]:
        """The row as JSON data."""
        return {_camel(name): value for name, value in asdict(self).items() if value is not None}


@frozen(kw_only=True)
class Measurement:
    """What to measure and where; ``say`` is told what happens."""

    folder: Path
    backends: Sequence[str]
    sizes: Sequence[int]
    data: Path | None
    limit: int | None
    patience_s: float
    mem0_python: Path | None
    say: Callable[[str], None]

    def rows(self) -> Iterator[Row]:
        """A row for each size and backend, as they come."""
        recalls = {backend: self._recall(backend) for backend in self.backends}
        for size in self.sizes:
            vectors = self.folder / f"vectors-{size}"
            self.say(f"vectors of {size:,} entries")
            _prepare(self.folder, vectors, size)
            for backend in self.backends:
                yield self._row(backend, size, vectors, recalls[backend])
            shutil.rmtree(vectors)

    def _row(self, backend: str, size: int, vectors: Path, recall: dict[str, Any]) -> Row:
        place = Place(self.folder / f"{backend}-{size}", vectors, size)
        if backend != mem0.NAME:
            write_notes(place.workspace, entries_of(size))
        task = {
            "backend": backend,
            "folder": str(place.folder),
            "vectors": str(vectors),
            "size": size,
            "patience": self.patience_s,
        }
        results: dict[str, Any] = {}
        for phase in ("insert", "search"):
            self.say(f"{backend}: {phase}, {size:,} entries")
            results |= self._run(task | {"phase": phase})
            if "absent" in results:
                break
        shutil.rmtree(place.folder, ignore_errors=True)
        if "absent" in results:
            return Row(backend=backend, size=size, absent=results["absent"])
        return Row(
            backend=backend,
            size=size,
            inserts_per_second=results["insertsPerSecond"],
            single_inserts_per_second=results["singleInsertsPerSecond"],
            search_p50_ms=results["searchP50Ms"],
            search_p99_ms=results["searchP99Ms"],
            found=results["found"],
            recall=recall.get("recall"),
            recall_absent=recall.get("absent"),
            disk_bytes=results["diskBytes"],
            resident_bytes=results["residentBytes"],
        )

    def _recall(self, backend: str) -> dict[str, Any]:
        if self.data is None:
            return {"absent": "no --data was given"}
        self.say(f"{backend}: recall")
        folder = self.folder / f"{backend}-recall"
        task = {
            "backend": backend,
            "phase": "recall",
            "folder": str(folder),
            "data": str(self.data.resolve()),
            "limit": self.limit,
        }
        result = self._run(task)
        shutil.rmtree(folder, ignore_errors=True)
        return result

    def _run(self, task: dict[str, Any]) -> dict[str, Any]:
        """What a process of its own found; ``absent`` says why it found nothing."""
        other = self.mem0_python if task["backend"] == mem0.NAME else None
        python = sys.executable if other is None else str(other.absolute())
        command = [python, "-m", "bench.backends.work", json.dumps(task)]
        try:
            done = subprocess.run(
                command,
                cwd=_ROOT,
                capture_output=True,
                text=True,
                timeout=self.patience_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"absent": f"it took longer than {self.patience_s:,.0f} s (see --patience)"}
        try:
            result: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            return {"absent": last[0]}
        return result


def _prepare(folder: Path, vectors: Path, size: int) -> None:
    workspace = folder / f"notes-{size}"
    entries = entries_of(size)
    write_notes(workspace, entries)
    prepare(vectors, entries, workspace)
    shutil.rmtree(workspace)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.title() for other in others)
