"""What may stand in the configuration, and what importing the plugin costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.errors import ConfigError
from hermitcrab.plugins.plugin_config import read_plugin_config
from hermitcrab_memory_chroma.settings import ChromaConfig

PATH = "plugins.entries.memory-chroma.config"


def read(**config: Any) -> ChromaConfig:
    settings = read_plugin_config("memory-chroma", config, ChromaConfig)
    assert isinstance(settings, ChromaConfig)
    return settings


def test_the_default_is_a_folder_below_the_home() -> None:
    settings = read()
    assert settings.mode == "embedded"
    assert settings.folder(Path("/h")) == Path("/h/memory/chroma")
    assert not settings.share_files


def test_a_server_needs_nothing_but_the_mode() -> None:
    assert read(mode="server").address == "http://localhost:8000"
    full = read(mode="server", host="chroma.lan", port=8443, ssl=True, headers={"X-Token": "t"})
    assert full.address == "https://chroma.lan:8443"
    assert "X-Token" not in repr(full)


def test_the_settings_of_recall_and_capture_are_there_too() -> None:
    assert read(autoCapture=True, recallResultCap=5).auto_capture


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"host": "chroma.lan"}, "host"),
        ({"port": 8000}, "port"),
        ({"ssl": True}, "ssl"),
        ({"headers": {"a": "b"}}, "headers"),
        ({"tenant": "t"}, "tenant"),
        ({"database": "d"}, "database"),
        ({"shareFiles": True}, "shareFiles"),
        ({"mode": "server", "path": "/data"}, "path"),
        ({"mode": "server", "host": "http://chroma.lan"}, "host"),
        ({"mode": "server", "port": 0}, "port"),
        ({"mode": "server", "port": 70_000}, "port"),
        ({"mode": "server", "headers": {"a b": "c"}}, "headers"),
        ({"mode": "server", "headers": {"a": "c\r\nd: e"}}, "header"),
        ({"mode": "cloud"}, "mode"),
        ({"collectionPrefix": "a/b"}, "collectionPrefix"),
        ({"collectionPrefix": ""}, "collectionPrefix"),
        ({"timeoutSeconds": 0}, "timeoutSeconds"),
        ({"connectTimeoutSeconds": "3"}, "connectTimeoutSeconds"),
        ({"hots": "x"}, "hots"),
    ],
)
def test_a_bad_combination_is_refused_by_the_path_of_its_key(
    config: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(**config)
    assert f"{PATH}" in str(refused.value)
    assert key in str(refused.value)


def test_a_refusal_does_not_repeat_a_header() -> None:
    with pytest.raises(ConfigError) as refused:
        read(mode="embedded", headers={"Authorization": "Bearer very-secret"})
    assert "very-secret" not in str(refused.value)


def test_importing_the_plugin_loads_nothing_heavy() -> None:
    """C101: chromadb takes most of a second."""
    code = (
        "import hermitcrab_memory_chroma as plugin, sys;"
        "plugin.config_class();"
        "import hermitcrab_memory_chroma.backend;"
        "print([name for name in ('chromadb', 'numpy', 'httpx', 'sqlite3') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
