"""The contract of memory backends, for a Chroma in a folder and for one on a server."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from hermitcrab.memory import MemoryBackend, MemoryContext
from hermitcrab.testing import MemoryBackendContract
from hermitcrab_memory_chroma.backend import MemoryChroma
from hermitcrab_memory_chroma.names import digest
from hermitcrab_memory_chroma.settings import ChromaConfig


class TestEmbeddedChroma(MemoryBackendContract):
    def make_backend(self, context: MemoryContext) -> MemoryBackend:
        return MemoryChroma(context)


class TestChromaServer(MemoryBackendContract):
    @pytest.fixture(autouse=True)
    def _server(self, chroma_server: Any) -> None:
        self._port = chroma_server.port

    def make_backend(self, context: MemoryContext) -> MemoryBackend:
        config = ChromaConfig(
            mode="server",
            host="127.0.0.1",
            port=self._port,
            collection_prefix=f"test-{digest(str(context.home))}",
        )
        return MemoryChroma(evolve(context, plugin_config=config))
