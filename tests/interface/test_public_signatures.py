"""A public signature changes only together with the changelog (design 3, 4)."""

from __future__ import annotations

import pytest


def changes(baseline, interface):
    """The public names that are new, gone, or different."""
    return sorted(
        name
        for name in baseline.keys() | interface.keys()
        if baseline.get(name) != interface.get(name)
    )


def unmentioned(names, unreleased):
    """Those that the changelog does not name, in backticks."""
    return [name for name in names if f"`{name.rpartition('.')[2]}" not in unreleased]


def test_every_change_of_the_interface_is_in_the_changelog(baseline, interface, unreleased):
    missing = unmentioned(changes(baseline, interface), unreleased)
    assert missing == [], (
        "these public names are new, gone or have another signature, and CHANGELOG.md does not name them under"
        " Unreleased; name them there, or, with a release, run python tests/interface/conftest.py"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"hermitcrab.Crab": ["()"]}),
        ({"hermitcrab.Crab": ["()"]}, {}),
        ({"hermitcrab.Crab": ["()"]}, {"hermitcrab.Crab": ["(size)"]}),
        ({"hermitcrab.Crab": ["()", "  walk(self)"]}, {"hermitcrab.Crab": ["()"]}),
    ],
)
def test_a_change_that_nobody_wrote_down_is_found(before, after):
    found = changes(before, after)
    assert unmentioned(found, "* nothing of note") == ["hermitcrab.Crab"]
    assert unmentioned(found, "* `Crab` has changed") == []


def test_the_description_of_a_class_has_its_methods_and_fields(interface):
    backend = interface["hermitcrab.memory.MemoryBackend"]
    assert any(line.startswith("  async search(self, query") for line in backend)
    assert any("max_results" in line for line in backend)
    hit = interface["hermitcrab.memory.Hit"]
    assert "start_line" in hit[0]
