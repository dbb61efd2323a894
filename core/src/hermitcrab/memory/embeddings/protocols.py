"""The protocols of embedding servers: what is sent, and where the vectors stand in the answer (memory 5.3). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

Purpose = Literal["query", "document"]


@frozen(kw_only=True)
class Question:
    """What vectors are wanted for.

    :param input_type: what the provider is told of the texts, where config says so.
    :param dimensions: how many numbers a vector is to have; ``None`` is the model's default.
    """

    model: str
    purpose: Purpose
    input_type: str | None = None
    dimensions: int | None = None


@frozen(kw_only=True)
class Protocol:
    """One way to ask a server for vectors.

    ``request`` makes the path below the server's address and the JSON body; ``vectors`` finds the vectors in an
    answer and raises LookupError, TypeError or ValueError if it has none; ``credentials`` makes the header of a key.
    """

    request: Callable[[Question, Sequence[str]], tuple[str, dict[str, Any]]]
    vectors: Callable[[Any], list[Any]]
    credentials: Callable[[str], dict[str, str]]


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _openai_request(question: Question, texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
    return "/embeddings", _given(
        model=question.model,
        input=list(texts),
        dimensions=question.dimensions,
        input_type=question.input_type,
    )


def _voyage_request(question: Question, texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
    return "/embeddings", _given(
        model=question.model,
        input=list(texts),
        input_type=question.input_type or question.purpose,
        output_dimension=question.dimensions,
    )


def _mistral_request(question: Question, texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
    return "/embeddings", _given(
        model=question.model, input=list(texts), output_dimension=question.dimensions
    )


def _data_vectors(payload: Any) -> list[Any]:
    """The vectors of ``data``, in the order of its indexes: the order of the list is not promised."""
    items = payload["data"]
    numbered = all(isinstance(item.get("index"), int) for item in items)
    if numbered and sorted(item["index"] for item in items) != list(range(len(items))):
        raise ValueError("the indexes do not count the texts")
    ordered = sorted(items, key=lambda item: item["index"]) if numbered else items
    return [item["embedding"] for item in ordered]


_GEMINI_TASKS: Mapping[Purpose, str] = {
    "query": "RETRIEVAL_QUERY",
    "document": "RETRIEVAL_DOCUMENT",
}


def _gemini_request(question: Question, texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
    name = f"models/{question.model}"
    requests = [
        _given(
            model=name,
            content={"parts": [{"text": text}]},
            taskType=question.input_type or _GEMINI_TASKS[question.purpose],
            outputDimensionality=question.dimensions,
        )
        for text in texts
    ]
    return f"/{name}:batchEmbedContents", {"requests": requests}


def _gemini_vectors(payload: Any) -> list[Any]:
    return [item["values"] for item in payload["embeddings"]]


#: What some models want to read before a text, since their server has no field for it.
_PREFIXES: Mapping[str, Mapping[Purpose, str]] = {
    "nomic-embed-text": {"query": "search_query: ", "document": "search_document: "},
}


def _ollama_request(question: Question, texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
    name = question.model.partition(":")[0]
    prefix = question.input_type or _PREFIXES.get(name, {}).get(question.purpose, "")
    return "/api/embed", _given(
        model=question.model,
        input=[prefix + text for text in texts],
        dimensions=question.dimensions,
    )


def _ollama_vectors(payload: Any) -> list[Any]:
    return list(payload["embeddings"])


OPENAI = Protocol(request=_openai_request, vectors=_data_vectors, credentials=_bearer)
VOYAGE = Protocol(request=_voyage_request, vectors=_data_vectors, credentials=_bearer)
MISTRAL = Protocol(request=_mistral_request, vectors=_data_vectors, credentials=_bearer)
GEMINI = Protocol(
    request=_gemini_request,
    vectors=_gemini_vectors,
    credentials=lambda key: {"x-goog-api-key": key},
)
OLLAMA = Protocol(request=_ollama_request, vectors=_ollama_vectors, credentials=_bearer)
