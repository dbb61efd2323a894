"""The lock across processes: held for one append, released by the system if its holder dies (design 5)."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hermitcrab.errors import SessionLockedError, TranscriptError


@contextmanager
def exclusive(path: Path, *, purpose: str, timeout_ms: int) -> Iterator[None]:
    """Hold the lock file ``path``; it names its holder while it is held. Blocking: call it in a worker thread.

    :raises SessionLockedError: if another process held it for longer than ``timeout_ms``.
    :raises TranscriptError: if the lock file cannot be created.
    """
    from filelock import FileLock, Timeout

    def name_holder(descriptor: int) -> None:
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "purpose": purpose,
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)

    lock = FileLock(
        path,
        timeout=timeout_ms / 1000,
        mode=0o600,
        thread_local=False,
        poll_interval=0.005,
        fallback_to_soft=False,
        preserve_lock_file=True,
        on_acquired=name_holder,
    )
    try:
        lock.acquire()
    except Timeout:
        raise SessionLockedError(
            f"still locked after {timeout_ms} ms by {describe_holder(path)}",
            where=path,
            hint="Wait for that process, or raise session.lockTimeoutMs.",
        ) from None
    except OSError as error:
        raise TranscriptError(
            f"the lock cannot be taken: {error.strerror or error}",
            where=path,
            hint="Check that the folder exists and is writable.",
        ) from error
    try:
        yield
    finally:
        lock.release()


def describe_holder(path: Path) -> str:
    """Who holds a lock, for people; what the lock file says may be a moment old."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} ({holder['purpose']}, since {holder['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "an unknown process"
