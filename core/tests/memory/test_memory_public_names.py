"""What ``hermitcrab.memory`` offers, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hermitcrab.memory


def test_public_names_resolve():
    for name in hermitcrab.memory.__all__:
        assert getattr(hermitcrab.memory, name) is not None
    assert dir(hermitcrab.memory) == sorted(hermitcrab.memory.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing"):
        hermitcrab.memory.nothing  # noqa: B018


def test_importing_memory_loads_no_heavy_library():
    code = (
        "import sys, hermitcrab.memory.flush, hermitcrab.memory.tools, hermitcrab.memory.files;"
        "print([m for m in ('sqlite3','httpx','tiktoken','filelock','numpy') if m in sys.modules])"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "[]"
