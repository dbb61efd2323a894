"""A law: whatever two programs do to one transcript, both see what a reader of the whole file sees."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hermitcrab.messages import user
from hermitcrab.sessions.branch import kept_part, path_to, without_repeats
from hermitcrab.sessions.context import context_items
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.format import decode_line
from hermitcrab.sessions.reading import read_branch, read_transcript
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:main"
writers = st.sampled_from([0, 1])
texts = st.text(max_size=20)
#: Which entry of a path is meant, from its end.
places = st.integers(0, 12)
foreign_kinds = st.sampled_from(
    ["garbage", "blank", "header", "linked", "linear", "no newline", "repeat", "repeat behind"]
)


def seen(entries):
    """What a reader sees of entries. A line of a linear file names no parent; who reads on from it adds it."""
    return [{name: entry[name] for name in entry if name != "parentId"} for entry in entries]


class TwoWriters(RuleBasedStateMachine):
    """Two instances of a session log on one file, and programs that write into it as they please."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="hermitcrab-laws-"))
        self.tables = []
        self.acknowledged = set()
        self.bad_lines = 0
        self.number = 0

    @initialize()
    def open_both(self):
        self.logs = [self._open(), self._open()]

    def _open(self):
        table = SessionEntries(self.folder / "sessions.sqlite")
        self.tables.append(table)
        sessions = Sessions(
            store=JsonlTranscriptStore(self.folder),
            entries=table,
            clock=lambda: datetime.now(UTC),
            cwd="/work",
            durability="os",
        )
        return self.runner.run(sessions.open(KEY))

    def teardown(self):
        self.runner.close()
        for table in self.tables:
            table.close()
        shutil.rmtree(self.folder)

    def _append(self, writer, *entries):
        standing = self.runner.run(self.logs[writer].append(entries))
        self.acknowledged.update(entry["id"] for entry in standing)
        return standing

    def _write(self, data):
        with self.logs[0].file.open("r+b") as file:
            last = file.read().rpartition(b"\n")[2]
            # Whoever left out the newline of a whole line writes it before going on; a torn line is met as it is.
            file.write((b"\n" if decode_line(last) else b"") + data)

    def _contents(self):
        return read_transcript(self.logs[0].file)

    @staticmethod
    def _at(path, place):
        return path[-1 - place % len(path)]

    @rule(writer=writers, several=st.lists(texts, min_size=1, max_size=3))
    def append(self, writer, several):
        log, leaf = self.logs[writer], self._contents().leaf_id()
        entries = (log.new_entry("message", message=user(text)) for text in several)
        first, *_ = self._append(writer, *entries)
        assert first["parentId"] == leaf
        assert seen(log.path) == seen(self._expected())

    @rule(writer=writers, place=places)
    def append_what_stands_there(self, writer, place):
        entry = self._at(self.logs[writer].path, place)
        before = len(self._contents().entries)
        assert seen(self._append(writer, entry)) == seen([entry])
        assert len(self._contents().entries) == before

    @rule(writer=writers, place=places)
    def branch(self, writer, place):
        target = self._at(self.logs[writer].path, place)["id"]
        self._append(writer, self.logs[writer].new_entry("leaf", targetId=target))
        assert self._contents().leaf_id() == target

    @rule(writer=writers, place=places)
    def compact(self, writer, place):
        log = self.logs[writer]
        kept = self._at(log.path, place)["id"]
        entry = log.new_entry("compaction", summary="in short", firstKeptEntryId=kept)
        if self.runner.run(log.append_compaction(entry)):
            self.acknowledged.add(entry["id"])
            assert self._contents().leaf_id() == entry["id"]

    @rule(cut=st.integers(1, 30))
    def tear_the_tail(self, cut):
        line = json.dumps({"type": "message", "id": "torn", "message": user("never whole")})
        self._write(line.encode()[:cut])
        self.bad_lines += 1

    @rule(kind=foreign_kinds, place=places)
    def write_as_another_program(self, kind, place):
        contents = self._contents()
        leaf = contents.leaf_id()
        self.number += 1
        message = {"type": "message", "message": user(f"foreign {self.number}")}
        linked = {**message, "id": f"foreign-{self.number}", "parentId": leaf}
        repeated = self._at(contents.branch(), place)
        line = {
            "garbage": b"\xff{not json\n",
            "blank": b"\n",
            "header": json.dumps(contents.header).encode() + b"\n",
            "linked": json.dumps(linked).encode() + b"\n",
            "linear": json.dumps(message).encode() + b"\n",
            "no newline": json.dumps(linked).encode(),
            "repeat": json.dumps(repeated).encode() + b"\n",
            "repeat behind": json.dumps({**repeated, "parentId": leaf}).encode() + b"\n",
        }[kind]
        self.bad_lines += kind in {"garbage", "header"}
        self._write(line)
        # What is written behind a line without its newline makes one bad line of both.
        self.bad_lines += 1

    @rule(writer=writers)
    def open_again(self, writer):
        self.logs[writer] = self._open()

    @rule(writer=writers)
    def look(self, writer):
        """A writer that does not look goes on from what it knew, which may be long out of date."""
        log = self.logs[writer]
        self.runner.run(log.refresh())
        expected = self._expected()
        assert seen(log.path) == seen(expected)
        assert log.leaf_id == self._contents().leaf_id()
        assert log.items() == context_items(expected)

    def _expected(self):
        contents = self._contents()
        way, missing = path_to(contents.leaf_id(), contents.entries)
        assert missing is None
        return without_repeats(kept_part(way))

    @invariant()
    def reading_from_the_end_sees_what_a_reader_of_everything_sees(self):
        backwards = read_branch(self.logs[0].file)
        assert seen(backwards.entries) == seen(self._expected())
        assert backwards.leaf_id == self._contents().leaf_id()

    @invariant()
    def the_tree_is_well_formed_and_nothing_acknowledged_is_lost(self):
        contents = self._contents()
        known = {None}
        for entry in contents.entries:
            parent = entry["targetId"] if entry["type"] == "leaf" else entry["parentId"]
            assert parent in known
            known.add(entry["id"])
        assert self.acknowledged <= known
        assert len(contents.faults.bad_lines) <= self.bad_lines
        assert not contents.faults.header_rebuilt


TestTwoWriters = TwoWriters.TestCase
TestTwoWriters.settings = settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
