from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermitcrab.errors import (
    ConfigError,
    ModelUnavailableError,
)
from hermitcrab.messages import user
from hermitcrab.messages.text import blocks_of, tool_calls_of
from hermitcrab.models import ChatReply, ChatRequest, OpenAICompatibleModel, TextDelta, ToolSchema

REQUEST = ChatRequest(messages=[user("hello")], system="Be brief.", max_tokens=50)
LATER: dict[str, str] = {"Retry_After": "0"}


def completion(text: str | None = "hi there", **extra: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **extra.pop("message", {})}
    return {"choices": [{"message": message, "finish_reason": "stop", **extra}]}


def delta(content: str | None = None, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": content, **extra}, "finish_reason": finish}]}


def call_delta(
    index: int | None, arguments: str, call_id: str | None = None, name: str | None = None
) -> Any:
    call = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
    return delta(tool_calls=[{key: value for key, value in call.items() if value is not None}])


def error(message: str, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "code": code}}


async def streamed(model: OpenAICompatibleModel) -> tuple[list[str], ChatReply]:
    pieces = [piece async for piece in model.stream(REQUEST)]
    reply = pieces[-1]
    assert isinstance(reply, ChatReply)
    return [piece.text for piece in pieces[:-1] if isinstance(piece, TextDelta)], reply


async def test_a_plain_answer(server: Any, model: OpenAICompatibleModel) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 60},
    }
    server.answer({**completion(), "usage": usage})
    reply = await model.complete(REQUEST)
    assert reply.text == "hi there"
    assert (reply.usage.input, reply.usage.output, reply.usage.cache_read) == (40, 7, 60)
    assert reply.message["usage"]["totalTokens"] == 107
    assert (reply.message["provider"], reply.message["model"]) == ("lab", "tiny")
    (sent,) = server.received
    assert (sent.method, sent.path) == ("POST", "/v1/chat/completions")
    assert sent.headers["authorization"] == "Bearer secret-key-0123456789"
    assert sent.body == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hello"},
        ],
        "stream": False,
        "max_tokens": 50,
    }


@pytest.mark.parametrize(
    ("finish", "stop_reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "stop"),
        ("content_filter", "error"),
        (None, "stop"),
    ],
)
async def test_finish_reasons(
    server: Any, model: OpenAICompatibleModel, finish: str | None, stop_reason: str
) -> None:
    server.answer(completion(finish_reason=finish))
    assert (await model.complete(REQUEST)).message["stopReason"] == stop_reason


async def test_tools_go_out_and_calls_come_back(server: Any, model: OpenAICompatibleModel) -> None:
    function = {"name": "read", "arguments": '{"path": "a.md"}'}
    server.answer(completion(None, message={"tool_calls": [{"id": "c1", "function": function}]}))
    tool = ToolSchema("read", "Read a file.", {"type": "object"})
    reply = await model.complete(ChatRequest(messages=[user("x")], tools=[tool]))
    assert tool_calls_of(reply.message) == [
        {"id": "c1", "name": "read", "arguments": {"path": "a.md"}}
    ]
    assert reply.message["stopReason"] == "toolUse"
    assert server.received[0].body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "read",
                "description": "Read a file.",
                "parameters": {"type": "object"},
            },
        }
    ]


async def test_arguments_that_are_no_json_are_kept_as_raw_text(
    server: Any, model: OpenAICompatibleModel
) -> None:
    function = {"name": "read", "arguments": '{"path": "a.'}
    server.answer(completion(None, message={"tool_calls": [{"function": function}]}))
    block: Any = blocks_of((await model.complete(REQUEST)).message)[0]
    assert (block["arguments"], block["rawArguments"]) == ({}, '{"path": "a.')
    assert block["id"].startswith("call_")


async def test_a_streamed_answer(server: Any, model: OpenAICompatibleModel) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    server.events(
        delta("one\u2028"), delta(" two", reasoning_content="hm"), delta(finish="stop"), usage
    )
    texts, reply = await streamed(model)
    assert texts == ["one\u2028", " two"]
    assert reply.text == "one\u2028 two"
    assert reply.usage.total == 5
    assert blocks_of(reply.message)[0] == {"type": "thinking", "thinking": "hm"}
    assert server.received[0].body["stream_options"] == {"include_usage": True}


async def test_tool_calls_that_stream_in_pieces(server: Any, model: OpenAICompatibleModel) -> None:
    server.events(
        call_delta(0, "", "c1", "read"),
        call_delta(0, '{"path": '),
        call_delta(1, "{}", "c2", "list"),
        call_delta(0, '"a.md"}'),
        delta(finish="tool_calls"),
    )
    texts, reply = await streamed(model)
    assert texts == []
    assert reply.message["stopReason"] == "toolUse"
    assert [
        (call["id"], call["name"], call["arguments"]) for call in tool_calls_of(reply.message)
    ] == [
        ("c1", "read", {"path": "a.md"}),
        ("c2", "list", {}),
    ]


