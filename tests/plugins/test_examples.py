"""The examples of third-party plugins: each installed by pip, tested on the contracts, and used (design 2)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(each.parent.name for each in EXAMPLES.glob("*/pyproject.toml"))


def test_the_examples_are_these():
    assert NAMES == ["audit_log", "notes_memory", "sliding_window"]


@pytest.mark.parametrize("name", NAMES)
def test_an_installed_example_passes_its_own_tests(environment, name):
    folder = EXAMPLES / name
    done = environment.run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, folder / "tests"
    )
    assert " passed" in done.stdout


def test_the_engine_takes_less_than_80_lines():
    source = EXAMPLES / "sliding_window" / "src" / "hermitcrab_sliding_window" / "__init__.py"
    assert len(source.read_text(encoding="utf-8").splitlines()) < 80


def test_an_engine_is_selected_with_one_command_and_used(environment, tmp_path):
    home = tmp_path / "home"
    environment.hermitcrab(
        "plugins", "enable", "sliding-window", home=home, plugins="sliding-window"
    )
    environment.hermitcrab("run", "-m", "hello", home=home, plugins="sliding-window")
    status = environment.hermitcrab("status", home=home, plugins="sliding-window").stdout
    assert "sliding-window" in status


def test_a_memory_is_selected_with_one_command_and_searched(environment, tmp_path):
    home = tmp_path / "home"
    (home / "workspace").mkdir(parents=True)
    (home / "workspace" / "MEMORY.md").write_text("The port is 5433.\n", encoding="utf-8")
    environment.hermitcrab("plugins", "enable", "notes-memory", home=home, plugins="notes-memory")
    found = environment.hermitcrab(
        "memory", "search", "port", "--json", home=home, plugins="notes-memory"
    ).stdout
    assert "5433" in found
    status = environment.hermitcrab(
        "memory", "status", "--json", home=home, plugins="notes-memory"
    ).stdout
    assert json.loads(status)


def test_hooks_are_there_once_they_are_installed(environment, tmp_path):
    home = tmp_path / "home"
    info = environment.hermitcrab(
        "plugins", "info", "audit-log", "--json", home=home, plugins="audit-log"
    ).stdout
    assert {each["hook"] for each in json.loads(info)["handlers"]} == {
        "before_tool_call",
        "after_tool_call",
    }
