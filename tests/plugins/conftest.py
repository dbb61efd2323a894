"""A fresh environment into which pip has installed the workspace and the test plugins, each from its folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent / "sources"
DRIVER = Path(__file__).resolve().parent / "drive_host.py"


@frozen
class Environment:
    """A virtual environment; :meth:`run` runs its interpreter."""

    folder: Path

    @property
    def python(self) -> Path:
        scripts = "Scripts" if os.name == "nt" else "bin"
        return self.folder / scripts / "python"

    def run(
        self,
        *arguments: str | Path,
        environ: Mapping[str, str] | None = None,
        fails: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run the interpreter; ``fails`` says whether it must end with a failure."""
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        result = subprocess.run(
            [self.python, *arguments],
            capture_output=True,
            text=True,
            env=variables | dict(environ or {}),
            cwd=self.folder,
            timeout=120,
            check=False,
        )
        assert bool(result.returncode) is fails, result.stdout + result.stderr
        return result

    def hermitcrab(
        self, *arguments: str, home: Path, plugins: str, fails: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line program on a home; ``plugins`` names the third parties that may run."""
        return self.run(
            "-m",
            "hermitcrab",
            *arguments,
            environ={
                "HERMITCRAB_HOME": str(home),
                "HERMITCRAB_PLUGINS": plugins,
                "COLUMNS": "400",
            },
            fails=fails,
        )


def _pip(environment: Environment, *arguments: str | Path) -> None:
    constraint = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            environment.python,
            "install",
            *quiet,
            *arguments,
        ],
        capture_output=True,
        text=True,
        env=os.environ | constraint,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def _borrow_libraries(environment: Environment) -> None:
    """Let the environment see the third-party libraries of the workspace's, behind its own packages."""
    own = environment.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout
    borrowed = sysconfig.get_path("purelib")
    (Path(own.strip()) / "borrowed.pth").write_text(f"{borrowed}\n", encoding="utf-8")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Wheels of the workspace and of all test plugins, built and installed by pip."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(folder, with_pip=False)
    made = Environment(folder)
    _pip(made, "hatchling")
    _borrow_libraries(made)
    projects = [*ROOT.glob("plugins/*/pyproject.toml"), *SOURCES.glob("*/pyproject.toml")]
    projects += ROOT.glob("examples/*/pyproject.toml")
    folders = [ROOT / "core", *sorted(project.parent for project in projects)]
    _pip(made, "--no-deps", "--no-build-isolation", *folders)
    return made


@pytest.fixture
def install(environment: Environment) -> Callable[[Path], None]:
    """Installs a distribution from its folder, beside what is there."""

    def install_folder(folder: Path) -> None:
        _pip(environment, "--no-deps", "--no-build-isolation", folder)

    return install_folder


@pytest.fixture
def drive(environment: Environment, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Sends one message in a process of its own; ``plugins`` names the third parties that may run."""

    def drive_host(
        message: str = "hello",
        *,
        plugins: str,
        config: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        (home / "config.yaml").write_text(yaml.safe_dump(dict(config or {})), encoding="utf-8")
        variables = {"HERMITCRAB_PLUGINS": plugins, "HERMITCRAB_HOME": str(home)}
        result = environment.run(DRIVER, home, message, environ=variables)
        report: dict[str, Any] = json.loads(result.stdout)
        return report

    return drive_host
