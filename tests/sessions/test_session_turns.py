"""Two processes that run turns on one session: one line, legal views, one compaction (design 5)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermitcrab.messages import assistant, user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.transcript import JsonlTranscriptStore

MAIN = "agent:main:main"
PROGRAM = Path(__file__).with_name("run_turns.py")


def run_together(home, *parts):
    """Run parts as processes at once; returns what each has to report."""
    processes = [
        subprocess.Popen(
            [sys.executable, PROGRAM, home, part],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for part in parts
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(parts), outputs
    reports = [json.loads(output) for output, _ in outputs]
    for report in reports:
        assert report["faults"] == [0] * len(report["faults"])
    return reports


@pytest.fixture
async def begun(open_host, crab, home):
    """A home in which the session has begun."""
    async with open_host(crab.ScriptedModel()) as host:
        file = (await host.session(MAIN)).file
    return home, file


def entries_of(file):
    contents = JsonlTranscriptStore(file.parent).read_all(file.stem)
    assert not contents.faults.any
    assert contents.branch() == contents.entries, "there is a fork"
    assert {entry.get("parentId") for entry in contents.entries[1:]} == {
        entry["id"] for entry in contents.entries[:-1]
    }
    return contents.entries


def texts_of(entries):
    return [text_of(entry["message"]) for entry in entries if entry["type"] == "message"]


def row_of(file):
    table = SessionEntries(file.with_name("sessions.sqlite"))
    row = table.get(MAIN)
    table.close()
    return row


def test_turns_of_two_processes_interleave_in_one_line(begun):
    """C15: every model sees what both have said, and nothing is lost."""
    home, file = begun
    reports = run_together(home, "chatter:first", "chatter:second")
    texts = texts_of(entries_of(file))
    for name in ("first", "second"):
        for what in ("asks", "answers"):
            said = [text for text in texts if text.startswith(f"{name} {what}")]
            assert said == [f"{name} {what} {number}" for number in range(10)]
    assert len(texts) == 40
    last = max(reports, key=lambda report: len(report["requests"][-1]))["requests"][-1]
    assert {text.split()[0] for text in last} == {"first", "second"}
    assert row_of(file).message_count == 40


def test_a_message_in_the_middle_of_a_tool_round_leaves_legal_views(begun):
    """C11, C44, #88647: a file that changed during the turn is read on; calls and results stay together for both."""
    home, file = begun
    working, other = run_together(home, "tool", "message")
    entries = entries_of(file)
    roles = [entry["message"]["role"] for entry in entries if entry["type"] == "message"]
    assert roles == [
        *("user", "assistant", "user", "assistant"),
        *("toolResult", "toolResult", "assistant", "user", "assistant"),
    ]
    [seen_by_the_other] = other["requests"]
    assert seen_by_the_other[-1] == "A message in between."
    first, second, third = working["requests"]
    assert first == ["Use the tool."]
    assert second.count("waited") == third.count("waited") == 2
    for request in (second, third):
        assert "A message in between." in request
        assert "I am the other one." in request
    assert third[-1] == "And once more."


@pytest.fixture
async def long(open_host, crab, home):
    """A home whose session is near the window of 8,000 tokens that the programs give it."""
    async with open_host(crab.ScriptedModel(window=200_000)) as host:
        session = await host.session(MAIN)
        for number in range(20):
            await session.append(user(f"Question {number}: {'what about the harbour? ' * 30}"))
            await session.append(assistant(f"Answer {number}: {'it is open at noon. ' * 30}"))
        await session.end_turn()
        file = session.file
    return home, file


@pytest.mark.parametrize("way", ["manual", "in the turn"])
def test_two_that_compact_at_once_leave_one_compaction(long, way):
    """The slower one's is dropped as benign, its turn goes on with the other's, and the count is right."""
    home, file = long
    reports = run_together(home, *(f"compacting:{name}:{way}" for name in ("first", "second")))
    entries = entries_of(file)
    compactions = [entry for entry in entries if entry["type"] == "compaction"]
    assert len(compactions) == 1
    outcomes = [report["outcomes"] for report in reports]
    assert sorted(each["status"] for [each] in outcomes) == ["compacted", "not_needed"]
    assert all(each["benign"] for [each] in outcomes)
    assert row_of(file).compaction_count == 1
    for name, report in zip(("first", "second"), reports, strict=True):
        [request] = report["requests"]
        assert "<summary>" in request[0]
        assert f"{name} asks." in request
        assert not any(text.startswith("Question 0:") for text in request[1:])
    texts = texts_of(entries)
    assert {"first asks.", "first goes on.", "second asks.", "second goes on."} <= set(texts)
