"""Kills writers of a session at random instants, and checks after each kill that nothing was lost.

Usage: python kill_writers.py FOLDER KILLS SEED

A writer is a fork of this warm program: it opens the session, appends, compacts and updates its entry, and notes every
acknowledged act in a file. This program kills it (SIGKILL), then opens what is left. It has no threads of its own, so
that forking is safe; it prints what all writers did together as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from hermitcrab.messages import assistant, tool_result, user
from hermitcrab.sessions.blobs.files import blob_folder, entry_references, read_blob
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore, Position

KEY = "agent:main:main"
KILLS_PER_SESSION = 10
#: Longer than a writer can hold the lock, and far shorter than the default.
LOCK_TIMEOUT_MS = 2_000
#: Seconds to the kill, at most: from the fork, or from the first act of the writer.
LONGEST_LIFE = 0.1
#: The share of the writers that are let alone while they open the session.
SPARED = 0.7
#: A line of this many characters takes long enough for a kill to tear it.
LONG_TEXT = 2_000_000


class Writer:
    """What runs until it is killed."""

    def __init__(self, folder: Path, acknowledgements: int, chance: random.Random) -> None:
        self._folder = folder
        self._acknowledgements = acknowledgements
        self._chance = chance

    async def run(self) -> None:
        sessions = Sessions(
            store=JsonlTranscriptStore(self._folder, lock_timeout_ms=LOCK_TIMEOUT_MS),
            entries=SessionEntries(self._folder / "sessions.sqlite"),
            clock=lambda: datetime.now(UTC),
            cwd="/work",
        )
        log = await sessions.open(KEY)
        acts = (
            self._append,
            self._append_many,
            self._append_long,
            self._append_blobs,
            self._compact,
            self._update,
        )
        while True:
            [act] = self._chance.choices(acts, weights=(8, 4, 1, 2, 2, 4))
            await act(log)

    async def _append(self, log):
        [entry] = await log.append_messages([user("a message")])
        self._note("message", entry["id"])

    async def _append_many(self, log):
        entries = await log.append_messages([user("why?"), assistant("because " * 2_000)])
        for entry in entries:
            self._note("message", entry["id"])
        await log.end_turn()

    async def _append_long(self, log):
        [entry] = await log.append_messages([user("x" * LONG_TEXT)])
        self._note("message", entry["id"])

    async def _append_blobs(self, log):
        data = base64.b64encode(self._chance.randbytes(100_000)).decode()
        image = {"type": "image", "mimeType": "image/png", "data": data}
        result = tool_result("call_1", "run", self._chance.choice("xyz") * LONG_TEXT)
        for entry in await log.append_messages([user([image]), result]):
            self._note("message", entry["id"])
            self._note("blob", entry["id"])

    async def _compact(self, log):
        kept = self._chance.choice(log.path)["id"]
        entry = log.new_entry("compaction", summary="in short", firstKeptEntryId=kept)
        if await log.append_compaction(entry):
            self._note("compaction", entry["id"])

    async def _update(self, log):
        label = str(int(log.entry.label or 0) + 1)
        await log.update_entry(record=self._chance.random() < 0.5, label=label)
        self._note("label", label)

    def _note(self, kind: str, value: str) -> None:
        os.write(self._acknowledgements, f"{kind} {value}\n".encode())


def run_and_kill(folder: Path, acknowledgements: Path, chance: random.Random) -> None:
    """Let a writer live for a moment."""
    seed, life = chance.random(), chance.uniform(0, LONGEST_LIFE)
    is_spared = chance.random() < SPARED
    noted_before = acknowledgements.stat().st_size
    child = os.fork()
    if child == 0:
        try:
            noted = os.open(acknowledgements, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            asyncio.run(Writer(folder, noted, random.Random(seed)).run())
        finally:
            os._exit(1)
    deadline = time.monotonic() + 20
    while is_spared and acknowledgements.stat().st_size == noted_before:
        assert time.monotonic() < deadline, "the writer does nothing"
        time.sleep(0.001)
    time.sleep(life)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer ended by itself"


def check(folder: Path, acknowledgements: Path, kills: int) -> Counter[str]:
    """Everything that was acknowledged is there, and the next writer can go on at once."""
    noted = [line.split() for line in acknowledgements.read_text().splitlines()]
    acknowledged = {kind: [v for k, v in noted if k == kind] for kind, _ in noted}
    table = SessionEntries(folder / "sessions.sqlite")
    row = table.get(KEY)
    if row is None:
        table.close()
        assert not noted, "the session is gone"
        return Counter(unborn=1)
    assert int(row.label or 0) >= int(acknowledged.get("label", ["0"])[-1]), "an update is lost"
    table.update(KEY, last_interaction_at=kills)
    table.close()

    store = JsonlTranscriptStore(folder, lock_timeout_ms=LOCK_TIMEOUT_MS)
    contents = store.read_all(row.session_id)
    kinds = {entry["id"]: entry["type"] for entry in contents.entries}
    assert len(kinds) == len(contents.entries), "an id stands twice"
    for kind in ("message", "compaction"):
        lost = [each for each in acknowledged.get(kind, ()) if kinds.get(each) != kind]
        assert not lost, f"acknowledged and lost: {lost}"
    assert contents.branch() == contents.entries, "the branch is not whole"
    assert not contents.faults.header_rebuilt
    assert len(contents.faults.bad_lines) <= kills

    folder = blob_folder(store.path(row.session_id))
    for entry in contents.entries:
        for reference in entry_references(entry):
            read_blob(folder, reference)

    branch = store.read_branch(row.session_id)
    assert branch.faults.missing_ancestor is None
    assert branch.entries == contents.entries[-len(branch.entries) :]
    position = Position(end=branch.end, leaf_id=branch.leaf_id, header_id=branch.header["id"])
    mark = {"type": "custom", "id": f"mark-{kills}", "customType": "mark"}
    result = store.append(
        row.session_id, position, lambda leaf, found: [mark], purpose="check", flush=False
    )
    assert result.written[0]["parentId"] == branch.leaf_id, "somebody else wrote meanwhile"
    return Counter(torn=branch.faults.unfinished_bytes > 0)


def main(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    total: Counter[str] = Counter(kills=kills)
    for first in range(0, kills, KILLS_PER_SESSION):
        home = folder / str(first)
        home.mkdir()
        acknowledgements = home / "acknowledged"
        acknowledgements.touch()
        for number in range(1, min(KILLS_PER_SESSION, kills - first) + 1):
            run_and_kill(home, acknowledgements, chance)
            total += check(home, acknowledgements, number)
        total.update(line.split()[0] for line in acknowledgements.read_text().splitlines())
        shutil.rmtree(home)
    print(json.dumps(total))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
