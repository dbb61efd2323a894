"""The program as a whole: options, exit codes, and commands of plugins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermitcrab import __version__
from hermitcrab.cli.root import program

COMMANDS = [
    "init",
    "chat",
    "run",
    "replay",
    "sessions",
    "memory",
    "ltm",
    "plugins",
    "config",
    "status",
    "doctor",
]


def test_version_and_help_name_the_program_and_every_command(cli):
    assert cli("--version").stdout == f"hermitcrab {__version__}\n"
    text = cli("--help").stdout
    assert all(f"\n  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize(
    "path",
    [
        ["init"],
        ["chat"],
        ["run"],
        ["replay"],
        ["sessions", "list"],
        ["sessions", "show"],
        ["memory", "index"],
        ["memory", "search"],
        ["memory", "get"],
        ["memory", "status"],
        ["ltm", "list"],
        ["ltm", "search"],
        ["ltm", "query"],
        ["ltm", "stats"],
        ["ltm", "import"],
        ["ltm", "migrate"],
        ["plugins", "list"],
        ["plugins", "info"],
        ["plugins", "doctor"],
        ["config", "validate"],
        ["config", "schema"],
        ["config", "get"],
        ["status"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_every_command_takes_the_common_options(cli, path):
    text = cli(*path, "--help").stdout
    assert "--home" in text
    assert "--debug" in text
    assert "--safe-mode" in text
    assert path == ["chat"] or "--json" in text


def test_the_home_may_be_named_before_between_and_behind_the_command(tmp_path: Path):
    for position in range(3):
        home = tmp_path / f"home{position}"
        args = ["config", "validate"]
        args[position:position] = ["--home", str(home)]
        result = CliRunner().invoke(program, args)
        assert str(home) in result.stdout


def test_the_home_behind_the_command_wins_over_the_one_before_it(cli, tmp_path: Path):
    assert (
        str(tmp_path / "other")
        in cli("config", "validate", "--home", str(tmp_path / "other")).stdout
    )


def test_the_home_of_the_environment_counts_where_no_option_names_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HERMITCRAB_HOME", str(tmp_path / "from-environment"))
    result = CliRunner().invoke(program, ["config", "validate"])
    assert str(tmp_path / "from-environment") in result.stdout


def test_an_unknown_command_is_wrong_usage_and_named_with_the_nearest(cli):
    error = cli("statsu", code=2).stderr
    assert error == (
        "error: No such command 'statsu'. Did you mean 'status'? See 'hermitcrab --help'.\n"
    )


def test_a_missing_argument_is_one_line_and_wrong_usage(cli):
    error = cli("memory", "search", code=2).stderr
    assert error.count("\n") == 1
    assert "QUERY" in error
    assert "hermitcrab memory search --help" in error


def test_a_home_that_is_a_file_is_refused_in_one_line(tmp_path: Path):
    file = tmp_path / "a-file"
    file.write_text("content", encoding="utf-8")
    for command in (["run", "-m", "hello"], ["init"], ["status"], ["sessions", "list"]):
        result = CliRunner().invoke(program, ["--home", str(file), *command])
        assert result.exit_code == 1
        assert result.stderr.count("\n") == 1
        assert f"{file}: the home must be a folder" in result.stderr
    assert file.read_text(encoding="utf-8") == "content"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_home_that_cannot_be_written_is_one_line(cli, tmp_path: Path, recording):
    tmp_path.chmod(0o500)
    try:
        for command in (["run", "-m", "hello"], ["init"], ["replay", str(recording)]):
            error = cli(*command, code=1).stderr
            assert "cannot be created" in error
            assert error.count("\n") == 1
    finally:
        tmp_path.chmod(0o700)


def test_an_unexpected_error_is_one_line_and_a_traceback_only_with_debug(cli, monkeypatch):
    def fail(*args: object) -> None:
        raise ZeroDivisionError("out of luck")

    monkeypatch.setattr("hermitcrab.cli.sessions.all_entries", fail)
    error = cli("sessions", "list", code=1).stderr
    assert error.startswith("error: unexpected ZeroDivisionError: out of luck.")
    assert error.count("\n") == 1
    result = CliRunner().invoke(program, ["--home", str(cli.home), "sessions", "list", "--debug"])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr


def test_a_command_of_a_plugin_runs_and_stands_in_the_help(cli, distribution):
    distribution(
        "greeting-tool",
        {"hermitcrab.commands": "greet = greeting_tool:greet"},
        """
        import click

        @click.command()
        @click.argument("name")
        @click.pass_context
        def greet(context, name):
            click.echo(f"Hello {name}, from {context.obj.home_folder().name}")
        """,
    )
    assert "greet  (from greeting-tool 1.2)" in cli("--help").stdout
    assert cli("greet", "Ada").stdout == "Hello Ada, from home\n"
    assert "safe mode is on" in cli("--safe-mode", "greet", "Ada", code=1).stderr


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nowhere_to_be_found", "ModuleNotFoundError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("def broken(:", "SyntaxError"),
        ("greet = 5", "offers a int, and must offer a click command"),
    ],
)
def test_a_broken_command_of_a_plugin_names_its_distribution_and_breaks_nothing_else(
    cli, distribution, source, reason
):
    """C100."""
    distribution("greeting-tool", {"hermitcrab.commands": "greet = greeting_tool:greet"}, source)
    error = cli("greet", code=1).stderr
    assert "command greet: greeting-tool 1.2" in error
    assert reason in error
    assert "pip install --upgrade greeting-tool" in error
    assert "greet" in cli("--help").stdout
    cli("--version")
    cli("plugins", "list")


def test_a_command_that_two_distributions_offer_is_refused_and_both_are_named(cli, distribution):
    for name in ("first-tool", "second-tool"):
        distribution(
            name, {"hermitcrab.commands": f"greet = {name.replace('-', '_')}:greet"}, "greet = 1"
        )
    error = cli("greet", code=1).stderr
    assert "first-tool and second-tool offer the same id" in error


def test_a_plugin_cannot_take_the_name_of_a_core_command(cli, distribution):
    distribution(
        "status-thief",
        {"hermitcrab.commands": "status = status_thief:status"},
        "raise RuntimeError",
    )
    assert "tokenizer" in cli("status").stdout
