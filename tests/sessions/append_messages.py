"""Appends messages to one session, as a program of its own, and prints the ids of those that were acknowledged.

Usage: python append_messages.py FOLDER NAME COUNT
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from hermitcrab.messages import user
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:main"


async def main(folder: Path, name: str, count: int) -> None:
    sessions = Sessions(
        store=JsonlTranscriptStore(folder, lock_timeout_ms=60_000),
        entries=SessionEntries(folder / "sessions.sqlite"),
        clock=lambda: datetime.now(UTC),
        cwd="/work",
        durability="os",
    )
    log = await sessions.open(KEY)
    acknowledged = []
    for number in range(count):
        [entry] = await log.append_messages([user(f"{name} {number}")])
        acknowledged.append(entry["id"])
    await log.end_turn()
    await sessions.close()
    print("\n".join(acknowledged))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