@pytest.mark.parametrize("index", [0, None])
async def test_calls_of_servers_that_do_not_number_them(
    server: Any, model: OpenAICompatibleModel, index: int | None
) -> None:
    server.events(
        call_delta(index, '{"a"', "c1", "one"),
        call_delta(index, ": 1}"),
        call_delta(index, '{"b": 2}', "c2", "two"),
        delta(finish="stop"),
    )
    _, reply = await streamed(model)
    assert [call["arguments"] for call in tool_calls_of(reply.message)] == [{"a": 1}, {"b": 2}]


async def test_a_server_that_refuses_stream_options_is_asked_without(
    server: Any, model: OpenAICompatibleModel
) -> None:
    server.answer(error("unknown field: stream_options"), 400)
    server.events(delta("a", "stop"))
    server.events(delta("b", "stop"))
    assert (await streamed(model))[0] == ["a"]
    assert (await streamed(model))[0] == ["b"]
    assert ["stream_options" in sent.body for sent in server.received] == [True, False, False]


async def test_a_server_that_wants_another_name_for_the_limit_gets_it(
    server: Any, model: OpenAICompatibleModel
) -> None:
    server.answer(error("'max_tokens' is not supported, use 'max_completion_tokens'"), 400)
    server.answer(completion())
    await model.complete(REQUEST)
    assert server.received[1].body["max_completion_tokens"] == 50
    assert "max_tokens" not in server.received[1].body


async def test_a_server_that_does_not_stream_is_read_whole(
    server: Any, model: OpenAICompatibleModel
) -> None:
    server.answer(completion("whole"))
    texts, reply = await streamed(model)
    assert (texts, reply.text) == (["whole"], "whole")


async def test_a_malformed_stream_is_asked_again_before_any_text(
    server: Any, model: OpenAICompatibleModel
) -> None:
    server.events('{"choices": [')
    server.events(delta("ok", "stop"))
    assert (await streamed(model))[0] == ["ok"]


@pytest.mark.parametrize(
    ("ending", "message"),
    [('{"choices": [', "unreadable"), (error("boom"), "boom"), (delta("b"), "ended early")],
)
async def test_nothing_is_retried_once_text_was_streamed(
    server: Any, model: OpenAICompatibleModel, ending: Any, message: str
) -> None:
    server.events(delta("a"), ending, done=False)
    server.events(delta("again", "stop"))
    texts: list[str] = []

    async def read() -> None:
        async for piece in model.stream(REQUEST):
            assert isinstance(piece, TextDelta)
            texts.append(piece.text)

    with pytest.raises(ModelUnavailableError, match=message):
        await read()
    assert texts[0] == "a"
    assert len(server.received) == 1


async def test_a_stream_without_the_last_blank_line_is_whole(
    server: Any, model: OpenAICompatibleModel
) -> None:
    body = 'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}'
    server.answer(body, content_type="text/event-stream")
    assert (await streamed(model))[1].text == "a"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelling_closes_the_connection(server: Any, streaming: bool) -> None:
    server.hold_open = True
    if streaming:
        server.events(delta("a"), done=False)
    else:
        server.answers.append(b"")
    model = OpenAICompatibleModel("lab", "tiny", server.url)
    started: asyncio.Event = asyncio.Event() if streaming else server.arrived

    async def run() -> None:
        if not streaming:
            await model.complete(REQUEST)
        async for _ in model.stream(REQUEST):
            started.set()

    task = asyncio.create_task(run())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.abandoned.wait()
    assert len(server.received) == 1
    await model.close()


async def test_a_stream_that_nobody_reads_to_its_end_closes_the_connection(server: Any) -> None:
    server.hold_open = True
    server.events(delta("a"), done=False)
    model = OpenAICompatibleModel("lab", "tiny", server.url)
    stream: Any = model.stream(REQUEST)
    assert await anext(stream) == TextDelta("a")
    await stream.aclose()
    await asyncio.wait_for(server.abandoned.wait(), 10)
    await model.close()


async def test_a_client_of_the_caller_stays_open(server: Any) -> None:
    import httpx

    server.answer(completion("ok"))
    async with httpx.AsyncClient() as client:
        model = OpenAICompatibleModel("lab", "tiny", server.url, client=client)
        assert (await model.complete(REQUEST)).text == "ok"
        await model.close()
        assert not client.is_closed


def test_an_address_that_is_none_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"models\.providers\.lab\.baseUrl"):
        OpenAICompatibleModel("lab", "tiny", "localhost:8080")
