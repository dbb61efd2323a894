"""A real Chroma server on loopback, one for all tests."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest


class ChromaServer:
    """A server process that can be killed and started again on the same port and folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("chroma")),
                "run",
                "--path",
                str(self.folder),
                "--host",
                "127.0.0.1",
                "--port",
                str(self.port),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        end = time.monotonic() + 60
        while not self._answers():
            assert self._process.poll() is None, "the Chroma server ended"
            assert time.monotonic() < end, "the Chroma server does not start"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it without any chance to put things in order."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def _answers(self) -> bool:
        url = f"http://127.0.0.1:{self.port}/api/v2/heartbeat"
        try:
            with urllib.request.urlopen(url, timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """A server that no test kills."""
    server = ChromaServer(tmp_path_factory.mktemp("chroma-server"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def mortal_server(tmp_path: Path) -> Iterator[ChromaServer]:
    """A server of this test alone, not started yet."""
    server = ChromaServer(tmp_path / "chroma-server")
    yield server
    server.stop()
