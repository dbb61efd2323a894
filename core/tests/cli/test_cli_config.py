"""``hermitcrab init`` and ``hermitcrab config``."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from hermitcrab.cli.templates import CONFIG
from hermitcrab.config import load_config


def test_init_creates_a_home_that_only_its_owner_may_read(cli):
    made = cli.json("init")
    names = {Path(file).name for file in made["created"]}
    assert names == {"config.yaml", "AGENTS.md", "SOUL.md", "TOOLS.md", "USER.md", "MEMORY.md"}
    assert stat.S_IMODE(cli.home.stat().st_mode) == 0o700
    for file in made["created"]:
        assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
    assert (cli.home / "workspace" / "memory").is_dir()
    assert cli("doctor").stdout == "No issues detected.\n"


def test_init_overwrites_nothing(cli):
    config = cli.configure("session:\n  historyLimit: 7\n")
    memory = cli.home / "workspace" / "MEMORY.md"
    memory.parent.mkdir()
    memory.write_text("mine", encoding="utf-8")
    output = cli("init").stdout
    assert f"kept     {config}" in output
    assert config.read_text(encoding="utf-8") == "session:\n  historyLimit: 7\n"
    assert memory.read_text(encoding="utf-8") == "mine"
    assert cli.json("init")["created"] == []


def test_init_writes_into_the_workspace_that_the_configuration_names(cli, tmp_path):
    cli.configure(f"agents:\n  defaults:\n    workspace: {tmp_path / 'desk'}\n")
    cli("init")
    assert (tmp_path / "desk" / "AGENTS.md").is_file()


def test_the_examples_in_the_new_config_are_valid_once_they_are_not_comments(tmp_path):
    """Every line that is not prose is an example."""
    prose, examples = CONFIG.split("\n\n", 1)
    assert all(line.startswith("#") for line in prose.splitlines())
    lines = [
        line.removeprefix("# ") for line in examples.splitlines() if not re.match(r"# [A-Z]", line)
    ]
    file = tmp_path / "config.yaml"
    file.write_text("\n".join(lines), encoding="utf-8")
    config = load_config(file)
    assert config.agents.defaults.model == "local/some-model"
    assert config.session.history_limit == 200
    assert load_config(None, home=tmp_path / "nowhere") == load_config_text(tmp_path, CONFIG)


def load_config_text(folder: Path, text: str):
    file = folder / "untouched.yaml"
    file.write_text(text, encoding="utf-8")
    return load_config(file)


def test_validate_says_ok_and_which_file(cli):
    assert "the defaults hold" in cli("config", "validate").stdout
    file = cli.configure("session:\n  historyLimit: 7\n")
    assert cli("config", "validate").stdout == f"ok: {file}\n"
    assert cli.json("config", "validate") == {"ok": True, "file": str(file), "error": None}


def test_an_unknown_key_is_an_error_that_names_file_path_and_the_nearest_key(cli):
    file = cli.configure("agents:\n  defaults:\n    compaction:\n      reserveTokenz: 5\n")
    for command in (["config", "validate"], ["run", "-m", "hello"], ["status"], ["doctor"]):
        result = cli(*command, code=1)
        text = result.stderr + result.stdout
        assert str(file) in text
        assert "agents.defaults.compaction.reserveTokenz" in text
        assert "Did you mean reserveTokens" in text
    report = cli.json("config", "validate", code=1)
    assert report["ok"] is False
    assert "reserveTokenz" in report["error"]


def test_a_missing_file_that_was_named_is_an_error(cli, tmp_path):
    error = cli("config", "validate", str(tmp_path / "nowhere.yaml"), code=1).stderr
    assert "there is no such file" in error


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("plugins.slots.contextEngine", "legacy\n"),
        ("plugins.enabled", "true\n"),
        ("agents.defaults.model", "null\n"),
        ("session.historyLimit", "7\n"),
        ("plugins.slots", "contextEngine: legacy\nmemory: memory-core\n"),
    ],
)
def test_get_prints_one_value(cli, path, shown):
    cli.configure("session:\n  historyLimit: 7\n")
    assert cli("config", "get", path).stdout == shown


def test_get_masks_secrets_and_names_the_nearest_key(cli, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "very-secret-value")
    cli.configure(
        "models:\n  providers:\n    here:\n      api: openai-compatible\n"
        "      baseUrl: http://127.0.0.1:1/v1\n      apiKey: ${SOME_KEY}\n"
    )
    assert "very-secret-value" not in cli("config", "get").stdout
    assert cli.json("config", "get", "models.providers.here.apiKey") == "***"
    error = cli("config", "get", "plugins.slots.memry", code=1).stderr
    assert "Did you mean plugins.slots.memory?" in error


def test_schema_is_a_json_schema(cli):
    schema = json.loads(cli("config", "schema").stdout)
    assert "plugins" in schema["properties"]


def test_set_keeps_comments_and_shows_in_get(cli):
    config = cli.configure("session:\n  # not too many\n  historyLimit: 7\n")
    cli("config", "set", "session.historyLimit", "20")
    cli("config", "set", "agents.defaults.model", "offline/extractive")
    assert config.read_text(encoding="utf-8").startswith(
        "session:\n  # not too many\n  historyLimit: 20\nagents:"
    )
    assert cli("config", "get", "agents.defaults.model").stdout == "offline/extractive\n"
    assert cli.json("config", "unset", "session.historyLimit")["changed"] is True
    assert cli.json("config", "unset", "session.historyLimit")["changed"] is False


def test_set_writes_nothing_that_would_be_wrong(cli):
    config = cli.configure("session:\n  historyLimit: 7\n")
    for path, value, says in (
        ("session.historyLimits", "7", "Did you mean historyLimit"),
        ("session.historyLimit", "many", "session.historyLimit"),
        ("session..x", "1", "is no path"),
        ("session.historyLimit", "[1, 2", "not YAML"),
    ):
        refused = cli("config", "set", path, value, code=1)
        assert says in refused.stderr
        assert config.read_text(encoding="utf-8") == "session:\n  historyLimit: 7\n"


def test_set_begins_a_home_and_goes_through_a_link(cli, tmp_path):
    real = tmp_path / "dotfiles" / "hermitcrab.yaml"
    real.parent.mkdir()
    real.write_text("# mine\n", encoding="utf-8")
    real.chmod(0o600)
    cli.home.mkdir(exist_ok=True)
    (cli.home / "config.yaml").symlink_to(real)
    cli("config", "set", "plugins.slots.memory", "none")
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert (cli.home / "config.yaml").is_symlink()
    assert real.read_text(encoding="utf-8") == "# mine\n\nplugins:\n  slots:\n    memory: none\n"
