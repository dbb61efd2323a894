"""Importing large packages in threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Imports are the whole process's, and so is what keeps them apart.
_lock = threading.RLock()


@contextmanager
def importing() -> Iterator[None]:
    """Import in a thread while no other thread does: two that import packages with circles see half of one.

    Python breaks the deadlock of two threads that wait for each other's modules by handing out one that is not
    complete, which fails with an ImportError that has nothing to do with what is installed.
    """
    with _lock:
        yield
