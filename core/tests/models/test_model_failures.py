from __future__ import annotations

import logging
import socket
from typing import Any

import pytest

from hermitcrab.errors import (
    ModelAuthError,
    ModelError,
    ModelOverflowError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
)
from hermitcrab.messages import user
from hermitcrab.models import ChatRequest, OpenAICompatibleModel, TextDelta

KEY = "secret-key-0123456789"
REQUEST = ChatRequest(messages=[user("hello")])
LATER: dict[str, str] = {"Retry_After": "0"}


def completion(text: str | None = "hi there", **extra: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **extra.pop("message", {})}
    return {"choices": [{"message": message, "finish_reason": "stop", **extra}]}


def error(message: str, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "code": code}}


async def test_a_rate_limit_is_waited_for(server: Any, model: OpenAICompatibleModel) -> None:
    """C85: one 429 took the process down."""
    server.answer(error("slow down"), 429, **LATER)
    server.answer(completion("ok"))
    assert (await model.complete(REQUEST)).text == "ok"


async def test_a_rate_limit_before_a_stream_is_waited_for(
    server: Any, model: OpenAICompatibleModel
) -> None:
    server.answer(error("slow down"), 429, **LATER)
    server.events({"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]})
    pieces = [piece async for piece in model.stream(REQUEST)]
    assert pieces[0] == TextDelta("ok")


async def test_a_pause_that_is_too_long_is_not_waited_for(
    server: Any, model: OpenAICompatibleModel
) -> None:
    server.answer(error("slow down"), 429, Retry_After="3600")
    with pytest.raises(ModelRateLimitError, match="Wait 3600 s") as raised:
        await model.complete(REQUEST)
    assert raised.value.retry_after_s == 3600
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, error("You exceeded your current quota", "insufficient_quota")),
        (402, error("payment required")),
        (403, error("billing is not active")),
    ],
)
async def test_a_used_up_quota_is_not_retried(
    server: Any, model: OpenAICompatibleModel, status: int, body: Any
) -> None:
    """C88: quota errors were retried for ever."""
    server.answer(body, status)
    with pytest.raises(ModelRateLimitError, match="billing"):
        await model.complete(REQUEST)
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials(server: Any, model: OpenAICompatibleModel, status: int) -> None:
    server.answer(error(f"Incorrect API key provided: {KEY}"), status)
    with pytest.raises(ModelAuthError) as raised:
        await model.complete(REQUEST)
    assert raised.value.where == "lab/tiny"
    assert "models.providers.lab.apiKey" in str(raised.value)
    assert len(server.received) == 1


async def test_keys_are_in_no_message_and_no_log(
    server: Any, model: OpenAICompatibleModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer(error(f"bad key {KEY}, header Bearer {KEY}, other sk-abcdef123456"), 500)
    server.answer(error(f"bad key {KEY}"), 401)
    with pytest.raises(ModelAuthError) as raised:
        await model.complete(REQUEST)
    hermitcrab_log = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith("hermitcrab")
    )
    assert "[redacted]" in hermitcrab_log
    for text in (str(raised.value), repr(raised.value), repr(model), hermitcrab_log):
        assert KEY not in text
        assert "sk-abcdef" not in text


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error("This model's maximum context length is 8192 tokens")),
        (400, error("x", "context_length_exceeded")),
        (400, error("prompt is too long: 210000 tokens > 200000 maximum")),
        (400, error("the request exceeds the available context size, try increasing it")),
        (500, error("Context size has been exceeded.")),
        (413, error("request_too_large")),
        (400, ""),
    ],
)
async def test_a_request_that_is_too_large(
    server: Any, model: OpenAICompatibleModel, status: int, body: Any
) -> None:
    server.answer(body, status)
    with pytest.raises(ModelOverflowError, match="Compact"):
        await model.complete(REQUEST)
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, error("Request too large: limit 30000 tokens per min (TPM)"), ModelRateLimitError),
        (400, error("Rate limit: too many tokens per minute"), ModelRateLimitError),
        (400, error("temperature must be at most 2"), ModelRequestError),
        (404, error("model not found"), ModelRequestError),
        (503, error("overloaded"), ModelUnavailableError),
        (502, "<html>bad gateway</html>", ModelUnavailableError),
    ],
)
async def test_what_is_not_an_overflow(
    server: Any, model: OpenAICompatibleModel, status: int, body: Any, kind: type[ModelError]
) -> None:
    for _ in range(3):
        server.answer(body, status, **LATER)
    with pytest.raises(ModelError) as raised:
        await model.complete(REQUEST)
    assert type(raised.value) is kind
    assert raised.value.where == "lab/tiny"
    assert raised.value.hint


async def test_server_errors_are_retried(server: Any, model: OpenAICompatibleModel) -> None:
    server.answer("oops", 500)
    server.answer("oops", 503)
    server.answer(completion("ok"))
    assert (await model.complete(REQUEST)).text == "ok"
    assert len(server.received) == 3


async def test_retries_are_bounded(server: Any, model: OpenAICompatibleModel) -> None:
    for _ in range(5):
        server.answer("oops", 500)
    with pytest.raises(ModelUnavailableError, match="500"):
        await model.complete(REQUEST)
    assert len(server.received) == 3


async def test_a_refused_connection() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    model = OpenAICompatibleModel(
        "lab", "tiny", f"http://127.0.0.1:{port}/v1", max_retries=1, backoff_s=0
    )
    with pytest.raises(ModelUnavailableError, match=r"models\.providers\.lab\.baseUrl"):
        await model.complete(REQUEST)
    assert await model.context_window() is None
    await model.close()


async def test_a_connection_that_breaks_is_retried(
    server: Any, model: OpenAICompatibleModel
) -> None:
    server.answers.append(b"")
    server.answer(completion("ok"))
    assert (await model.complete(REQUEST)).text == "ok"


async def test_a_silent_server_is_not_asked_again(server: Any) -> None:
    server.hold_open = True
    server.answers.append(b"")
    model = OpenAICompatibleModel("lab", "tiny", server.url, timeout_s=0.2, backoff_s=0)
    with pytest.raises(ModelUnavailableError, match=r"nothing came within 0\.2 s"):
        await model.complete(REQUEST)
    assert len(server.received) == 1
    await model.close()


@pytest.mark.parametrize("body", ["not json", [], {"choices": []}])
async def test_an_unreadable_answer(server: Any, model: OpenAICompatibleModel, body: Any) -> None:
    for _ in range(3):
        server.answer(body)
    with pytest.raises(ModelUnavailableError, match="unreadable"):
        await model.complete(REQUEST)


async def test_an_error_inside_a_successful_answer(
    server: Any, model: OpenAICompatibleModel
) -> None:
    server.answer(error("prompt is too long", 400))
    with pytest.raises(ModelOverflowError):
        await model.complete(REQUEST)
