"""What counts as a chat command, and what is said to one that is not known."""

from __future__ import annotations

import pytest

from hermitcrab.agent.commands.commands import (
    ChatCommand,
    all_commands,
    parse_command,
    unknown_command,
)
from hermitcrab.agent.notices import describe_compaction
from hermitcrab.compaction.outcome import CompactionOutcome


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/compact", ("compact", "")),
        ("  /Compact Dwell on the port. ", ("compact", "Dwell on the port.")),
        ("/my-command a b", ("my-command", "a b")),
        ("hello", None),
        ("", None),
        ("/", None),
        ("//compact", None),
        ("/etc/hosts is empty", None),
        ("/ compact", None),
    ],
)
def test_a_command_is_a_slash_and_a_name(text, expected):
    assert parse_command(text) == expected


def test_a_command_that_is_nearly_one_is_named():
    assert "/compact?" in unknown_command("compcat", "now", ["compact", "new"])


def test_text_that_only_begins_like_a_command_goes_to_the_model():
    assert unknown_command("tmp", "is full", ["compact", "new"]) is None


def test_plugins_cannot_take_a_command_of_the_core_and_may_leave_out_the_help():
    def answer(call):
        return "answer"

    commands = all_commands({"/Ping": answer, "help": ChatCommand("help", "stolen", answer)})
    assert commands["ping"].run is answer
    assert commands["help"].help != "stolen"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"status": "compacted", "messages_summarized": 12, "tokens_before": 30_000},
            ["12 messages", "30,000"],
        ),
        ({"status": "not_needed", "reason": "too short"}, ["skipped", "too short"]),
        ({"status": "no_progress", "reason": "no smaller"}, ["no progress", "no smaller"]),
        ({"status": "failed"}, ["failed", "no reason given"]),
    ],
)
def test_an_outcome_of_a_compaction_is_told_in_one_line(fields, words):
    text = describe_compaction(CompactionOutcome(trigger="manual", **fields))
    assert "\n" not in text
    for word in words:
        assert word in text
