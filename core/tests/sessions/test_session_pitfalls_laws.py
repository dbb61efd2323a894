"""Laws of a session as its callers see it: whatever is appended is there after closing and opening, in one tree."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hermitcrab.messages.text import scrub
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.log import SessionLog
from hermitcrab.sessions.sessions import Sessions
from hermitcrab.sessions.transcript import JsonlTranscriptStore

KEY = "agent:main:main"

any_text = st.text(st.characters(), max_size=20) | st.sampled_from(
    [
        "\ud83d",
        "\udc00\ud83d",
        "a\u2028b\u2029c\x85\x0b\x0c",
        "\r\n\n",
        "\x00",
        "\ufeff",
        '"\\',
        "😀",
    ]
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=12,
)
#: Fields that no version has so far; their names do not collide with those that readers look at.
unknown_fields = st.dictionaries(st.text("xyz_", min_size=3, max_size=6), json_values, max_size=2)


def nested(depth: int) -> Any:
    value: Any = "the innermost"
    for level in range(depth):
        value = [value] if level % 2 else {"inside": value}
    return value


@st.composite
def images(draw: st.DrawFn) -> Any:
    """An image, whose bytes are kept beside the transcript where they are many."""
    data = base64.b64encode(draw(st.binary(max_size=3)) * draw(st.sampled_from([1, 200]))).decode()
    return {"type": "image", "mimeType": draw(st.sampled_from(["image/png", "x"])), "data": data}


blocks = (
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "thinking", "new"])}, optional={"text": any_text}
    )
    | st.fixed_dictionaries(
        {"type": st.just("toolCall"), "id": any_text, "name": any_text, "arguments": json_values}
    )
    | images()
    | json_values
)
messages = st.builds(
    lambda fixed, more: {**more, **fixed},
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "toolResult", "custom", "unheard of"]),
            "content": any_text | st.lists(blocks, max_size=3) | json_values,
        },
        optional={"toolCallId": any_text, "details": json_values, "usage": json_values},
    ),
    unknown_fields,
)
kinds = st.sampled_from(
    [
        "message",
        "message",
        "custom",
        "custom_message",
        "branch_summary",
        "model_change",
        "thinking_level_change",
        "label",
        "session_info",
        "reset",
        "a type of the future",
    ]
)


@st.composite
def entry_fields(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """The type of an entry and what it says."""
    kind = draw(kinds)
    fields: dict[str, Any] = dict(draw(unknown_fields))
    known = {
        "message": {"message": messages},
        "custom": {"customType": any_text, "data": json_values},
        "custom_message": {"customType": any_text, "content": any_text, "display": st.booleans()},
        "branch_summary": {"fromId": any_text, "summary": any_text, "details": json_values},
        "model_change": {"provider": any_text, "modelId": any_text},
        "thinking_level_change": {"thinkingLevel": any_text},
        "label": {"targetId": any_text, "label": any_text},
        "session_info": {"name": any_text},
    }
    for name, values in known.get(kind, {"anything": json_values}).items():
        fields[name] = draw(values)
    return kind, fields


class Folder:
    """One folder of sessions, opened anew for every look."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def open(self) -> tuple[SessionLog, SessionEntries]:
        table = SessionEntries(self.path / "sessions.sqlite")
        sessions = Sessions(
            store=JsonlTranscriptStore(self.path),
            entries=table,
            clock=lambda: datetime.now(UTC),
            cwd="/work",
            durability="os",
        )
        return await sessions.open(KEY), table


async def _append_and_open_again(
    path: Path, several: list[tuple[str, dict[str, Any]]], sizes: list[int]
) -> tuple[list[Any], SessionLog, SessionLog, list[Any]]:
    """What was appended, the log that did it, one that was opened afterwards, and its messages made whole."""
    log, table = await Folder(path).open()
    given = [log.new_entry(kind, **fields) for kind, fields in several]
    rest = list(given)
    for size in sizes:
        await log.append(rest[:size])
        rest = rest[size:]
    await log.append(rest)
    await log.end_turn()
    table.close()
    again, table = await Folder(path).open()
    whole = [await again.restored(each["message"]) for each in again.path if "message" in each]
    table.close()
    return given, log, again, whole


DEEP: Any = ("message", {"message": {"role": "user", "content": nested(300)}})
SURROGATE: Any = (
    "custom",
    {"customType": "\ud83d", "data": {"\udc00": ["\ud83d\ude00", "a\ud83d"]}},
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(entry_fields(), max_size=6), st.lists(st.integers(0, 3), max_size=3))
@example([DEEP, SURROGATE, DEEP], [1])
def test_whatever_is_appended_is_there_after_closing_and_opening(
    several: list[tuple[str, dict[str, Any]]], sizes: list[int]
) -> None:
    """C50, C57: any type, any Unicode, any nesting, unknown fields, media; lone surrogates become U+FFFD."""
    with tempfile.TemporaryDirectory() as folder:
        given_entries, log, again, whole = asyncio.run(
            _append_and_open_again(Path(folder), several, sizes)
        )
    assert again.path == log.path
    assert again.items() == log.items()
    own = again.path[1:]
    parents = [entry["id"] for entry in again.path[:-1]]
    assert [entry["parentId"] for entry in own] == parents

    def without(entry: Any, *names: str) -> Any:
        return {name: value for name, value in entry.items() if name not in names}

    for standing, entry in zip(own, given_entries, strict=True):
        expected = json.loads(json.dumps(scrub(entry)))
        assert without(standing, "parentId", "message") == without(expected, "message")
    said = [entry["message"] for entry in given_entries if "message" in entry]
    assert whole == [json.loads(json.dumps(scrub(message))) for message in said]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(messages, min_size=1, max_size=4))
def test_a_line_of_a_transcript_is_a_line_to_every_program(several: list[Any]) -> None:
    """C2, C57: separators that some readers take for line ends, or bytes that are no UTF-8, split or spoil a line."""
    with tempfile.TemporaryDirectory() as folder:
        fields = [("message", {"message": message}) for message in several]
        _, log, _, _ = asyncio.run(_append_and_open_again(Path(folder), fields, []))
        data = log.file.read_bytes()
    lines = data.split(b"\n")
    assert lines.pop() == b""
    values = [json.loads(line.decode("utf-8", errors="strict")) for line in lines]
    assert [value["type"] for value in values] == ["session", "custom", *["message"] * len(several)]
    assert [value["id"] for value in values[1:]] == [entry["id"] for entry in log.path]
