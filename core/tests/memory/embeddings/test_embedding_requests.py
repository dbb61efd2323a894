"""What each provider sends, and how its answer is read (memory 5.1, 5.3)."""

from __future__ import annotations

import math

import pytest

from hermitcrab.errors import EmbeddingError
from hermitcrab.memory.embeddings.builtin import BUILTIN_PROVIDERS, builtin_provider, make_remote

TEXTS = ["der Anker", "锚"]


@pytest.fixture
async def ask(server, context):
    """Asks a provider of the core at the loopback server for the vectors of texts, and of a query."""
    made = []

    async def asked(provider_id, purpose, **values):
        values.setdefault("base_url", server.url)
        values.setdefault("api_key", "k-123456")
        provider = make_remote(builtin_provider(provider_id), context(provider_id, **values))
        made.append(provider)
        if purpose == "query":
            return [await provider.embed_query(TEXTS[0])]
        return await provider.embed_documents(TEXTS)

    yield asked
    for provider in made:
        await provider.close()


def is_unit(vector):
    return math.isclose(math.hypot(*vector), 1.0)


async def test_openai(server, ask):
    vectors = await ask("openai", "document", model="m")
    (request,) = server.received
    assert (request.path, request.body) == ("/v1/embeddings", {"model": "m", "input": TEXTS})
    assert request.headers["authorization"] == "Bearer k-123456"
    assert request.headers["content-type"] == "application/json"
    assert len(vectors) == 2
    assert all(map(is_unit, vectors))


async def test_openai_is_told_of_dimensions_and_input_types_that_config_sets(server, ask):
    """Pitfall 35: dimensions were configured and not sent."""
    options = {"output_dimensionality": 3, "query_input_type": "q", "document_input_type": "d"}
    await ask("openai", "document", **options)
    await ask("openai", "query", **options)
    documents, query = (request.body for request in server.received)
    assert (documents["dimensions"], documents["input_type"]) == (3, "d")
    assert (query["dimensions"], query["input_type"]) == (3, "q")


async def test_vectors_stand_in_the_order_of_their_indexes(server, ask, answers):
    items = answers.data(TEXTS)["data"]
    server.script.append(answers.Answer({"data": items[::-1]}))
    backwards = await ask("openai", "document")
    assert backwards == await ask("openai", "document")


async def test_gemini(server, ask, answers):
    server.respond = lambda received: answers.Answer(
        {"embeddings": [{"values": [3.0, 4.0]} for _ in received.body["requests"]]}
    )
    vectors = await ask("gemini", "document", output_dimensionality=2, model="g")
    await ask("gemini", "query")
    documents, query = server.received
    assert documents.path == "/v1/models/g:batchEmbedContents"
    assert documents.body["requests"] == [
        {
            "model": "models/g",
            "content": {"parts": [{"text": text}]},
            "taskType": "RETRIEVAL_DOCUMENT",
            "outputDimensionality": 2,
        }
        for text in TEXTS
    ]
    assert documents.headers["x-goog-api-key"] == "k-123456"
    assert "authorization" not in documents.headers
    assert query.path == "/v1/models/gemini-embedding-001:batchEmbedContents"
    (question,) = query.body["requests"]
    assert question["taskType"] == "RETRIEVAL_QUERY"
    assert "outputDimensionality" not in question
    assert vectors == [[0.6, 0.8]] * 2


async def test_voyage(server, ask):
    await ask("voyage", "document", output_dimensionality=3)
    await ask("voyage", "query")
    documents, query = (request.body for request in server.received)
    assert documents == {
        "model": "voyage-4-large",
        "input": TEXTS,
        "input_type": "document",
        "output_dimension": 3,
    }
    assert query == {"model": "voyage-4-large", "input": TEXTS[:1], "input_type": "query"}
    assert server.received[0].path == "/v1/embeddings"


async def test_mistral(server, ask):
    await ask("mistral", "document")
    (request,) = server.received
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "mistral-embed", "input": TEXTS}
    assert request.headers["authorization"] == "Bearer k-123456"


async def test_ollama(server, ask, answers):
    server.respond = lambda received: answers.Answer(
        {"embeddings": [[1.0] for _ in received.texts]}
    )
    await ask("ollama", "document", api_key=None, model="bge-m3")
    await ask("ollama", "document")
    await ask("ollama", "query")
    plain, documents, query = server.received
    assert {request.path for request in server.received} == {"/api/embed"}
    assert plain.body == {"model": "bge-m3", "input": TEXTS}
    assert "authorization" not in plain.headers
    # This model wants to read what a text is for.
    assert documents.texts == [f"search_document: {text}" for text in TEXTS]
    assert query.texts == [f"search_query: {TEXTS[0]}"]


@pytest.mark.parametrize("provider", BUILTIN_PROVIDERS, ids=lambda provider: provider.id)
async def test_headers_of_config_are_sent_and_win(provider, server, ask, answers):
    server.respond = lambda received: answers.Answer({}, status=400)
    with pytest.raises(EmbeddingError):
        await ask(provider.id, "query", headers={"X-Team": "crabs", "AUTHORIZATION": "Custom own"})
    headers = server.received[0].headers
    assert headers["x-team"] == "crabs"
    assert headers["authorization"] == "Custom own"


@pytest.mark.parametrize(
    ("provider_id", "model", "name"),
    [
        ("openai", "openai/text-embedding-3-large", "text-embedding-3-large"),
        ("gemini", "models/gemini-embedding-001", "gemini-embedding-001"),
        ("gemini", "google/gemini-embedding-001", "gemini-embedding-001"),
        ("voyage", "voyage/voyage-4", "voyage-4"),
        ("mistral", "mistral/mistral-embed", "mistral-embed"),
    ],
)
def test_the_prefix_of_a_model_goes_unless_a_router_needs_it(context, provider_id, model, name):
    provider = builtin_provider(provider_id)
    own = make_remote(provider, context(provider_id, api_key="k", model=model))
    routed = make_remote(
        provider, context(provider_id, model=model, base_url="https://router.example/v1")
    )
    assert (own.model, routed.model) == (name, model)


@pytest.mark.parametrize(
    ("provider_id", "values", "dims"),
    [
        ("openai", {}, 1536),
        ("openai", {"model": "text-embedding-3-large"}, 3072),
        ("openai", {"output_dimensionality": 256}, 256),
        ("openai", {"model": "unheard-of"}, 0),
        ("openai", {"base_url": "https://elsewhere.example/v1"}, 0),
        ("gemini", {}, 3072),
        ("mistral", {}, 1024),
        ("ollama", {}, 768),
    ],
)
def test_dims_are_known_before_the_first_answer_only_where_they_are_certain(
    context, provider_id, values, dims
):
    provider = make_remote(
        builtin_provider(provider_id), context(provider_id, api_key="k", **values)
    )
    assert provider.dims == dims


@pytest.mark.parametrize(
    ("url", "remote"),
    [
        (None, False),
        ("http://localhost:11434", False),
        ("http://[::1]:11434", False),
        ("http://192.168.1.7:11434", True),
        ("https://gpu.example", True),
    ],
)
def test_a_server_on_this_machine_is_not_remote(context, url, remote):
    provider = make_remote(builtin_provider("ollama"), context("ollama", base_url=url))
    assert provider.remote is remote


def test_the_chat_address_of_ollama_serves_too(server, context):
    provider = builtin_provider("ollama")
    chat = make_remote(provider, context("ollama", base_url="http://127.0.0.1:11434/v1/"))
    assert chat.fingerprint() == make_remote(provider, context("ollama")).fingerprint()
