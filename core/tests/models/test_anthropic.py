"""Answers of the Messages API, whole and streamed, and its failures, over a real connection."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hermitcrab.errors import (
    ConfigError,
    ModelAuthError,
    ModelError,
    ModelOverflowError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
)
from hermitcrab.messages import assistant, tool_calls_of, tool_result, user
from hermitcrab.messages.text import blocks_of
from hermitcrab.models import (
    AnthropicModel,
    ChatReply,
    ChatRequest,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolSchema,
)

KEY = "secret-key-0123456789"
REQUEST = ChatRequest(messages=[user("hello")], system="Be brief.", max_tokens=50)


def answer(*parts: Any, stop: str | None = "end_turn", **usage: int) -> dict[str, Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"type": "message", "content": content, "stop_reason": stop, "usage": usage}


def error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def start(**usage: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {"content": [], "usage": usage}}


def opened(index: int, **part: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": part}


def added(index: int, kind: str, **piece: Any) -> dict[str, Any]:
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": f"{kind}_delta", **piece},
    }


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [
        opened(index, type="text", text=""),
        *(added(index, "text", text=piece) for piece in pieces),
        {"type": "content_block_stop", "index": index},
    ]


def ended(reason: str = "end_turn", **usage: int) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ]


def stream_of(server: Any, *events: Any) -> None:
    server.events(*events, done=False)


async def streamed(
    model: AnthropicModel, request: ChatRequest = REQUEST
) -> tuple[list[Any], ChatReply]:
    pieces = [piece async for piece in model.stream(request)]
    reply = pieces[-1]
    assert isinstance(reply, ChatReply)
    return pieces[:-1], reply


async def test_a_plain_answer(server: Any, claude: AnthropicModel) -> None:
    server.answer(
        answer(
            "hi there",
            input_tokens=40,
            output_tokens=7,
            cache_read_input_tokens=60,
            cache_creation_input_tokens=5,
        )
    )
    reply = await claude.complete(REQUEST)
    assert reply.text == "hi there"
    assert reply.usage == TokenUsage(input=40, output=7, cache_read=60, cache_write=5)
    assert reply.message["usage"]["totalTokens"] == 112
    assert (reply.message["provider"], reply.message["model"]) == ("anthropic", "claude-x")
    (sent,) = server.received
    assert (sent.method, sent.path) == ("POST", "/v1/messages")
    assert sent.headers["x-api-key"] == KEY
    assert sent.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in sent.headers
    cached = {"cache_control": {"type": "ephemeral"}}
    assert sent.body == {
        "model": "claude-x",
        "max_tokens": 50,
        "system": [{"type": "text", "text": "Be brief.", **cached}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello", **cached}]}],
        "stream": False,
    }


async def test_headers_of_config_are_sent_and_may_replace_our_own(server: Any) -> None:
    headers = {"Anthropic-Version": "2030-01-01", "anthropic-beta": "new-thing"}
    model = AnthropicModel("anthropic", "claude-x", server.url, headers=headers)
    server.answer(answer("ok"))
    await model.complete(REQUEST)
    sent = server.received[0].headers
    assert (sent["anthropic-version"], sent["anthropic-beta"]) == ("2030-01-01", "new-thing")
    assert "x-api-key" not in sent
    await model.close()


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "stop"),
        ("pause_turn", "stop"),
        ("refusal", "error"),
        (None, "stop"),
    ],
)
async def test_stop_reasons(
    server: Any, claude: AnthropicModel, stop: str | None, reason: str
) -> None:
    server.answer(answer("a", stop=stop))
    message = (await claude.complete(REQUEST)).message
    assert message["stopReason"] == reason
    assert ("errorMessage" in message) == (reason == "error")


async def test_an_answer_without_content_is_an_answer(server: Any, claude: AnthropicModel) -> None:
    server.answer(answer())
    reply = await claude.complete(REQUEST)
    assert (reply.text, reply.message["content"], reply.message["stopReason"]) == ("", [], "stop")


async def test_tools_go_out_and_calls_come_back(server: Any, claude: AnthropicModel) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.md"}}
    server.answer(answer("Let me see.", call, stop="tool_use"))
    tool = ToolSchema("read", "Read a file.", {"properties": {"path": {"type": "string"}}})
    reply = await claude.complete(ChatRequest(messages=[user("x")], tools=[tool]))
    assert tool_calls_of(reply.message) == [
        {"id": "toolu_1", "name": "read", "arguments": {"path": "a.md"}}
    ]
    assert reply.message["stopReason"] == "toolUse"
    assert server.received[0].body["tools"] == [
        {
            "name": "read",
            "description": "Read a file.",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
        }
    ]


async def test_a_whole_round_of_tools(server: Any, claude: AnthropicModel) -> None:
    """Results of one round go back in one user message, in front of what else the user says."""
    calls = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": "read", "input": {"n": n}} for n in (1, 2)
    ]
    server.answer(answer(*calls, stop="tool_use"))
    server.answer(answer("done"))
    question = user("x")
    asked = (await claude.complete(ChatRequest(messages=[question]))).message
    results = [
        tool_result("toolu_1", "read", "one"),
        tool_result("toolu_2", "read", "none", is_error=True),
    ]
    await claude.complete(ChatRequest(messages=[question, asked, *results, user("and?")]))
    last = server.received[1].body["messages"][-1]
    assert [part["type"] for part in last["content"]] == ["tool_result", "tool_result", "text"]
    assert [part.get("is_error") for part in last["content"]] == [None, True, None]


async def test_a_streamed_answer(server: Any, claude: AnthropicModel) -> None:
    stream_of(
        server,
        start(input_tokens=3, cache_read_input_tokens=9, output_tokens=1),
        {"type": "ping"},
        *text(0, "one\u2028", " two"),
        {"type": "something_new", "index": 7},
        *ended(output_tokens=12),
    )
    deltas, reply = await streamed(claude)
    assert deltas == [TextDelta("one\u2028"), TextDelta(" two")]
    assert reply.text == "one\u2028 two"
    assert reply.usage == TokenUsage(input=3, output=12, cache_read=9)
    assert server.received[0].body["stream"] is True


async def test_tool_input_that_streams_in_pieces(server: Any, claude: AnthropicModel) -> None:
    stream_of(
        server,
        start(),
        *text(0, "Reading."),
        opened(1, type="tool_use", id="toolu_1", name="read", input={}),
        added(1, "input_json", partial_json=""),
        added(1, "input_json", partial_json='{"path": '),
        added(1, "input_json", partial_json='"a.md"}'),
        opened(2, type="tool_use", id="toolu_2", name="now", input={}),
        *ended("tool_use"),
    )
    _, reply = await streamed(claude)
    assert reply.message["stopReason"] == "toolUse"
    assert [(call["id"], call["arguments"]) for call in tool_calls_of(reply.message)] == [
        ("toolu_1", {"path": "a.md"}),
        ("toolu_2", {}),
    ]


async def test_tool_input_that_was_cut_off_is_kept_as_raw_text(
    server: Any, claude: AnthropicModel
) -> None:
    stream_of(
        server,
        opened(0, type="tool_use", id="toolu_1", name="read", input={}),
        added(0, "input_json", partial_json='{"path": "a.'),
        *ended("max_tokens"),
    )
    _, reply = await streamed(claude)
    block: Any = blocks_of(reply.message)[0]
    assert (block["arguments"], block["rawArguments"]) == ({}, '{"path": "a.')
    assert reply.message["stopReason"] == "length"


@pytest.mark.parametrize("shown", [False, True])
async def test_thinking_is_kept_with_its_signature(
    server: Any, claude: AnthropicModel, shown: bool
) -> None:
    stream_of(
        server,
        opened(0, type="thinking", thinking="", signature=""),
        added(0, "thinking", thinking="Let me "),
        added(0, "thinking", thinking="see."),
        added(0, "signature", signature="sig=="),
        opened(1, type="redacted_thinking", data="xyz"),
        *text(2, "Yes."),
        *ended(),
    )
    request = ChatRequest(messages=[user("x")], stream_thinking=shown)
    deltas, reply = await streamed(claude, request)
    thoughts = [ThinkingDelta("Let me "), ThinkingDelta("see.")] if shown else []
    assert deltas == [*thoughts, TextDelta("Yes.")]
    assert blocks_of(reply.message) == [
        {"type": "thinking", "thinking": "Let me see.", "thinkingSignature": "sig=="},
        {"type": "thinking", "thinking": "", "redacted": True, "thinkingSignature": "xyz"},
        {"type": "text", "text": "Yes."},
    ]


async def test_a_server_that_does_not_stream_is_read_whole(
    server: Any, claude: AnthropicModel
) -> None:
    server.answer(answer("whole"))
    deltas, reply = await streamed(claude)
    assert (deltas, reply.text) == ([TextDelta("whole")], "whole")


async def test_an_error_before_any_text_is_asked_again(server: Any, claude: AnthropicModel) -> None:
    stream_of(server, start(), error("overloaded_error", "Overloaded"))
    stream_of(server, *text(0, "ok"), *ended())
    assert (await streamed(claude))[0] == [TextDelta("ok")]


@pytest.mark.parametrize(
    ("ending", "kind", "message"),
    [
        (error("overloaded_error", "Overloaded"), ModelUnavailableError, "529"),
        (error("rate_limit_error", "slow down"), ModelRateLimitError, "slow down"),
        ('{"type": ', ModelUnavailableError, "unreadable"),
        ([], ModelUnavailableError, "unreadable"),
        (added(9, "text", text="x"), ModelUnavailableError, "unreadable"),
        ({"type": "content_block_stop", "index": 0}, ModelUnavailableError, "ended early"),
    ],
)
async def test_nothing_is_retried_once_text_was_streamed(
    server: Any, claude: AnthropicModel, ending: Any, kind: type[ModelError], message: str
) -> None:
    stream_of(server, start(), *text(0, "a"), ending)
    stream_of(server, *text(0, "again"), *ended())
    received: list[Any] = []

    async def read() -> None:
        async for piece in claude.stream(REQUEST):
            received.append(piece)

    with pytest.raises(ModelError, match=message) as raised:
        await read()
    assert type(raised.value) is kind
    assert received == [TextDelta("a")]
    assert len(server.received) == 1


@pytest.mark.timeout(20)
@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelling_closes_the_connection(
    server: Any, claude: AnthropicModel, streaming: bool
) -> None:
    server.hold_open = True
    if streaming:
        stream_of(server, start(), *text(0, "a"))
    else:
        server.answers.append(b"")
    begun: asyncio.Event = asyncio.Event() if streaming else server.arrived

    async def run() -> None:
        if not streaming:
            await claude.complete(REQUEST)
        async for _ in claude.stream(REQUEST):
            begun.set()

    task = asyncio.create_task(run())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.abandoned.wait()
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, "
            "decrease input length or `max_tokens` and try again",
        ),
        (413, "request_too_large", "Request exceeds the maximum size"),
    ],
)
async def test_a_request_that_is_too_large(
    server: Any, claude: AnthropicModel, status: int, kind: str, message: str
) -> None:
    server.answer(error(kind, message), status)
    with pytest.raises(ModelOverflowError, match="Compact"):
        await claude.complete(REQUEST)
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (401, "authentication_error", "invalid x-api-key", ModelAuthError),
        (403, "permission_error", "not yours", ModelAuthError),
        (404, "not_found_error", "model: claude-x", ModelRequestError),
        (400, "invalid_request_error", "temperature: at most 1", ModelRequestError),
        (400, "invalid_request_error", "Your credit balance is too low", ModelRateLimitError),
        (
            429,
            "rate_limit_error",
            "your organization's limit of 30,000 input tokens per minute",
            ModelRateLimitError,
        ),
        (500, "api_error", "Internal server error", ModelUnavailableError),
        (529, "overloaded_error", "Overloaded", ModelUnavailableError),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
async def test_errors_have_the_classes_of_all_providers(
    server: Any,
    claude: AnthropicModel,
    streaming: bool,
    status: int,
    kind: str,
    message: str,
    expected: type[ModelError],
) -> None:
    for _ in range(3):
        server.answer(error(kind, message), status)
    with pytest.raises(ModelError) as raised:
        await (streamed(claude) if streaming else claude.complete(REQUEST))
    assert type(raised.value) is expected
    assert raised.value.where == "anthropic/claude-x"
    assert raised.value.hint
    assert message in raised.value.message


async def test_passing_failures_are_retried(server: Any, claude: AnthropicModel) -> None:
    """C85: one 429 took the process down."""
    server.answer(error("rate_limit_error", "slow down"), 429, Retry_After="0")
    server.answer(error("overloaded_error", "Overloaded"), 529)
    server.answer(answer("ok"))
    assert (await claude.complete(REQUEST)).text == "ok"
    assert len(server.received) == 3


@pytest.mark.parametrize("body", ["not json", [], {"type": "message"}])
async def test_an_unreadable_answer_names_the_protocol(
    server: Any, claude: AnthropicModel, body: Any
) -> None:
    for _ in range(3):
        server.answer(body)
    with pytest.raises(ModelUnavailableError, match="speaks the Anthropic protocol"):
        await claude.complete(REQUEST)


async def test_keys_are_in_no_message_and_no_log(
    server: Any, claude: AnthropicModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer(error("api_error", f"key {KEY} and sk-ant-abcdef123456"), 500)
    server.answer(error("authentication_error", f"invalid x-api-key {KEY}"), 401)
    with pytest.raises(ModelAuthError) as raised:
        await claude.complete(REQUEST)
    log = "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith("hermitcrab")
    )
    assert "[redacted]" in log
    for said in (str(raised.value), repr(raised.value), repr(claude), log):
        assert KEY not in said
        assert "sk-ant-abc" not in said


@pytest.mark.parametrize(
    ("body", "window"),
    [
        ({"type": "model", "id": "claude-x", "max_input_tokens": 1_000_000}, 1_000_000),
        ({"type": "model", "id": "claude-x"}, 200_000),
        ("not json", 200_000),
    ],
)
async def test_the_window_is_what_the_server_says_or_that_of_claude(
    server: Any, claude: AnthropicModel, body: Any, window: int
) -> None:
    server.answer(body)
    assert await claude.context_window() == window
    assert await claude.context_window() == window
    assert [sent.path for sent in server.received] == ["/v1/models/claude-x"]
    assert server.received[0].headers["x-api-key"] == KEY


async def test_a_foreign_model_behind_the_protocol_has_no_assumed_window(server: Any) -> None:
    model = AnthropicModel("lab", "tiny", server.url)
    assert await model.context_window() is None
    await model.close()


async def test_a_window_that_is_given_is_not_asked_for(server: Any) -> None:
    model = AnthropicModel("anthropic", "claude-x", server.url, context_window=1000)
    assert await model.context_window() == 1000
    assert server.received == []


async def test_a_bare_host_gets_the_version(server: Any) -> None:
    model = AnthropicModel("anthropic", "claude-x", server.url.removesuffix("/v1"))
    server.answer(answer("ok"))
    assert (await model.complete(REQUEST)).text == "ok"
    assert server.received[0].path == "/v1/messages"
    await model.close()


def test_an_address_that_is_none_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"models\.providers\.lab\.baseUrl"):
        AnthropicModel("lab", "tiny", "localhost:8080")


async def test_a_server_that_refuses_cache_marks_is_asked_without(
    server: Any, claude: AnthropicModel
) -> None:
    server.answer(error("invalid_request_error", "system.0.cache_control: unknown field"), 400)
    server.answer(answer("ok"))
    server.answer(answer("ok"))
    await claude.complete(REQUEST)
    await claude.complete(REQUEST)
    assert ["cache_control" in str(sent.body) for sent in server.received] == [True, False, False]


async def test_a_model_that_refuses_budgets_is_told_an_effort(
    server: Any, claude: AnthropicModel
) -> None:
    server.answer(error("invalid_request_error", "thinking: use thinking.type adaptive"), 400)
    server.answer(answer("ok"))
    await claude.complete(ChatRequest(messages=[user("x")], thinking="xhigh"))
    sent = server.received[1].body
    assert (sent["thinking"], sent["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})


async def test_a_model_that_refuses_to_think_is_asked_without(
    server: Any, claude: AnthropicModel
) -> None:
    server.answer(error("invalid_request_error", "thinking is not supported"), 400)
    server.answer(answer("ok"))
    before = {**assistant([{"type": "thinking", "thinking": "hm"}], model="claude-x")}
    await claude.complete(
        ChatRequest(messages=[user("x"), before, user("y")], thinking="low")  # type: ignore[list-item]
    )
    assert ["thinking" in sent.body for sent in server.received] == [True, False]
