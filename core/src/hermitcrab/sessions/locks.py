"""The lock across processes: held for one append, released by the system if its holder dies (design 5)."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from hermitcrab.errors import SessionLockedError, TranscriptError

logger = logging.getLogger("hermitcrab.sessions")

_POLL_SECONDS = 0.005
#: A holder is written over the one before and padded: to truncate the file costs more than the append it guards.
_HOLDER_BYTES = 256
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def exclusive(path: Path, *, purpose: str, timeout_ms: int) -> Iterator[None]:
    """Hold the lock file ``path``; it names its holder while it is held. Blocking: call it in a worker thread.

    :raises SessionLockedError: if another process held it for longer than ``timeout_ms``.
    :raises TranscriptError: if the lock file cannot be created.
    """
    from filelock import unlock_descriptor

    try:
        descriptor = _acquire(path, time.monotonic() + timeout_ms / 1000)
    except OSError as error:
        raise TranscriptError(
            f"the lock cannot be taken: {error.strerror or error}",
            where=path,
            hint="Check that the folder exists and is writable.",
        ) from error
    if descriptor is None:
        raise SessionLockedError(
            f"still locked after {timeout_ms} ms by {describe_holder(path)}",
            where=path,
            hint="Wait for that process, or raise session.lockTimeoutMs.",
        )
    try:
        _name_holder(descriptor, path, purpose)
        yield
    finally:
        try:
            # A child process may have inherited the descriptor, so closing ours does not suffice.
            unlock_descriptor(descriptor)
        finally:
            os.close(descriptor)


def _acquire(path: Path, deadline: float) -> int | None:
    """A descriptor of the lock file that holds the lock, or ``None`` if it was not to be had in time.

    filelock's ``FileLock`` does the same and adds what an append has no use for at 30 times the cost.
    """
    while True:
        descriptor = _acquire_at_once(path)
        if descriptor is not None or time.monotonic() >= deadline:
            return descriptor
        time.sleep(_POLL_SECONDS)


def _acquire_at_once(path: Path) -> int | None:
    from filelock import lock_descriptor

    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        # Of a file that was deleted meanwhile, others hold a new one.
        if lock_descriptor(descriptor, blocking=False) and _is_at(path, descriptor):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _name_holder(descriptor: int, path: Path, purpose: str) -> None:
    try:
        os.pwrite(descriptor, _holder(os.getpid(), int(time.time()), purpose), 0)
    except OSError as error:
        # The lock holds without it; a full disk must not keep anyone from reading.
        logger.warning("%s: the holder of the lock cannot be named: %s", path, error)


@lru_cache(maxsize=64)
def _holder(pid: int, since: int, purpose: str) -> bytes:
    """What the lock file says of a holder; within one second that is the same for every append."""
    holder = {
        "pid": pid,
        "host": socket.gethostname(),
        "since": datetime.fromtimestamp(since, UTC).isoformat(),
        "purpose": purpose,
    }
    return json.dumps(holder).encode().ljust(_HOLDER_BYTES)


def describe_holder(path: Path) -> str:
    """Who holds a lock, for people; what the lock file says may be a moment old."""
    try:
        # Behind it there may be the rest of a longer one.
        text = path.read_text(encoding="utf-8", errors="replace")
        holder, _ = json.JSONDecoder().raw_decode(text)
        return f"process {holder['pid']} on {holder['host']} ({holder['purpose']}, since {holder['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "an unknown process"
