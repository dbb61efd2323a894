from __future__ import annotations

from typing import Any

import pytest

from hermitcrab.models import OpenAICompatibleModel


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"id": "tiny", "context_length": 8192}, 8192),
        ({"id": "tiny", "max_model_len": 4096}, 4096),
        ({"id": "/models/only-one.gguf", "context_length": 2048}, 2048),
    ],
)
async def test_the_window_that_the_model_list_tells(
    server: Any, model: OpenAICompatibleModel, entry: Any, window: int
) -> None:
    server.answer({"data": [entry]})
    assert await model.context_window() == window
    assert await model.context_window() == window
    assert [sent.path for sent in server.received] == ["/v1/models"]


async def test_the_served_window_of_llama_cpp_goes_before_the_trained_one(
    server: Any, model: OpenAICompatibleModel
) -> None:
    server.answer({"data": [{"id": "tiny", "meta": {"n_ctx_train": 32768}}]})
    server.answer({"default_generation_settings": {"n_ctx": 2048}})
    assert await model.context_window() == 2048
    assert server.received[1].path == "/props"


async def test_the_trained_window_is_better_than_nothing(
    server: Any, model: OpenAICompatibleModel
) -> None:
    server.answer({"data": [{"id": "tiny", "meta": {"n_ctx_train": 32768}}]})
    assert await model.context_window() == 32768


@pytest.mark.parametrize(
    "body", ["not json", [], {"data": [{"id": "tiny", "context_length": "x"}]}]
)
async def test_a_server_that_knows_no_window(
    server: Any, model: OpenAICompatibleModel, body: Any
) -> None:
    server.answer(body)
    assert await model.context_window() is None


async def test_a_window_that_is_given_is_not_asked_for(server: Any) -> None:
    model = OpenAICompatibleModel("lab", "tiny", server.url, context_window=1000)
    assert await model.context_window() == 1000
    assert server.received == []
