"""What ``hermitcrab memory status`` says of the embedding provider (memory 2.3, 6.7)."""

from __future__ import annotations

import pytest

PROVIDER = """
from hermitcrab import hookimpl
from hermitcrab.errors import EmbeddingError
from hermitcrab.memory import EmbeddingProvider

class Shell(EmbeddingProvider):
    id, model, dims, remote = "shell", "pearl", 0, True
    def __init__(self, context):
        self.works = context.model != "broken"
    async def embed_documents(self, texts):
        if not self.works:
            raise EmbeddingError("the tide is out", kind="transient", hint="Wait for it")
        return [[1.0, 0.0, 0.0] for _ in texts]
    async def embed_query(self, text):
        return (await self.embed_documents([text]))[0]
    def fingerprint(self):
        return "shell"

@hookimpl
def register_embedding_providers(registry):
    registry.register("shell", Shell)
"""


def settings(**search: str) -> str:
    lines = "".join(f"\n      {key}: {value}" for key, value in search.items())
    return f"agents:\n  defaults:\n    memorySearch:{lines}\n"


@pytest.fixture
def shell(cli, distribution):
    distribution("hermitcrab-shell", {"hermitcrab.plugins": "shell = hermitcrab_shell"}, PROVIDER)
    cli.configure(settings(provider="shell"))
    return cli


def test_status_shows_provider_and_model_and_asks_nobody(shell):
    found = shell.json("memory", "status")["embeddings"]
    assert (found["requestedProvider"], found["provider"], found["model"]) == ("shell", "shell", "pearl")  # fmt: skip
    assert (found["dims"], found["remote"], found["problem"]) == (None, True, None)
    assert found["batch"] == {"enabled": False}
    assert "probe" not in found
    assert "shell/pearl, size not known yet, on another machine" in shell("memory", "status").stdout


def test_deep_asks_for_a_vector_and_shows_what_it_found_out(shell):
    found = shell.json("memory", "status", "--deep")["embeddings"]
    assert found["probe"] == {"ok": True, "error": None}
    assert found["dims"] == 3
    text = shell("memory", "status", "--deep").stdout
    assert "shell/pearl, 3 numbers" in text


def test_deep_says_why_it_does_not_work(shell):
    shell.configure(settings(provider="shell", model="broken"))
    probe = shell.json("memory", "status", "--deep")["embeddings"]["probe"]
    assert probe == {"ok": False, "error": "the tide is out. Wait for it"}
    assert "failed: the tide is out" in shell("memory", "status", "--deep").stdout


def test_status_says_why_there_is_no_provider(cli):
    cli.configure(settings(provider="voyage"))
    found = cli.json("memory", "status", "--deep")["embeddings"]
    assert found["provider"] == "none"
    assert "VOYAGE_API_KEY" in found["problem"]
    assert found["probe"] == {"ok": False, "error": found["problem"]}
    result = cli("memory", "status")
    assert "none (asked for: voyage)" in result.stdout
    assert "VOYAGE_API_KEY" in result.stderr


def test_status_says_that_the_fallback_took_over(shell):
    shell.configure(settings(provider="voyage", fallback="shell"))
    found = shell.json("memory", "status")["embeddings"]
    assert (found["requestedProvider"], found["provider"]) == ("voyage", "shell")
    assert "shell takes its place" in found["notes"][0]
    assert "shell takes its place" in shell("memory", "status").stderr


def test_without_a_wish_for_vectors_nothing_is_wrong(cli):
    cli.configure(settings(provider="none"))
    found = cli.json("memory", "status", "--deep")["embeddings"]
    assert (found["provider"], found["problem"]) == ("none", None)
    assert found["probe"]["error"] == "no embedding provider is wanted"


def test_the_doctor_names_a_provider_that_cannot_be_used(cli):
    cli.configure(settings(provider="voyage"))
    cli("memory", "status")
    found = cli.json("doctor", code=0)["findings"]
    (finding,) = [each for each in found if each["subject"] == "memory of agent main"]
    assert finding["level"] == "warning"
    assert "VOYAGE_API_KEY" in finding["message"]
