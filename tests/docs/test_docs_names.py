"""What the pages name is there: commands, keys of the configuration, public names, files of the project."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from hermitcrab.cli.root import program
from hermitcrab.config.reference import key_rows

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
KEY = re.compile(r"(agents|memory|models|plugins|session)(\.[\w\[\]]+|\.<[\w-]+>)+")


def inline_code(page: Path) -> list[str]:
    """What stands in backticks outside of code blocks."""
    return INLINE.findall(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL))


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_a_page_names_exists(page):
    for text in inline_code(page):
        words = [word for word in text.split() if not word.startswith("-")]
        if words[:1] == ["hermitcrab"] and words[1:2] != ["NAME"] and words[1:2] != ["COMMAND"]:
            assert command_exists(words[1:]), text


def command_exists(words: list[str]) -> bool:
    command: click.Command | None = program
    for word in words:
        if not isinstance(command, click.Group):
            return True
        command = command.get_command(click.Context(command), word)
    return command is not None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_key_that_a_page_names_is_one(page):
    known = [re.sub(r"<[\w-]+>", "<>", row.path) for row in key_rows()]
    sections = {path[: match.start()] for path in known for match in re.finditer(r"\.", path)}
    for text in inline_code(page):
        path = re.sub(r"<[\w-]+>", "<>", text.partition(":")[0])
        if KEY.fullmatch(text.partition(":")[0]) and not path.endswith((".md", ".py")):
            assert path in {*known, *sections}, text


def test_examples_import_public_names_only(block):
    if block.language != "python":
        return
    for module, name in imports_of(block.text):
        assert name in import_module(module).__all__, f"{module}.{name} is private"


def imports_of(source: str) -> Iterator[tuple[str, str]]:
    """What a source imports from hermitcrab: modules and names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hermitcrab":
            yield from ((node.module or "", alias.name) for alias in node.names)


def test_a_command_that_does_not_exist_is_noticed():
    assert command_exists(["plugins", "doctor"])
    assert not command_exists(["plugins", "dance"])
    assert not command_exists(["dance"])


def test_the_pages_name_keys_and_commands():
    texts = [text for page in PAGES for text in inline_code(page)]
    assert len([text for text in texts if KEY.fullmatch(text)]) > 50
    assert len([text for text in texts if text.startswith("hermitcrab ")]) > 15
