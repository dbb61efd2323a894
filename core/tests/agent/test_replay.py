"""What a replay does with a recorded conversation."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermitcrab import hookimpl
from hermitcrab.agent.clock import RecordedClock
from hermitcrab.agent.recording import recorded_turns
from hermitcrab.agent.replay import ReplayOptions, replay
from hermitcrab.config import Config
from hermitcrab.errors import HermitcrabError
from hermitcrab.hooks import ToolCallDecision
from hermitcrab.messages import assistant, tool_result, user
from hermitcrab.messages.types import Message
from hermitcrab.sessions.format import encode_line
from hermitcrab.sessions.reading import read_transcript

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CALL = {"id": "call-1", "name": "read", "arguments": {"path": "notes.md"}}


def write_transcript(path: Path, messages: list[Message], *, step_s: int = 60) -> Path:
    """A version 1 transcript, one message every ``step_s`` seconds."""
    lines: list[dict[str, Any]] = [
        {"type": "session", "id": "recorded-1", "timestamp": START.isoformat()}
    ]
    for number, message in enumerate(messages, 1):
        moment = START + timedelta(seconds=number * step_s)
        lines.append(
            {
                "type": "message",
                "timestamp": moment.isoformat(),
                "message": {**message, "timestamp": int(moment.timestamp() * 1000)},
            }
        )
    path.write_bytes(b"".join(map(encode_line, lines)))
    return path


CONVERSATION = [
    user("read the notes"),
    assistant("Reading.", tool_calls=[CALL]),  # type: ignore[list-item]
    tool_result("call-1", "read", "port 5437"),
    assistant("The notes say port 5437."),
    user("thanks"),
    assistant("You are welcome."),
]


async def run(tmp_path: Path, messages: list[Message], **values: Any) -> dict[str, Any]:
    source = write_transcript(tmp_path / "recorded.jsonl", messages)
    plugins = values.pop("plugins", ())
    options = ReplayOptions(source=source, **values)
    return await replay(options, home=tmp_path / "home", config=Config(), plugins=plugins)


def written(report: dict[str, Any]) -> list[Message]:
    entries = read_transcript(Path(report["sessionFile"])).entries
    return [entry["message"] for entry in entries if entry["type"] == "message"]


def without_provenance(messages: list[Message]) -> list[dict[str, Any]]:
    return [{key: value for key, value in m.items() if key != "timestamp"} for m in messages]


async def test_every_recorded_message_is_in_the_new_session_as_it_was(tmp_path: Path) -> None:
    report = await run(tmp_path, CONVERSATION, context_window=8000)
    assert without_provenance(written(report)) == without_provenance(CONVERSATION)
    assert report["turns"] == 2
    assert report["source"]["messages"] == 6
    assert report["sessionKey"] == "agent:main:replay:recorded-1"


async def test_the_source_is_not_touched(tmp_path: Path) -> None:
    source = write_transcript(tmp_path / "recorded.jsonl", CONVERSATION)
    before = source.read_bytes()
    await replay(ReplayOptions(source=source), home=tmp_path / "home", config=Config())
    assert source.read_bytes() == before


async def test_each_run_begins_a_session_of_its_own(tmp_path: Path) -> None:
    first = await run(tmp_path, CONVERSATION)
    second = await run(tmp_path, CONVERSATION)
    assert first["sessionKey"] == second["sessionKey"]
    assert first["sessionFile"] != second["sessionFile"]
    assert Path(first["sessionFile"]).exists()


async def test_until_counts_user_turns(tmp_path: Path) -> None:
    report = await run(tmp_path, CONVERSATION, until=1)
    assert report["turns"] == 1
    assert len(written(report)) == 4


async def test_messages_that_fit_no_turn_are_kept(tmp_path: Path) -> None:
    """Orphans, answers before any question, questions without an answer: all of it is history."""
    odd: list[Message] = [
        assistant("Hello, I speak first."),
        tool_result("nobody", "read", "an orphan"),
        user("one"),
        user("two"),
        assistant("", tool_calls=[CALL], stop_reason="aborted"),  # type: ignore[list-item]
        tool_result("call-1", "read", "too late"),
        tool_result("call-1", "read", "twice"),
        assistant("Done."),
        user("three"),
    ]
    report = await run(tmp_path, odd)
    assert without_provenance(written(report)) == without_provenance(odd)
    assert report["pairing"] == {"orphanResults": 0, "missingResults": 0}


async def test_recorded_times_are_the_times_of_the_new_entries(tmp_path: Path) -> None:
    report = await run(tmp_path, CONVERSATION)
    stamps = [
        entry["timestamp"]
        for entry in read_transcript(Path(report["sessionFile"])).entries
        if entry["type"] == "message"
    ]
    assert stamps[0] == "2026-03-01T12:01:00.000Z"
    assert stamps == sorted(stamps)


def test_the_recorded_clock_never_goes_back() -> None:
    clock = RecordedClock(START)
    clock.advance(START + timedelta(hours=1))
    clock.advance(START - timedelta(hours=1))
    clock.advance(None)
    assert clock() == START + timedelta(hours=1)


async def test_a_plugin_that_blocks_a_tool_call_replaces_its_recorded_result(
    tmp_path: Path,
) -> None:
    @hookimpl
    def before_tool_call(event: Any) -> ToolCallDecision:
        return ToolCallDecision(block=True, block_reason="reading is forbidden")

    plugin = SimpleNamespace(before_tool_call=before_tool_call)
    report = await run(tmp_path, CONVERSATION, plugins=[("guard", plugin)])
    result = next(m for m in written(report) if m["role"] == "toolResult")
    assert result["isError"] is True
    assert "reading is forbidden" in json.dumps(result)
    assert "5437" not in json.dumps(result)


async def test_an_engine_that_is_not_there_is_named_and_legacy_answers(tmp_path: Path) -> None:
    report = await run(tmp_path, CONVERSATION, engine="no-such-engine")
    assert report["engine"] == "legacy"
    assert "no-such-engine" in report["degraded"]


async def test_recorded_usage_never_drives_a_compaction(tmp_path: Path) -> None:
    boastful = [dict(message) for message in CONVERSATION]
    for message in boastful:
        if message["role"] == "assistant":
            message["usage"] = {"input": 10**6, "output": 10, "totalTokens": 10**6}
    report = await run(tmp_path, boastful, context_window=8000)  # type: ignore[arg-type]
    assert report["compactions"] == []
    assert report["peakTokens"] < 8000


async def test_a_transcript_without_messages_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HermitcrabError, match="no messages"):
        await run(tmp_path, [])


def test_every_message_of_a_recording_is_in_exactly_one_place(tmp_path: Path) -> None:
    source = write_transcript(tmp_path / "recorded.jsonl", CONVERSATION)
    turns = recorded_turns(read_transcript(source).branch())
    assert [len(turn.steps) for turn in turns] == [2, 1]
    assert [len(step.results) for step in turns[0].steps] == [1, 0]
