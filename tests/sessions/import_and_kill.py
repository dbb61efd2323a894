"""Kills imports of a whole home at random instants, and checks after each kill that only whole sessions are there.

Usage: python import_and_kill.py FOLDER KILLS SEED

An importer is a fork of this warm program. After the kills the import is run to its end, and once more. Prints what
became of it as JSON.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from hermitcrab.config import config_from
from hermitcrab.sessions import import_sessions
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.reading import read_transcript

SESSIONS = 20
KILLS_PER_HOME = 10
#: Seconds that an importer lives, at most, once it has begun to copy.
LONGEST_LIFE = 0.03
CONFIG = config_from({}, environ={})


def make_source(root: Path) -> Path:
    """A home of two agents, whose transcripts are large enough for a kill to hit their copying."""
    for agent in ("main", "work"):
        folder = root / "agents" / agent / "sessions"
        folder.mkdir(parents=True)
        rows = {}
        for number in range(SESSIONS // 2):
            session_id = f"{agent}-{number}"
            lines = [
                {
                    "type": "session",
                    "version": 3,
                    "id": session_id,
                    "timestamp": "2026-03-01T12:00:00Z",
                }
            ]
            for entry in range(number + 1):
                message = {"role": "user", "content": f"{entry} " + "x" * 30_000}
                parent = f"e{entry - 1}" if entry else None
                lines.append(
                    {"type": "message", "id": f"e{entry}", "parentId": parent, "message": message}
                )
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / f"{session_id}.jsonl").write_text(text)
            rows[f"agent:{agent}:direct:{number}"] = {"sessionId": session_id, "label": session_id}
        (folder / "sessions.json").write_text(json.dumps(rows))
    return root


def import_and_kill(source: Path, home: Path, chance: random.Random) -> None:
    """Let an importer live for a moment, counted from the first file that it makes."""
    life = chance.uniform(0, LONGEST_LIFE)
    before = files_in(home)
    child = os.fork()
    if child == 0:
        try:
            import_sessions(source, home=home, config=CONFIG)
        finally:
            os._exit(0)
    deadline = time.monotonic() + 20
    has_ended = False
    while files_in(home) == before and not has_ended:
        assert time.monotonic() < deadline, "the importer does nothing"
        time.sleep(0.001)
        has_ended = os.waitpid(child, os.WNOHANG) != (0, 0)
    if not has_ended:
        time.sleep(life)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def files_in(home: Path) -> int:
    return sum(1 for _ in home.glob("agents/*/sessions/*"))


def check(source: Path, home: Path) -> Counter[str]:
    """What is there is whole, and every entry has its transcript."""
    found: Counter[str] = Counter()
    for agent in ("main", "work"):
        folder = home / "agents" / agent / "sessions"
        for path in folder.glob("*.jsonl"):
            original = (source / path.relative_to(home)).read_bytes()
            assert path.read_bytes().startswith(original), f"{path} is not whole"
            *messages, record = read_transcript(path).branch()
            assert record["customType"] == "hermitcrab.entry"
            assert len(messages) == original.count(b"\n") - 1
            found["transcripts"] += 1
        table = SessionEntries(folder / "sessions.sqlite")
        for entry in table.list():
            assert (folder / f"{entry.session_id}.jsonl").exists(), f"{entry.key} names nothing"
            assert entry.label == entry.session_id
            found["entries"] += 1
        table.close()
    return found


def main(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    source = make_source(folder / "source")
    total: Counter[str] = Counter(kills=kills)
    for first in range(0, kills, KILLS_PER_HOME):
        home = folder / "home"
        for _ in range(min(KILLS_PER_HOME, kills - first)):
            import_and_kill(source, home, chance)
            found = check(source, home)
            total["partial"] += 0 < found["entries"] < SESSIONS
        report = import_sessions(source, home=home, config=CONFIG)
        assert report.is_complete, report
        assert check(source, home) == Counter(transcripts=SESSIONS, entries=SESSIONS)
        assert not list(home.rglob(".importing")), "what a killed import left is cleared away"
        again = import_sessions(source, home=home, config=CONFIG)
        assert again.count("unchanged") == SESSIONS
        total["completed"] += 1
        shutil.rmtree(home)
    print(json.dumps(total))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
