"""The numbers and the names in docs/concepts.md are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from hermitcrab.compaction.budget import SUMMARY_CHARACTERS, make_budget
from hermitcrab.compaction.structure import HEADINGS
from hermitcrab.config import Config

PAGE = (Path(__file__).parents[2] / "docs" / "concepts.md").read_text("utf-8")


def example_of(row: str) -> int:
    """The number in the last column of a row of the table of budgets."""
    found = re.search(rf"^\| {re.escape(row)} \|.*\| ([\d,]+) \|$", PAGE, re.MULTILINE)
    assert found, f"no row {row!r}"
    return int(found[1].replace(",", ""))


def test_the_worked_example_of_budgets_is_what_the_code_computes():
    budget = make_budget(32_000, 2_000, Config().agents.defaults.compaction)
    assert example_of("reserve") == budget.reserve
    assert example_of("usable") == budget.usable
    assert example_of("kept recent") == budget.keep_recent
    assert example_of("flush") == budget.flush_at
    assert example_of("compaction") == budget.usable
    assert example_of("summary") == budget.summary
    assert example_of("one call and its results") == budget.group
    assert f"{SUMMARY_CHARACTERS:,} characters" in PAGE


def test_the_headings_of_a_summary_are_named():
    for heading in HEADINGS:
        assert f"`{heading.removeprefix('## ')}`" in PAGE
