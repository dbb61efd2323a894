"""``python -m bench.backends.work``: one phase of one backend, in a process of its own; prints JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

from . import mem0, ours
from .places import Place

#: What a process that cannot measure ends with.
UNAVAILABLE = 3


async def _run(task: dict[str, Any]) -> dict[str, Any]:
    backend, phase = task["backend"], task["phase"]
    folder = Path(task["folder"])
    if phase == "recall":
        data, limit = Path(task["data"]), task["limit"]
        if backend == mem0.NAME:
            return await mem0.recall(folder, data, limit)
        return await ours.recall(backend, data, limit)
    place = Place(folder=folder, vectors=Path(task["vectors"]), size=task["size"])
    if backend == mem0.NAME:
        if phase == "insert":
            return await mem0.insert(place, task["patience"])
        return await mem0.search(place)
    return await (ours.insert if phase == "insert" else ours.search)(backend, place)


def main() -> None:
    """Do what the first argument says."""
    logging.disable(logging.WARNING)
    try:
        result = asyncio.run(_run(json.loads(sys.argv[1])))
    except ours.UnavailableError as error:
        sys.stdout.write(json.dumps({"absent": str(error)}))
        sys.exit(UNAVAILABLE)
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
