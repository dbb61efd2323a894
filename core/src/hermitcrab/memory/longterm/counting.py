"""What capture has seen, kept and left, and why; on disk, so that another process can show it (pitfall 32)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from hermitcrab.errors import MemoryBackendError

_FILE = "capture.json"
_LOCK_S = 5.0
_log = logging.getLogger("hermitcrab.memory")


@frozen(kw_only=True)
class CaptureCounts:
    """How many user messages capture has seen, and what became of them; ``rejected`` counts by reason."""

    seen: int = 0
    captured: int = 0
    duplicates: int = 0
    failed: int = 0
    rejected: Mapping[str, int] = field(factory=dict)

    def __bool__(self) -> bool:
        return self.seen > 0

    def plus(self, other: CaptureCounts) -> CaptureCounts:
        """Both together."""
        reasons = dict.fromkeys((*self.rejected, *other.rejected), 0)
        return CaptureCounts(
            seen=self.seen + other.seen,
            captured=self.captured + other.captured,
            duplicates=self.duplicates + other.duplicates,
            failed=self.failed + other.failed,
            rejected={
                reason: self.rejected.get(reason, 0) + other.rejected.get(reason, 0)
                for reason in reasons
            },
        )

    def with_rejected(self, reason: str) -> CaptureCounts:
        """One more that was rejected for ``reason``."""
        return evolve(self, rejected={**self.rejected, reason: self.rejected.get(reason, 0) + 1})

    def as_data(self) -> dict[str, Any]:
        """The counts as JSON data."""
        return {
            "seen": self.seen,
            "captured": self.captured,
            "duplicates": self.duplicates,
            "failed": self.failed,
            "rejected": dict(sorted(self.rejected.items())),
        }


def read_counts(home: Path, agent_id: str) -> CaptureCounts:
    """The counts of an agent; a file that cannot be read counts as none. Reads a file."""
    try:
        data = json.loads(_file(home, agent_id).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return CaptureCounts()
    except (OSError, ValueError) as error:
        _log.warning("the counts of capture cannot be read: %s", error)
        return CaptureCounts()
    return _counts_of(data)


def add_counts(home: Path, agent_id: str, counts: CaptureCounts) -> None:
    """Add to the counts of an agent; several processes may do so at once. Writes a file.

    :raises MemoryBackendError: the file cannot be written.
    """
    from filelock import FileLock, Timeout

    file = _file(home, agent_id)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(f"{file}.lock", timeout=_LOCK_S, thread_local=False):
            total = read_counts(home, agent_id).plus(counts)
            temporary = file.with_suffix(".tmp")
            temporary.touch(mode=0o600)
            temporary.write_text(json.dumps(total.as_data()), encoding="utf-8")
            temporary.replace(file)
    except (OSError, Timeout) as error:
        raise MemoryBackendError(
            f"the counts of capture cannot be written: {error}", where=file
        ) from error


def _file(home: Path, agent_id: str) -> Path:
    return home / "agents" / agent_id / _FILE


def _counts_of(data: Any) -> CaptureCounts:
    if not isinstance(data, dict):
        return CaptureCounts()
    rejected = data.get("rejected")
    return CaptureCounts(
        **{name: _whole(data.get(name)) for name in ("seen", "captured", "duplicates", "failed")},
        rejected={str(reason): _whole(count) for reason, count in rejected.items()}
        if isinstance(rejected, dict)
        else {},
    )


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
