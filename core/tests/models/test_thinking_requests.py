"""How much a model is asked to think, fast mode, and thinking as it arrives (sessions 5.2)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from hermitcrab.config.schema import ModelEntry, ProviderConfig
from hermitcrab.messages import user
from hermitcrab.models import (
    ChatReply,
    ChatRequest,
    OpenAICompatibleModel,
    TextDelta,
    ThinkingDelta,
)
from hermitcrab.models.resolve import build_model

REQUEST = ChatRequest(messages=[user("hello")])
ANSWER = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}


async def body_of(server: Any, model: OpenAICompatibleModel, request: ChatRequest) -> Any:
    server.answer(ANSWER)
    await model.complete(request)
    return server.received[-1].body


@pytest.mark.parametrize(
    ("level", "effort"),
    [("low", "low"), ("xhigh", "xhigh"), ("off", "none"), ("adaptive", "medium")],
)
async def test_a_level_becomes_the_effort_of_the_protocol(
    server: Any, model: OpenAICompatibleModel, level: str, effort: str
) -> None:
    body = await body_of(server, model, evolve(REQUEST, thinking=level))
    assert body["reasoning_effort"] == effort


async def test_without_a_level_nothing_is_said(server: Any, model: OpenAICompatibleModel) -> None:
    assert "reasoning_effort" not in await body_of(server, model, REQUEST)


async def test_a_server_that_refuses_the_level_is_asked_without_and_the_log_says_so(
    server: Any, model: OpenAICompatibleModel, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer({"error": {"message": "Unsupported parameter: 'reasoning_effort'"}}, 400)
    body = await body_of(server, model, evolve(REQUEST, thinking="high"))
    assert "reasoning_effort" not in body
    assert "takes no thinking level" in caplog.text
    assert "reasoning_effort" not in await body_of(server, model, evolve(REQUEST, thinking="low"))
    assert len(server.received) == 3


async def test_fast_mode_adds_what_config_says_and_only_when_it_is_on(server: Any) -> None:
    entry = ModelEntry(fast_body={"service_tier": "priority"})
    provider = ProviderConfig(base_url=server.url, models={"tiny": entry})
    model: Any = build_model("lab/tiny", {"lab": provider})
    assert model.has_fast_mode
    body = await body_of(server, model, evolve(REQUEST, fast=True))
    assert body["service_tier"] == "priority"
    assert "service_tier" not in await body_of(server, model, REQUEST)
    await model.close()


async def test_only_a_model_that_config_marks_can_be_told_a_level(server: Any) -> None:
    entries = {
        "plain": ModelEntry(),
        "thinker": ModelEntry(reasoning=True),
        "deep": ModelEntry(reasoning=True, thinking_levels=("off", "xhigh")),
    }
    provider = ProviderConfig(base_url=server.url, models=entries)
    levels = {
        name: tuple(build_model(f"lab/{name}", {"lab": provider}).thinking_levels)
        for name in (*entries, "unlisted")
    }
    assert levels == {
        "plain": (),
        "thinker": ("low", "medium", "high"),
        "deep": ("off", "xhigh"),
        "unlisted": (),
    }


async def test_thinking_arrives_in_pieces_where_it_is_asked_for(
    server: Any, model: OpenAICompatibleModel
) -> None:
    for wished in (True, False):
        server.events(
            {"choices": [{"delta": {"reasoning_content": "Hm"}}]},
            {"choices": [{"delta": {"reasoning_content": "m."}}]},
            {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]},
        )
        *pieces, reply = [
            piece async for piece in model.stream(evolve(REQUEST, stream_thinking=wished))
        ]
        thoughts = [ThinkingDelta("Hm"), ThinkingDelta("m.")] if wished else []
        assert pieces == [*thoughts, TextDelta("hi")]
        assert isinstance(reply, ChatReply)
        assert reply.message["content"][0] == {"type": "thinking", "thinking": "Hmm."}
