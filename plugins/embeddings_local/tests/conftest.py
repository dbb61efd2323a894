"""Local embeddings in a process that may not use the network."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from hermitcrab_embeddings_local.provider import LocalEmbeddings


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every connection and every look-up of a name is refused, and fails the test that tried it."""
    attempts: list[str] = []

    def refuse(*arguments: Any, **_: Any) -> Any:
        attempts.append(repr(arguments))
        raise OSError("no network in these tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    yield
    assert attempts == []


@pytest.fixture(scope="session")
def loaded() -> dict[str, LocalEmbeddings]:
    """One provider for each model, so that the weights are read once."""
    return {name: LocalEmbeddings(model=name) for name in ("by-script", "static", "multilingual")}


@pytest.fixture
def local(loaded: dict[str, LocalEmbeddings]) -> LocalEmbeddings:
    """The provider with its default model."""
    return loaded["by-script"]
