"""Contract tests and helpers for the authors of plugins. Needs pytest and pytest-asyncio.

Subclass a contract and say how to make the thing to test::

    from hermitcrab.testing import ContextEngineContract

    class TestMyEngine(ContextEngineContract):
        def make_engine(self):
            return MyEngine()

The fixture ``hermit``, a :class:`Hermit`, is there in every environment with hermitcrab and pytest-asyncio.
"""

from __future__ import annotations

try:
    import pytest
    import pytest_asyncio  # noqa: F401 - the contracts need it; better to say so here than in each test
except ImportError as error:
    raise ImportError(
        "hermitcrab.testing needs pytest and pytest-asyncio. Run pip install pytest pytest-asyncio"
    ) from error

pytest.register_assert_rewrite(
    "hermitcrab.testing.chat_models",
    "hermitcrab.testing.compaction_providers",
    "hermitcrab.testing.context_engines",
    "hermitcrab.testing.embedding_providers",
    "hermitcrab.testing.long_term_stores",
    "hermitcrab.testing.memory_backends",
    "hermitcrab.testing.memory_finding",
    "hermitcrab.testing.memory_homes",
    "hermitcrab.testing.memory_upkeep",
)

from hermitcrab.testing.chat_models import ChatModelContract  # noqa: E402
from hermitcrab.testing.compaction_providers import CompactionProviderContract  # noqa: E402
from hermitcrab.testing.context_engines import ContextEngineContract  # noqa: E402
from hermitcrab.testing.conversations import (  # noqa: E402
    chinese_conversation,
    long_conversation,
    plain_conversation,
    tool_conversation,
    wire_problems,
)
from hermitcrab.testing.embedding_providers import EmbeddingProviderContract  # noqa: E402
from hermitcrab.testing.hashed_embeddings import HashedEmbeddings  # noqa: E402
from hermitcrab.testing.hosts import (  # noqa: E402
    Hermit,
    ScriptedModel,
    SteppingClock,
    calling,
    plugin_of,
)
from hermitcrab.testing.json_stores import JsonLongTermStore  # noqa: E402
from hermitcrab.testing.memory_backends import MemoryBackendContract  # noqa: E402
from hermitcrab.testing.memory_homes import MemoryHome  # noqa: E402
from hermitcrab.testing.runtimes import RecordingCompactionRuntime, engine_context  # noqa: E402

__all__ = [
    "ChatModelContract",
    "CompactionProviderContract",
    "ContextEngineContract",
    "EmbeddingProviderContract",
    "HashedEmbeddings",
    "Hermit",
    "JsonLongTermStore",
    "MemoryBackendContract",
    "MemoryHome",
    "RecordingCompactionRuntime",
    "ScriptedModel",
    "SteppingClock",
    "calling",
    "chinese_conversation",
    "engine_context",
    "long_conversation",
    "plain_conversation",
    "plugin_of",
    "tool_conversation",
    "wire_problems",
]
