"""The contract of chat models as tests (design 4)."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest
import pytest_asyncio

from hermitcrab.messages.build import user
from hermitcrab.messages.text import text_of, tool_calls_of
from hermitcrab.models.contract import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Purpose,
    TextDelta,
    ThinkingDelta,
    ToolSchema,
)
from hermitcrab.testing.conversations import (
    chinese_conversation,
    plain_conversation,
    tool_conversation,
)

_SAMPLES = {
    "plain": plain_conversation,
    "tools": tool_conversation,
    "chinese": chinese_conversation,
}
_WEATHER = ToolSchema(
    "weather",
    "The weather at a place.",
    {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
)


class ChatModelContract:
    """Subclass as ``class TestMyModel(ChatModelContract)`` and say how to make a model.

    What a model says is its own business: the tests ask whether it answers in the shapes that the host works with. A
    model over a network is tested against a server of the test's own.
    """

    def make_model(self) -> Any:
        """A new model, or an awaitable of one."""
        raise NotImplementedError(
            "a contract test says how to make the model: def make_model(self)"
        )

    @pytest_asyncio.fixture
    async def model(self) -> AsyncIterator[ChatModel]:
        """The model under test; it is closed afterwards."""
        made = self.make_model()
        model: ChatModel = await made if inspect.isawaitable(made) else made
        yield model
        await model.close()

    @pytest.mark.asyncio
    async def test_it_says_what_it_is(self, model: ChatModel) -> None:
        assert isinstance(model, ChatModel), "subclass hermitcrab.models.ChatModel"
        provider, slash, name = model.id.partition("/")
        assert slash, "an id is provider/name"
        assert provider.strip(), "the provider has a name"
        assert name.strip(), "the model has a name"
        assert all(isinstance(level, str) and level for level in model.thinking_levels)

    @pytest.mark.asyncio
    async def test_the_window_is_a_number_of_tokens_or_unknown(self, model: ChatModel) -> None:
        window = await model.context_window()
        assert window is None or (isinstance(window, int) and window > 0)

    @pytest.mark.parametrize("sample", sorted(_SAMPLES))
    @pytest.mark.asyncio
    async def test_it_answers_with_an_assistant_message(
        self, model: ChatModel, sample: str
    ) -> None:
        reply = await model.complete(ChatRequest(messages=_SAMPLES[sample](), max_tokens=64))
        _check_reply(reply)
        assert reply.text.strip() or tool_calls_of(reply.message), "an answer says something"

    @pytest.mark.parametrize("purpose", get_args(Purpose))
    @pytest.mark.asyncio
    async def test_it_answers_whatever_it_is_asked_for(
        self, model: ChatModel, purpose: Purpose
    ) -> None:
        request = ChatRequest(
            messages=plain_conversation(),
            system="You take notes. Answer briefly.",
            purpose=purpose,
            max_tokens=64,
        )
        _check_reply(await model.complete(request))

    @pytest.mark.asyncio
    async def test_a_stream_ends_with_exactly_one_reply(self, model: ChatModel) -> None:
        request = ChatRequest(messages=plain_conversation(), max_tokens=64)
        pieces = [piece async for piece in model.stream(request)]
        *deltas, reply = pieces
        assert isinstance(reply, ChatReply), "the reply comes last"
        assert all(isinstance(piece, TextDelta | ThinkingDelta) for piece in deltas)
        _check_reply(reply)
        streamed = "".join(piece.text for piece in deltas if isinstance(piece, TextDelta))
        assert streamed.strip() == reply.text.strip(), "the pieces make up the whole"

    @pytest.mark.asyncio
    async def test_it_calls_only_tools_that_are_on_offer(self, model: ChatModel) -> None:
        request = ChatRequest(
            messages=[user("How is the weather in Vienna?")], tools=[_WEATHER], max_tokens=64
        )
        reply = await model.complete(request)
        _check_reply(reply)
        assert {call["name"] for call in tool_calls_of(reply.message)} <= {_WEATHER.name}

    @pytest.mark.asyncio
    async def test_it_leaves_the_messages_of_the_host_alone(self, model: ChatModel) -> None:
        messages = tool_conversation()
        before = copy.deepcopy(messages)
        await model.complete(ChatRequest(messages=messages, max_tokens=16))
        assert messages == before, "messages are shared and read-only"

    @pytest.mark.asyncio
    async def test_several_requests_at_once_each_get_a_reply(self, model: ChatModel) -> None:
        requests = [
            ChatRequest(messages=[user(f"Say the number {number}.")], max_tokens=16)
            for number in range(4)
        ]
        replies = await asyncio.gather(*(model.complete(request) for request in requests))
        for reply in replies:
            _check_reply(reply)

    @pytest.mark.asyncio
    async def test_cancelling_goes_through_and_leaves_it_usable(self, model: ChatModel) -> None:
        request = ChatRequest(messages=plain_conversation(), max_tokens=64)
        task: asyncio.Future[Any] = asyncio.ensure_future(model.complete(request))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=60)
        assert task.done(), "a cancelled call ends"
        assert task.cancelled() or task.exception() is None, "CancelledError has to leave the model"
        _check_reply(await model.complete(request))

    @pytest.mark.asyncio
    async def test_a_stream_that_nobody_reads_on_does_no_harm(self, model: ChatModel) -> None:
        request = ChatRequest(messages=plain_conversation(), max_tokens=64)
        stream = model.stream(request)
        async for _ in stream:
            break
        closing = getattr(stream, "aclose", None)
        if closing is not None:
            await closing()
        _check_reply(await model.complete(request))

    @pytest.mark.asyncio
    async def test_it_can_be_closed_unused(self) -> None:
        made = self.make_model()
        model: ChatModel = await made if inspect.isawaitable(made) else made
        await model.close()


def _check_reply(reply: ChatReply) -> None:
    """What the host relies on in every reply."""
    assert isinstance(reply, ChatReply)
    assert reply.message["role"] == "assistant"
    assert isinstance(text_of(reply.message), str)
    calls = tool_calls_of(reply.message)
    assert len({call["id"] for call in calls}) == len(calls), "each call has an id of its own"
    assert all(call["name"] and isinstance(call["arguments"], dict) for call in calls)
    usage = reply.usage
    assert min(usage.input, usage.output, usage.cache_read, usage.cache_write) >= 0
