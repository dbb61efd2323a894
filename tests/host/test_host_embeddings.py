"""The embedding provider on its way from config and plugins to the memory backend, and to its end (memory 5)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hermitcrab import hookimpl
from hermitcrab.memory import EmbeddingProvider, MemoryBackend, MemoryStatus, SearchResult

SEARCH = {"agents": {"defaults": {"memorySearch": {"provider": "shell"}}}}


class Shell(EmbeddingProvider):
    id, model, dims = "shell", "pearl", 2

    def __init__(self, context, events):
        self.context, self.events = context, events

    async def embed_documents(self, texts):
        return [[3.0, 4.0] for _ in texts]

    async def embed_query(self, text):
        return [3.0, 4.0]

    def fingerprint(self):
        return "shell"

    async def close(self):
        self.events.append("provider closed")


class Notebook(MemoryBackend):
    def __init__(self, context, events):
        self.context, self.events = context, events

    async def search(self, query, **options):
        return SearchResult()

    async def read(self, path, **options):
        raise NotImplementedError

    async def sync(self, reason, **options):
        raise NotImplementedError

    async def status(self):
        return MemoryStatus(backend="notebook")

    async def close(self):
        self.events.append("backend closed")


@pytest.fixture
def events():
    return []


@pytest.fixture
def parts(crab, events):
    """A plugin with an embedding provider, and one with a backend that remembers what it was given."""

    @hookimpl
    def register_embedding_providers(registry):
        registry.register("shell", lambda context: Shell(context, events))

    @hookimpl
    def register_memory_backends(registry):
        registry.register("notebook", lambda context: Notebook(context, events))

    return [
        ("shells", crab.plugin(register_embedding_providers)),
        ("notebook", crab.plugin(register_memory_backends)),
    ]


def with_notebook(config):
    return {**config, "plugins": {"slots": {"memory": "notebook"}}}


async def test_the_backend_gets_the_provider_that_config_names(open_host, parts, home, events):
    config = with_notebook(SEARCH)
    async with open_host(config=config, plugins=parts, environ={"SHELL_KEY": "k"}) as host:
        given = host.memory.context
        assert given.embeddings_problem is None
        assert (given.embeddings.id, given.embeddings.dims) == ("shell", 2)
        assert await given.embeddings.embed_query("tide") == [0.6, 0.8]
        made = (await host.agent()).embeddings
        assert made.provider is given.embeddings
        inner = vars(made.provider)["_provider"].context
        assert (inner.agent_id, inner.home, inner.environ["SHELL_KEY"]) == ("main", home, "k")
        assert events == []
    assert events == ["backend closed", "provider closed"]


async def test_where_there_is_none_the_backend_is_told_why(open_host, parts):
    config = {"agents": {"defaults": {"memorySearch": {"provider": "shel"}}}}
    async with open_host(config=with_notebook(config), plugins=parts) as host:
        given = host.memory.context
    assert given.embeddings is None
    assert "Did you mean shell?" in given.embeddings_problem


async def test_where_none_is_wanted_there_is_no_problem(open_host, parts):
    config = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}
    async with open_host(config=with_notebook(config), plugins=parts) as host:
        given = host.memory.context
    assert (given.embeddings, given.embeddings_problem) == (None, None)


async def test_the_provider_is_closed_even_if_the_backend_cannot_be_made(open_host, crab, events):
    @hookimpl
    def register_embedding_providers(registry):
        registry.register("shell", lambda context: Shell(context, events))

    @hookimpl
    def register_memory_backends(registry):
        registry.register("notebook", lambda context: 1 / 0)

    plugins = [("both", crab.plugin(register_embedding_providers, register_memory_backends))]
    async with open_host(config=with_notebook(SEARCH), plugins=plugins) as host:
        assert "division by zero" in (await host.agent()).memory_failure
    assert events == ["provider closed"]


async def test_without_memory_nobody_makes_a_provider(open_host, parts, events):
    config = {**SEARCH, "plugins": {"slots": {"memory": "none"}}}
    async with open_host(config=config, plugins=parts) as host:
        assert (await host.agent()).embeddings.provider is None
    assert events == []


async def test_each_agent_has_a_provider_of_its_own(open_host, parts):
    async with open_host(config=with_notebook(SEARCH), plugins=parts) as host:
        other = await host.agent("ops")
        assert other.embeddings.provider is not (await host.agent()).embeddings.provider
        assert vars(other.embeddings.provider)["_provider"].context.agent_id == "ops"


def test_a_host_with_a_remote_provider_starts_without_its_library_and_without_a_connection(home):
    code = f"""
import asyncio, json, sys
from hermitcrab import Host
from hermitcrab.config import config_from

document = {{"agents": {{"defaults": {{"memorySearch": {{"provider": "openai"}}}}}}}}

async def main():
    environ = {{"OPENAI_API_KEY": "k"}}
    config = config_from(document, environ=environ)
    async with Host.open(home={str(home)!r}, config=config, environ=environ) as host:
        provider = (await host.agent()).embeddings.provider
        return provider.id, [name for name in ("httpx", "tenacity") if name in sys.modules]

print(json.dumps(asyncio.run(main())))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["openai", []]
