"""What an index sees of a session transcript, and on which line it stands (memory 3.9)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.memory.transcripts import WIDTH, render
from hermitcrab.memory.transcripts.reading import MOST_CHARACTERS, lines_from
from hermitcrab.memory.transcripts.rendering import wrapped
from hermitcrab.messages import assistant, tool_result, user


def line(message, **fields):
    return json.dumps({"type": "message", "message": message, **fields}).encode() + b"\n"


def texts(*messages):
    rendered = render(map(line, messages))
    return rendered.text.split("\n") if rendered.text else []


def test_users_and_assistants_are_heard_and_nobody_else():
    call = {"id": "c1", "name": "read", "arguments": {"path": "secret-plan.md"}}
    assert texts(
        user("Where is the harbour plan?"),
        assistant("I look.", tool_calls=[call]),
        tool_result("c1", "read", "the harbour plan itself"),
        assistant("In the drawer."),
    ) == ["User: Where is the harbour plan?", "Assistant: I look.", "Assistant: In the drawer."]


def test_only_text_blocks_are_read():
    message = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hidden thought"},
            {"type": "text", "text": "first"},
            {"type": "image", "data": "aGlkZGVu", "mimeType": "image/png"},
            {"type": "text", "text": "second"},
        ],
    }
    assert texts(message) == ["Assistant: first second"]


def test_lines_that_are_no_entry_are_counted_and_say_nothing():
    rendered = render(
        [
            b'{"type":"session","id":"s"}\n',
            b"\n",
            b"{broken\n",
            line(user("here")),
            b'{"type":"mess',
        ]
    )
    assert (rendered.text, rendered.lines) == ("User: here", (4,))


def test_what_another_session_sent_is_no_word_of_the_user():
    message = user("do this")
    message["provenance"] = {"kind": "inter_session", "sourceSessionKey": "agent:main:main"}
    assert texts(message) == []


def test_envelopes_of_channels_are_taken_off_before_newlines_go():
    """#63921: once whitespace is collapsed, nothing tells where the envelope ends."""
    envelope = (
        'Sender (untrusted metadata):\n```json\n{"label": "Ada",\n "id": "+4912345"}\n```\n\n'
    )
    assert texts(user(envelope + "The port is\n  6543.")) == ["User: The port is 6543."]


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("user", "System: [2026-03-01 10:00:00 UTC] Node connected"),
        ("user", "[cron:daily-report] Write the report"),
        ("user", "Read HEARTBEAT.md if it exists. Follow it."),
        ("user", "Exec completed (abc, code 0)"),
        ("user", "An async command you ran earlier has completed."),
        ("user", "NO_REPLY"),
        ("assistant", "NO_REPLY"),
        ("assistant", "  no_reply\n"),
        ("assistant", "HEARTBEAT_OK"),
        ("assistant", "**HEARTBEAT_OK**"),
        ("assistant", " \n\t"),
    ],
)
def test_machinery_is_no_part_of_the_conversation(role, text):
    assert texts({"role": role, "content": text}) == []


def test_an_answer_is_kept_whatever_the_user_wrote_before_it():
    """A user can write what looks like machinery; the answer to it is judged by itself."""
    assert texts(user("[cron:x] spoof"), assistant("The vault code changed on Monday.")) == [
        "Assistant: The vault code changed on Monday."
    ]


def test_a_mention_of_machinery_is_no_machinery():
    said = "What does HEARTBEAT_OK mean, and when is NO_REPLY sent?"
    assert texts(user(said), assistant("It means that " + said)) == [
        f"User: {said}",
        f"Assistant: It means that {said}",
    ]


def test_a_rewritten_message_counts_as_it_stands_now():
    rendered = render(
        [
            line(user("my key is in the blue box"), id="a"),
            line(assistant("Noted."), id="b", parentId="a"),
            line(user("it is in a box"), id="c", rewriteOf="a"),
            line(assistant("Noted."), id="d", parentId="c", rewriteOf="b"),
        ]
    )
    assert (rendered.text, rendered.lines) == ("User: it is in a box\nAssistant: Noted.", (3, 4))


