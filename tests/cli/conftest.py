"""``hermitcrab`` as a process of its own, with distributions made up on the spot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen


@frozen
class Process:
    """Starts the program with a home and with made-up distributions on its path."""

    home: Path
    site: Path
    paths: list[Path] = field(factory=list)

    def distribution(self, name: str, entry_points: dict[str, str], source: str) -> None:
        """Make a distribution with one module importable."""
        folder = self.site / name
        module = name.replace("-", "_")
        info = folder / f"{module}-1.2.dist-info"
        info.mkdir(parents=True)
        (folder / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        groups = [f"[{group}]\n{line}\n" for group, line in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
        self.paths.append(folder)

    @property
    def environ(self) -> dict[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("HERMITCRAB")
        }
        return inherited | {
            "HERMITCRAB_HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(map(str, self.paths)),
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, *args: str, code: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "hermitcrab", *args],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **more,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def start(self, *args: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "hermitcrab", *args], env=self.environ, text=True, **more
        )

    def messages(self) -> list[dict[str, Any]]:
        """The messages of the session ``main``."""
        (file,) = (self.home / "agents" / "main" / "sessions").glob("*.jsonl")
        entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return [entry["message"] for entry in entries if entry["type"] == "message"]


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path / "home", tmp_path / "site")


#: Says one word and then takes forever.
_SLOW_MODEL = """
import asyncio
from hermitcrab import hookimpl
from hermitcrab.models import ChatModel, TextDelta

class Slow(ChatModel):
    id = "slow/one"

    async def complete(self, request):
        raise NotImplementedError

    async def stream(self, request):
        yield TextDelta("Once\\n")
        await asyncio.sleep(300)

    async def context_window(self):
        return 32000

@hookimpl
def register_model_providers(registry):
    registry.register("slow", lambda provider_id, model, config: Slow())
"""


@pytest.fixture
def slow_model(process: Process) -> Process:
    process.distribution("slow-model", {"hermitcrab.plugins": "slow = slow_model"}, _SLOW_MODEL)
    return process
