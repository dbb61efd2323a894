"""``hermitcrab plugins new``: what is written, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from hermitcrab.cli.plugins import PLUGIN_KINDS
from hermitcrab.cli.scaffolding import KINDS, new_plugin

LEFT_OVER = ("plugin-id", "plugin_module", "PluginClass", "plugin-distribution", "plugin-group")


def test_the_command_line_offers_every_kind():
    assert set(PLUGIN_KINDS) == set(KINDS)


@pytest.mark.parametrize("kind", PLUGIN_KINDS)
def test_every_file_is_filled_in_and_the_distribution_is_whole(kind):
    plugin = new_plugin(kind, "word-window")
    assert plugin.folder == "hermitcrab-word-window"
    text = "\n".join([*plugin.files, *plugin.files.values(), *plugin.commands])
    assert [word for word in LEFT_OVER if word in text] == []
    assert {"README.md", ".gitignore", ".github/workflows/test.yml"} <= set(plugin.files)
    assert "src/hermitcrab_word_window/py.typed" in plugin.files
    project = tomllib.loads(plugin.files["pyproject.toml"])["project"]
    assert project["name"] == "hermitcrab-word-window"
    (group,) = project["entry-points"].values()
    assert group == {"word-window": "hermitcrab_word_window"}
    assert any(each.startswith("hermitcrab>=") for each in project["dependencies"])
    assert yaml.safe_load(plugin.files[".github/workflows/test.yml"])["jobs"]


@pytest.mark.parametrize("kind", PLUGIN_KINDS)
def test_the_code_is_formatted_and_clean(kind, tmp_path, cli):
    folder = Path(
        cli.json("plugins", "new", kind, "word-window", "--into", str(tmp_path))["folder"]
    )
    rules = "E,F,W,I,B,UP,RUF,SIM,N,ANN001"
    for arguments in (["check", "--select", rules], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--isolated", "--line-length", "100", "."],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_tests_of_a_new_engine_pass_where_it_stands(tmp_path, cli):
    folder = Path(
        cli.json("plugins", "new", "context-engine", "word-window", "--into", str(tmp_path))[
            "folder"
        ]
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_it_says_what_to_do_next(tmp_path, cli):
    printed = cli("plugins", "new", "memory", "hermitcrab-attic", "--into", str(tmp_path)).stdout
    assert "pip install --editable './hermitcrab-attic[test]'" in printed
    assert "pytest hermitcrab-attic" in printed
    assert printed.rstrip().endswith("hermitcrab plugins enable attic")


def test_nothing_is_overwritten(tmp_path, cli):
    cli("plugins", "new", "hooks", "attic", "--into", str(tmp_path))
    mine = tmp_path / "hermitcrab-attic" / "README.md"
    mine.write_text("mine", encoding="utf-8")
    refused = cli("plugins", "new", "hooks", "attic", "--into", str(tmp_path), code=1)
    assert "is there already, and nothing is overwritten" in refused.stderr
    assert mine.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    "name", ["Word", "word_window", "-x", "x-", "a--b", "../up", "9lives", "ü"]
)
def test_a_name_that_can_be_no_id_is_refused(cli, name, tmp_path):
    refused = cli("plugins", "new", "hooks", "--into", str(tmp_path), "--", name, code=1)
    assert "cannot be the id of a plugin" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_id_of_a_core_distribution_is_refused(cli, tmp_path):
    refused = cli("plugins", "new", "memory", "memory-core", "--into", str(tmp_path), code=1)
    assert "belongs to hermitcrab itself" in refused.stderr
