"""Reads the code blocks of the pages, and gives each test the blocks that it asks for.

A block that follows a line with nothing but a file name and a colon, such as ``config.yaml``, is that file. The blocks
of one section that has a ``pyproject.toml`` are a plugin.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("*/README.md"),
        *ROOT.glob("plugins/*/*.md"),
    ]
)
FILE_NAME = re.compile(r"`([\w.-]+)`:")
FENCE = re.compile(r"```(\w*)")


@frozen(kw_only=True)
class Block:
    """A code block of a page; ``file`` is the name of the file that it is, if it is one."""

    page: str
    section: str
    line: int
    language: str
    text: str
    file: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@frozen(kw_only=True)
class Plugin:
    """A plugin as a section of a page shows it: its files by name."""

    page: str
    section: str
    files: Mapping[str, str]

    @property
    def tests(self) -> list[str]:
        """The names of its files with tests."""
        return [name for name in self.files if name.startswith("test_")]

    def __str__(self) -> str:
        return f"{self.page}: {self.section}"


@frozen(kw_only=True)
class Surroundings:
    """Where examples run: a home and an environment of their own, in the folder of the repository."""

    home: Path
    environ: dict[str, str] = field(factory=dict)

    def run(
        self, arguments: Sequence[str], *, cwd: Path = ROOT
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with nothing on stdin and keep what it prints."""
        return subprocess.run(
            arguments,
            cwd=cwd,
            env=self.environ,
            input="",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def read_blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page in order."""
    name = page.relative_to(ROOT).as_posix()
    section, before, start = "", "", 0
    inside: str | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        fence = FENCE.fullmatch(line.strip())
        if inside is not None and line.strip() == "```":
            file = FILE_NAME.fullmatch(before)
            yield Block(
                page=name,
                section=section,
                line=start,
                language=inside,
                text="\n".join(lines) + "\n",
                file=file[1] if file else None,
            )
            inside, before = None, ""
        elif inside is not None:
            lines.append(line)
        elif fence:
            inside, lines, start = fence[1], [], number
        elif line.startswith("## "):
            section = line[3:]
        elif line.strip():
            before = line.strip()


BLOCKS = [block for page in PAGES for block in read_blocks(page)]


def plugins() -> list[Plugin]:
    """The plugins that the pages show."""
    sections = dict.fromkeys(
        (block.page, block.section) for block in BLOCKS if block.file == "pyproject.toml"
    )
    return [
        Plugin(
            page=page,
            section=section,
            files={
                block.file: block.text
                for block in BLOCKS
                if (block.page, block.section) == (page, section) and block.file
            },
        )
        for page, section in sections
    ]


def of_language(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


OFFERS: dict[str, Callable[[], Sequence[Any]]] = {
    "block": lambda: BLOCKS,
    "script": lambda: [block for block in of_language("python") if block.file is None],
    "yaml_block": lambda: of_language("yaml"),
    "toml_block": lambda: of_language("toml"),
    "shell_page": lambda: sorted({block.page for block in of_language("shell", "console")}),
    "shown_plugin": plugins,
    "tested_plugin": lambda: [each for each in plugins() if each.tests],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, offer in OFFERS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, offer(), ids=str)


@pytest.fixture
def surroundings(tmp_path: Path) -> Surroundings:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HERMITCRAB")}
    home = tmp_path / "home"
    return Surroundings(
        home=home,
        environ=kept
        | {"HOME": str(tmp_path), "HERMITCRAB_HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1"},
    )


@pytest.fixture
def blocks_of() -> Callable[[str], list[Block]]:
    """The blocks of a page."""
    return lambda page: [block for block in BLOCKS if block.page == page]


@pytest.fixture
def install(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Plugin], str]]:
    """Makes a plugin of the pages known to this process as pip would, and writes its config.yaml; returns its id."""
    modules: list[str] = []

    def install_plugin(plugin: Plugin) -> str:
        site = tmp_path / "site"
        plugin_id, names = lay_out(plugin, site)
        modules.extend(names)
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.yaml").write_text(plugin.files.get("config.yaml", ""), encoding="utf-8")
        monkeypatch.syspath_prepend(site)
        return plugin_id

    yield install_plugin
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def install_section(install: Callable[[Plugin], str]) -> Callable[[str, str], str]:
    """The same for the plugin of one section of a page."""

    def install_plugin_of(page: str, section: str) -> str:
        found = [each for each in plugins() if (each.page, each.section) == (page, section)]
        assert found, f"{page} has no plugin under {section!r}"
        return install(found[0])

    return install_plugin_of


def lay_out(plugin: Plugin, site: Path) -> tuple[str, list[str]]:
    """Write a plugin into a folder of installed packages; its id and the names of its modules."""
    project = tomllib.loads(plugin.files["pyproject.toml"])["project"]
    metadata = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    requirements = [f"Requires-Dist: {line}" for line in project["dependencies"]]
    head = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    (metadata / "METADATA").write_text("\n".join([*head, *requirements]) + "\n", encoding="utf-8")
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items())
        for group, names in project["entry-points"].items()
    )
    (metadata / "entry_points.txt").write_text(points, encoding="utf-8")
    sources = {name: text for name, text in plugin.files.items() if name.endswith(".py")}
    for name, text in sources.items():
        (site / name).write_text(text, encoding="utf-8")
    plugin_id = next(iter(next(iter(project["entry-points"].values()))))
    return plugin_id, [name.removesuffix(".py") for name in sources]