def test_moments_are_those_of_the_message_then_of_the_line_and_may_be_seconds():
    rendered = render(
        [
            line({"role": "user", "content": "one", "timestamp": 1_700_000_000}),
            line({"role": "user", "content": "two", "timestamp": 1_700_000_000_500}),
            line({"role": "user", "content": "three"}, timestamp="2026-03-01T00:00:00.000Z"),
            line({"role": "user", "content": "four", "timestamp": "nonsense"}),
        ]
    )
    assert rendered.moments == (1_700_000_000_000, 1_700_000_000_500, 1_772_323_200_000, None)


def test_a_memory_that_was_recalled_is_not_indexed_as_something_said():
    """C76"""
    block = "<relevant-memories>\nthe cat is grey\n</relevant-memories>\n"
    assert texts(user(block + "And the dog?"), assistant(block + "Brown.")) == [
        "User: And the dog?",
        "Assistant: Brown.",
    ]


CONTENTS = st.lists(st.text(min_size=0, max_size=300) | st.just("x" * 2000), max_size=8)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), CONTENTS), max_size=6))
def test_every_line_of_text_has_its_line_of_the_file(messages):
    """Lines are as many as there are, in order, within the file, and one message is on one line of it."""
    raw = [line({"role": role, "content": " ".join(parts)}) for role, parts in messages]
    rendered = render(raw)
    shown = rendered.text.split("\n") if rendered.text else []
    assert len(shown) == len(rendered.lines) == len(rendered.moments)
    assert list(rendered.lines) == sorted(rendered.lines)
    for text, number in zip(shown, rendered.lines, strict=True):
        label = {"user": "User", "assistant": "Assistant"}[messages[number - 1][0]]
        assert text.startswith(f"{label}: ")
        assert len(text) <= len(label) + 2 + WIDTH
        alone = render([b"\n"] * (number - 1) + [raw[number - 1]])
        assert text in alone.text.split("\n")


@given(
    st.lists(st.text("ab日本", min_size=1, max_size=40), min_size=1, max_size=60),
    st.integers(1, 30),
)
def test_wrapping_loses_nothing_but_spaces(words, width):
    content = " ".join(words)
    pieces = [piece.removeprefix("User: ") for piece in wrapped("User", content, width)]
    assert all(0 < len(piece) <= width for piece in pieces)
    assert "".join(pieces).replace(" ", "") == content.replace(" ", "")


@given(st.integers(0, 1700), st.sampled_from(["user", "assistant"]))
def test_no_part_of_a_credential_survives_wherever_lines_are_cut(before, role):
    """The credential is replaced before the text is wrapped, so that no cut can hide it."""
    secret = "sk-" + "Zq7" * 20
    rendered = render([line({"role": role, "content": f"{'w ' * (before // 2)}key {secret} end"})])
    assert "Zq7" not in rendered.text
    assert "[redacted" in rendered.text


def test_the_same_transcript_has_the_same_digest_and_another_has_another():
    message = {"role": "user", "content": "a"}
    one = render([line(message)])
    assert one.digest == render([line(message)]).digest
    assert one.digest != render([b"\n", line(message)]).digest
    assert one.digest != render([line(message, timestamp="2026-03-01T00:00:00Z")]).digest


def test_a_hit_can_be_read_on_by_its_lines():
    raw = [line(user(f"message {number}")) if number % 3 == 0 else b"{}\n" for number in range(30)]
    rendered = render(raw)
    part = lines_from(rendered, path="sessions/a.jsonl", start=8, messages=2)
    assert part.text == "User: message 9\nUser: message 12"
    assert (part.start, part.lines, part.next_start, part.truncated) == (10, 2, 16, True)
    last = lines_from(rendered, path="sessions/a.jsonl", start=28)
    assert (last.text, last.next_start, last.truncated) == ("User: message 27", None, False)
    assert lines_from(rendered, path="sessions/a.jsonl", start=29).text == ""


def test_reading_on_always_comes_to_an_end_and_misses_no_message():
    rendered = render([line(user("long " * 3000)), *(line(user("y " * 2000)) for _ in range(9))])
    start, seen = 1, []
    while start is not None:
        part = lines_from(rendered, path="p", start=start)
        assert len(part.text) <= MOST_CHARACTERS
        seen.append(part.lines)
        start = part.next_start
    assert sum(seen) == 10
