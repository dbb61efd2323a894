"""A plugin as ``hermitcrab plugins new`` begins it: made, installed, tested and selected by the commands it prints."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

ENGINE, MEMORY, HOOKS = "context-engine", "memory", "hooks"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ENGINE, MEMORY, HOOKS, "embeddings", "model"])
def test_the_printed_commands_lead_to_a_plugin_in_use(
    environment, install: Callable[..., None], tmp_path: Path, kind: str
) -> None:
    name, home = f"fresh-{kind}", tmp_path / "home"
    printed = environment.hermitcrab(
        "plugins", "new", kind, name, "--into", str(tmp_path), home=home, plugins=name
    ).stdout
    install_it, test_it, select_it = [
        shlex.split(line) for line in printed.splitlines() if line.startswith("  ")
    ]
    assert install_it[:4] == ["python", "-m", "pip", "install"]
    folder = tmp_path / Path(test_it[-1]).name
    install(folder)
    assert test_it[:3] == ["python", "-m", "pytest"]
    environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, folder)
    assert select_it[0] == "hermitcrab"
    environment.hermitcrab(*select_it[1:], home=home, plugins=name)
    info = environment.hermitcrab("plugins", "info", name, home=home, plugins=name).stdout
    assert "loaded" in info
    findings = environment.hermitcrab(
        "plugins", "doctor", "--json", home=home, plugins=name, fails=True
    ).stdout  # other plugins of this environment are broken on purpose
    assert [each for each in json.loads(findings)["findings"] if each["subject"] == name] == []
    said = environment.hermitcrab("run", "-m", "hello", home=home, plugins=name).stdout
    assert "You said: hello" in said if kind == "model" else said.strip()
