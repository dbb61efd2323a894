"""The public interface as text: every public name with its signature."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASELINE = Path(__file__).with_name("interface.json")

#: The public modules (design 4).
MODULES = (
    "hermitcrab",
    "hermitcrab.agent",
    "hermitcrab.compaction",
    "hermitcrab.context",
    "hermitcrab.errors",
    "hermitcrab.hooks",
    "hermitcrab.memory",
    "hermitcrab.memory.files",
    "hermitcrab.memory.longterm",
    "hermitcrab.memory.ranking",
    "hermitcrab.memory.transcripts",
    "hermitcrab.messages",
    "hermitcrab.models",
    "hermitcrab.sessions",
    "hermitcrab.testing",
)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def describe(value: Any) -> list[str]:
    """The signature of a public value, one line for each part that somebody may rely on."""
    if inspect.isclass(value):
        return [_signature(value), *_members(value)]
    return [_signature(value)] if callable(value) else [type(value).__name__]


def _members(cls: type) -> list[str]:
    """The public attributes and methods that a class has from hermitcrab."""
    lines = []
    for name in sorted(dir(cls)):
        if name.startswith(("_", "test_")):
            continue
        value = inspect.getattr_static(cls, name)
        inner = getattr(value, "__func__", value)
        if inspect.isfunction(inner):
            kind = "async " if inspect.iscoroutinefunction(inner) else ""
            lines.append(f"  {kind}{name}{_signature(inner)}")
        else:
            lines.append(f"  {name}")
    return lines


def _signature(value: Any) -> str:
    try:
        return _ADDRESS.sub("", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(...)"


def read_interface() -> dict[str, list[str]]:
    """Every public name, ``module.name``, with its description."""
    found: dict[str, list[str]] = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, ModuleType):
                found[f"{module_name}.{name}"] = describe(value)
    return found


@pytest.fixture(scope="session")
def interface() -> dict[str, list[str]]:
    return read_interface()


@pytest.fixture(scope="session")
def baseline() -> dict[str, list[str]]:
    """The interface as it was when the changelog was last complete."""
    loaded: dict[str, list[str]] = json.loads(BASELINE.read_text(encoding="utf-8"))
    return loaded


@pytest.fixture(scope="session")
def unreleased() -> str:
    """The changelog of what is not released yet."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.split("## [Unreleased]", 1)[1].split("\n## [", 1)[0]


if __name__ == "__main__":
    BASELINE.write_text(
        json.dumps(read_interface(), indent=1, ensure_ascii=False, sort_keys=True) + "\n",
        encoding="utf-8",
    )
