"""How much disk and memory something takes, and percentiles."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path


def disk_of(folder: Path, *, without: Path | None = None) -> int:
    """The bytes of all files below a folder, but for those below ``without``."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(
        path.stat().st_size for path in files if without is None or not path.is_relative_to(without)
    )


def resident() -> int:
    """The resident memory of this process in bytes; where the system does not say, the most that it ever was."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def percentile_ms(seconds: Sequence[float], share: float) -> float:
    """The smallest time that ``share`` of all do not exceed, in milliseconds."""
    ordered = sorted(seconds)
    position = min(len(ordered) - 1, int(len(ordered) * share))
    return round(ordered[position] * 1000, 3)
