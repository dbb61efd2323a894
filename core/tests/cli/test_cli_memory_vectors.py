"""``hermitcrab memory index`` and ``status`` where an embedding provider makes vectors."""

from __future__ import annotations

import pytest

from hermitcrab.cli.memory_details import cost_note, detail_fields

PROVIDER = """
from hermitcrab import hookimpl
from hermitcrab.memory import EmbeddingProvider

class Tide(EmbeddingProvider):
    id, dims, remote = "tide", 3, True
    def __init__(self, context):
        self.model = context.model or "low"
    async def embed_documents(self, texts):
        return [[1.0, 0.0, float(len(text))] for text in texts]
    async def embed_query(self, text):
        return [1.0, 0.0, 0.0]
    def fingerprint(self):
        return self.model

@hookimpl
def register_embedding_providers(registry):
    registry.register("tide", Tide)
"""

SETTINGS = "agents: {{defaults: {{memorySearch: {{provider: tide, model: {model}}}}}}}\n"


@pytest.fixture
def tide(cli, distribution):
    distribution("hermitcrab-tide", {"hermitcrab.plugins": "tide = hermitcrab_tide"}, PROVIDER)
    cli.configure(SETTINGS.format(model="low"))
    notes = cli.home / "workspace" / "MEMORY.md"
    notes.parent.mkdir(parents=True, exist_ok=True)
    notes.write_text("- The harbour code is 4711.\n\n- Ask Brennick.\n", encoding="utf-8")
    return cli


def test_index_says_how_many_texts_were_embedded(tide):
    report = tide.json("memory", "index")
    assert (report["embedded"], report["problem"]) == (2, None)
    assert tide.json("memory", "search", "harbour")["mode"] == "hybrid"


def test_another_remote_model_is_paid_for_only_when_that_is_asked_for(tide):
    """#83333: a silent rebuild cost money."""
    tide("memory", "index")
    tide.configure(SETTINGS.format(model="high"))
    paused = tide("memory", "index")
    assert "2 texts, about" in paused.stderr
    assert "hermitcrab memory index --force" in paused.stderr
    found = tide.json("memory", "search", "harbour")
    assert (found["mode"], found["degraded"]) == ("keyword", True)
    status = tide.json("memory", "status")
    assert status["details"]["indexIdentity"]["status"] == "mismatched"
    assert "status mismatched" in tide("memory", "status").stdout
    forced = tide("memory", "index", "--force")
    assert "tide/high is asked for the vectors of 2 texts" in forced.stderr
    assert "2 texts embedded" in forced.stdout
    assert tide.json("memory", "search", "harbour")["mode"] == "hybrid"


def test_details_become_lines_and_what_stands_elsewhere_is_left_out():
    details = {"provider": "x", "vector": {"available": True, "bytes": 1024}, "extraPaths": []}
    assert list(detail_fields(details)) == [("vector", "available yes, bytes 1,024")]
    assert cost_note(details) is None
