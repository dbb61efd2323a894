"""What the public modules offer, and what importing them costs (design 2, 4)."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from types import ModuleType

import pytest

PUBLIC = (
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
    "hermitcrab.messages",
    "hermitcrab.models",
    "hermitcrab.sessions",
    "hermitcrab.testing",
)
#: What every module that is read at start-up must leave alone.
HEAVY = {"httpx", "tiktoken", "sqlite3", "numpy", "rich", "click", "lancedb", "chromadb"}


def _visible(module):
    """The names that a reader of ``module`` sees; imports from elsewhere and submodules do not count."""
    if "__dir__" in vars(module):
        return set(dir(module))
    values = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return {
        name
        for name, value in values.items()
        if not isinstance(value, ModuleType)
        and str(getattr(value, "__module__", "hermitcrab")).startswith("hermitcrab")
    }


def test_the_names_of_the_design_are_there():
    expected = {
        "hermitcrab": "Host load_config hookimpl register_context_engine __version__",
        "hermitcrab.context": "ContextEngine ContextEngineInfo EngineContext BootstrapResult IngestResult"
        " AssembleResult CompactResult RegistrationResult delegate_compaction",
        "hermitcrab.compaction": "CompactionProvider SummaryRequest SummaryWriter",
        "hermitcrab.memory": "MemoryBackend SearchResult Hit EmbeddingProvider files",
        "hermitcrab.models": "ChatModel ChatRequest",
        "hermitcrab.messages": "user assistant tool_result from_openai to_openai from_anthropic to_anthropic",
        "hermitcrab.sessions": "InboundMessage",
        "hermitcrab.testing": "ContextEngineContract EmbeddingProviderContract MemoryBackendContract"
        " HashedEmbeddings JsonLongTermStore MemoryHome",
    }
    for module, names in expected.items():
        assert set(names.split()) <= set(importlib.import_module(module).__all__), module


@pytest.mark.parametrize("name", PUBLIC)
def test_all_and_the_visible_names_are_equal(name):
    module = importlib.import_module(name)
    assert set(module.__all__) == _visible(module)
    assert len(module.__all__) == len(set(module.__all__))


@pytest.mark.parametrize("name", [each for each in PUBLIC if each != "hermitcrab.testing"])
def test_importing_a_public_module_is_cheap(name):
    code = f"import json, sys, {name}; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert HEAVY & set(json.loads(result.stdout)) == set()


def test_importing_hermitcrab_imports_no_plugin():
    code = (
        "import sys, hermitcrab.hooks, hermitcrab.context, hermitcrab.memory; print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {each.partition(".")[0] for each in result.stdout.split()}
    assert {each for each in loaded if each.startswith("hermitcrab_")} == set()
