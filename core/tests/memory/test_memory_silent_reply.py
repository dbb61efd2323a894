"""The silent reply NO_REPLY (context 6.10)."""

from __future__ import annotations

import pytest

from hermitcrab.memory.silent import SilentGate, is_silent, strip_silent


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY",
        " no_reply \n",
        "NO_REPLY NO_REPLY",
        "NO_REPLY\nNO_REPLYNO_REPLY",
        '{"action":"NO_REPLY"}',
        ' { "action" : "no_reply" , "why": 1 } ',
        "<think>nothing new</think>\nNO_REPLY",
        "<think>a</think><thinking>b</thinking> NO_REPLY",
    ],
)
def test_silent_replies_are_recognised(text: str):
    assert is_silent(text)
    assert strip_silent(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Saved.",
        "NO_REPLY needed",
        "MY_NO_REPLY",
        "NO REPLY",
        '{"action":"reply"}',
        '{"action":',
        '["NO_REPLY"]',
        '{"action": {"a": 1}}',
        "<think>NO_REPLY",
    ],
)
def test_other_replies_are_not(text: str):
    assert not is_silent(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Done.\n\nNO_REPLY", "Done."),
        ("Done. NO_REPLY NO_REPLY\n", "Done."),
        ("NO_REPLY is the token", "NO_REPLY is the token"),
        ("see MY_NO_REPLY", "see MY_NO_REPLY"),
        ("Done.\n", "Done.\n"),
    ],
)
def test_a_token_at_the_end_of_other_text_is_stripped(text: str, kept: str):
    assert strip_silent(text) == kept


def test_long_whitespace_takes_no_time():
    """C41: patterns must be linear."""
    assert strip_silent("x" + " " * 200_000 + "y").endswith("y")
    assert not is_silent("<think>" * 50_000)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["NO", "_REPLY"], ["", "", ""]),
        (["NO_REPLY", " NO_REPLY\n"], ["", "", ""]),
        (["NO", "W is the time", "."], ["", "NOW is the time", ".", ""]),
        (["No, ", "thanks"], ["No, ", "thanks", ""]),
        (["Hello"], ["Hello", ""]),
        (["N"], ["", "N"]),
        ([" ", "\n"], ["", "", " \n"]),
    ],
)
def test_a_stream_is_held_back_while_it_may_become_silent(pieces, shown):
    gate = SilentGate()
    assert [*(gate.let_through(piece) for piece in pieces), gate.rest()] == shown
