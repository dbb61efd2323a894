"""Every code block of the pages runs, loads, or at least speaks of something that is there."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from hermitcrab.config import config_from

ROOT = Path(__file__).parents[2]
LANGUAGES = {"python", "yaml", "toml", "shell", "console", "text"}
VARIABLE = re.compile(r"\$\{(\w+)\}")
DISTRIBUTIONS = {
    tomllib.loads(file.read_text("utf-8"))["project"]["name"]
    for file in (ROOT / "core/pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml"))
}
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
#: Stands for a part of a printed line that differs from run to run.
ANYTHING = "…"


def test_every_block_says_what_it_is(block):
    assert block.language in LANGUAGES


def test_scripts_run(script, surroundings, tmp_path):
    file = tmp_path / "example.py"
    file.write_text(script.text, encoding="utf-8")
    done = surroundings.run([sys.executable, "-W", "error", str(file)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"
    assert done.stderr == ""


def test_configurations_load(yaml_block):
    environ = dict.fromkeys(VARIABLE.findall(yaml_block.text), "secret")
    document = yaml.safe_load(yaml_block.text)
    assert document, "an example says something"
    config_from(document, environ=environ)


def test_projects_are_complete(toml_block):
    project = tomllib.loads(toml_block.text)
    assert project["build-system"]["build-backend"] == "hatchling.build"
    assert {"name", "version", "dependencies", "entry-points"} <= set(project["project"])


def test_commands_run(shell_page, blocks_of, surroundings):
    for block in blocks_of(shell_page):
        if block.language == "shell":
            for line in commands_in(block.text):
                check_command(line, surroundings)
        elif block.language == "console":
            check_session(block.text, surroundings)


def commands_in(text: str) -> list[str]:
    """The commands of a shell block, without comments, continued lines joined."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def check_session(text: str, surroundings) -> None:
    """Run the commands after ``$`` and look for the printed lines that follow them."""
    for part in text.removeprefix("$ ").split("\n$ "):
        command, *shown = part.splitlines()
        printed = check_command(command, surroundings)
        for line in filter(str.strip, shown):
            pattern = ".*".join(map(re.escape, line.strip().split(ANYTHING)))
            assert re.search(pattern, printed), f"{command!r} does not print {line!r}:\n{printed}"


def check_command(line: str, surroundings) -> str:
    """Run a command of hermitcrab, or check that what another one names is there; what was printed."""
    name, *arguments = shlex.split(line, comments=True)
    program = name.rpartition("/")[2]
    if program == "hermitcrab":
        done = surroundings.run([sys.executable, "-m", "hermitcrab", *arguments])
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr
    check = CHECKS.get(program)
    assert check is not None, f"{program} is not on the list of commands that the pages may show"
    check(arguments, surroundings)
    return ""


def check_make(arguments: list[str], surroundings) -> None:
    targets = [argument for argument in arguments if "=" not in argument]
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", MAKEFILE, re.MULTILINE), f"make {target}"
    for assignment in set(arguments) - set(targets):
        name, _, value = assignment.partition("=")
        assert re.search(rf"^{name} [?:]?=", MAKEFILE, re.MULTILINE), f"make {assignment}"
        assert (ROOT / value.partition("::")[0]).exists(), f"make {assignment}"


def check_pip(arguments: list[str], surroundings) -> None:
    action, *things = arguments
    assert action in {"freeze", "install"}
    for thing in things:
        name = thing.partition("[")[0]
        known = name in DISTRIBUTIONS or (ROOT / name).is_dir()
        assert thing.startswith("-") or known, f"pip install {thing}"


def check_python(arguments: list[str], surroundings) -> None:
    assert arguments[0] == "-m"
    module, *rest = arguments[1:]
    ours = ROOT.joinpath(*module.split("."), "__main__.py").is_file()
    assert ours or module in {"pytest", "pip", "venv"}
    if module == "pip":
        check_pip(rest, surroundings)
    if module == "pytest":
        paths = [each.partition("::")[0] for each in rest if each.endswith(".py") or "/" in each]
        assert all((ROOT / path).exists() for path in paths), rest


def check_export(arguments: list[str], surroundings) -> None:
    for assignment in arguments:
        name, _, value = assignment.partition("=")
        surroundings.environ[name] = value


CHECKS = {
    "export": check_export,
    "make": check_make,
    "pip": check_pip,
    "pytest": lambda arguments, surroundings: check_python(
        ["-m", "pytest", *arguments], surroundings
    ),
    "python": check_python,
    "python3": check_python,
}


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf x",
        "make supper",
        "pip install something-else",
        "hermitcrab swim",
        "pytest no/such/test.py",
    ],
)
def test_a_command_that_does_not_work_is_noticed(line, surroundings):
    with pytest.raises(AssertionError):
        check_command(line, surroundings)


def test_output_that_is_not_printed_is_noticed(surroundings):
    check_session("$ hermitcrab --version\nhermitcrab …", surroundings)
    with pytest.raises(AssertionError):
        check_session("$ hermitcrab --version\ncrab of the sea", surroundings)
