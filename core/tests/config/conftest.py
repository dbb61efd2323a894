"""Fixtures for the tests of configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from hermitcrab.config import Config, load_config
from hermitcrab.errors import ConfigError


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Config]:
    """Write text into a home's config.yaml and load it; keywords are the environment."""

    def load(text: str | bytes, **environ: str) -> Config:
        content = dedent(text).encode() if isinstance(text, str) else text
        (tmp_path / "config.yaml").write_bytes(content)
        return load_config(home=tmp_path, environ=environ)

    return load


@pytest.fixture
def complaint(load: Callable[..., Config]) -> Callable[..., str]:
    """The text of the error that loading ends with."""

    def complaint(text: str | bytes, **environ: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load(text, **environ)
        return str(caught.value)

    return complaint
