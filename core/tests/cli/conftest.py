"""The command line in this process, in a home of its own, with distributions made up on the spot."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from click.testing import CliRunner, Result

from hermitcrab.cli.root import program

#: Makes a distribution importable: its name, its entry points by group, and the source of its one module.
MakeDistribution = Callable[[str, dict[str, str], str], None]


@frozen
class CommandLine:
    """Runs ``hermitcrab`` with a home."""

    home: Path

    def __call__(self, *args: str, stdin: str | None = None, code: int | None = 0) -> Result:
        result = CliRunner().invoke(program, ["--home", str(self.home), *args], input=stdin)
        assert code is None or result.exit_code == code, (
            f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
        )
        assert "Traceback" not in result.stderr
        return result

    def json(self, *args: str, code: int | None = 0) -> Any:
        """What a command prints with ``--json``: nothing but JSON stands on stdout."""
        return json.loads(self(*args, "--json", code=code).stdout)

    def configure(self, text: str) -> Path:
        """Write config.yaml."""
        self.home.mkdir(parents=True, exist_ok=True)
        file = self.home / "config.yaml"
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return file


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.delenv("HERMITCRAB_HOME", raising=False)
    monkeypatch.delenv("HERMITCRAB_PLUGINS", raising=False)
    for provider in ("OPENAI", "GEMINI", "VOYAGE", "MISTRAL"):
        # With a key, memory of the tests would be sent to a provider of embeddings.
        monkeypatch.delenv(f"{provider}_API_KEY", raising=False)
    return CommandLine(tmp_path / "home")


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeDistribution]:
    modules: list[str] = []

    def make(name: str, entry_points: dict[str, str], source: str) -> None:
        folder = tmp_path / "site" / name
        module = name.replace("-", "_")
        info = folder / f"{module}-1.2.dist-info"
        info.mkdir(parents=True)
        (folder / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        groups = [f"[{group}]\n{line}\n" for group, line in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        modules.append(module)

    yield make
    for module in modules:
        sys.modules.pop(module, None)


HEADER = {
    "type": "session",
    "version": 3,
    "id": "recorded",
    "timestamp": "2026-10-05T07:00:00.000Z",
    "cwd": "/",
}


def transcript_lines(turns: int) -> list[str]:
    """A small recording: a header, then a user message and an answer a turn."""
    lines = [json.dumps(HEADER)]
    parent = None
    for turn in range(turns):
        for role, text in (("user", f"Question {turn}?"), ("assistant", f"Answer {turn}.")):
            entry = {
                "type": "message",
                "id": f"{turn:08x}{role[0]}0000000",
                "parentId": parent,
                "timestamp": f"2026-10-05T07:{turn:02}:00.000Z",
                "message": {"role": role, "content": [{"type": "text", "text": text}]},
            }
            parent = entry["id"]
            lines.append(json.dumps(entry))
    return lines


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join(transcript_lines(3)) + "\n", encoding="utf-8")
    return file
