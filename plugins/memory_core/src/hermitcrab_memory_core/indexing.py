"""Reading one file into the index."""

from __future__ import annotations

import time

from attrs import evolve

from hermitcrab.memory import SyncReport
from hermitcrab.memory.files import MemoryFile
from hermitcrab_memory_core.corpora import Corpus
from hermitcrab_memory_core.index import Index


def index_file(
    index: Index, *, corpus: Corpus, file: MemoryFile, force: bool, report: SyncReport
) -> SyncReport:
    """Index ``file`` if its content changed, and return ``report`` with it counted.

    A file that vanished is forgotten; one that cannot be read keeps what the index has of it and is reported.
    """
    read_at_ns = time.time_ns()
    try:
        loaded = corpus.load(file)
    except FileNotFoundError:
        index.remove(file.path)
        return evolve(report, removed=report.removed + 1)
    except OSError as error:
        skipped = f"{file.path}: cannot be read ({error.strerror})"
        return evolve(report, skipped=(*report.skipped, skipped))
    stored = index.file(file.path)
    is_known = stored is not None and (stored.hash, stored.chunking) == (
        loaded.digest,
        index.chunking,
    )
    if is_known and not force:
        index.touch(file, read_at_ns)
        return evolve(report, unchanged=report.unchanged + 1)
    index.replace(file, loaded.text, loaded.digest, read_at_ns, loaded.lines)
    return evolve(report, indexed=report.indexed + 1)
