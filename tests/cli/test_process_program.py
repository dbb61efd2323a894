"""The installed program: how it starts, what it loads, and how quickly (C100, C101)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"httpx", "tiktoken", "sqlite3", "numpy", "rich", "prompt_toolkit", "yaml", "cattrs"}


def loaded_modules(process, *args: str) -> set[str]:
    """The top-level modules that a command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "hermitcrab", *args],
        env=process.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    names = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line]
    return {name.partition(".")[0] for name in names}


def test_the_script_and_the_module_are_the_same_program(process):
    script = Path(sys.executable).with_name("hermitcrab")
    for args in (["--version"], ["--help"], ["plugins", "list"]):
        by_script = subprocess.run(
            [script, *args],
            env=process.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert by_script.stdout == process.run(*args).stdout


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_load_nothing_heavy(process, option):
    assert not loaded_modules(process, option) & HEAVY


def test_plugins_list_loads_no_plugin_and_no_database(process):
    loaded = loaded_modules(process, "plugins", "list", "--json")
    assert not loaded & (HEAVY | {"pluggy"})
    assert not {name for name in loaded if name.startswith("hermitcrab_")}


@pytest.mark.parametrize(
    "source",
    ["import nowhere_to_be_found", "raise SystemExit(3)", "def broken(:", "import os; os._exit(3)"],
    ids=["missing import", "exit", "syntax", "hard exit"],
)
def test_a_broken_plugin_never_breaks_help_version_or_list(process, source):
    """C100."""
    process.distribution(
        "flaky-thing",
        {
            "hermitcrab.plugins": "flaky = flaky_thing",
            "hermitcrab.commands": "wreck = flaky_thing:x",
        },
        source,
    )
    assert "wreck" in process.run("--help").stdout
    process.run("--version")
    assert "flaky-thing" in process.run("plugins", "list").stdout
    assert process.run("--safe-mode", "run", "-m", "hello").stdout


def test_a_reader_that_goes_away_is_no_traceback(process):
    """As in ``hermitcrab config schema | head -1``."""
    with process.start(
        "config", "schema", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        running.stdout.readline()
        running.stdout.close()
        assert "Traceback" not in running.stderr.read()


def test_wrong_usage_and_errors_have_their_exit_codes(process):
    process.run("nowhere", code=2)
    process.run("replay", str(process.home / "nowhere.jsonl"), code=1)
    process.home.write_text("a file", encoding="utf-8")
    error = process.run("run", "-m", "hello", code=1).stderr
    assert error.count("\n") == 1
    assert "the home must be a folder" in error
