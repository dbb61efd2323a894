"""The table of chat commands in the guide is what ``/help`` says."""

from __future__ import annotations

from pathlib import Path

from hermitcrab.agent.commands.commands import all_commands
from hermitcrab.sessions.levels import REASONING_LEVELS, THINKING_LEVELS, VERBOSE_LEVELS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_chat_commands_is_the_one_in_the_code():
    section = (DOCS / "getting-started.md").read_text("utf-8").partition("\n## Chat commands\n")[2]
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    commands = all_commands({})
    expected = [f"| `/{name}` | {commands[name].help} |" for name in sorted(commands)]
    assert rows == ["| Command | What it does |", "| --- | --- |", *expected]


def test_the_help_of_a_level_names_all_its_words():
    commands = all_commands({})
    for name, levels in (
        ("think", THINKING_LEVELS),
        ("verbose", VERBOSE_LEVELS),
        ("reasoning", REASONING_LEVELS),
    ):
        assert ", ".join(levels) in commands[name].help
