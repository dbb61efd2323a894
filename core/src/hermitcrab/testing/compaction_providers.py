"""The contract of compaction providers as tests (context 5.3)."""

from __future__ import annotations

import asyncio
import copy
import inspect
from typing import Any

import pytest
import pytest_asyncio

from hermitcrab.compaction.contract import CompactionProvider, SummaryRequest
from hermitcrab.messages.types import Message
from hermitcrab.testing.conversations import (
    chinese_conversation,
    long_conversation,
    plain_conversation,
    tool_conversation,
)

_SAMPLES = {
    "plain": plain_conversation,
    "tools": tool_conversation,
    "chinese": chinese_conversation,
    "long": long_conversation,
}
_INSTRUCTIONS = "Write notes under the headings Decisions, Open TODOs and Exact identifiers."


class CompactionProviderContract:
    """Subclass as ``class TestMyProvider(CompactionProviderContract)`` and say how to make a provider.

    The host completes and checks what a provider writes, so the tests ask for a text, in time and without harm.
    """

    def make_provider(self) -> Any:
        """A new provider, or an awaitable of one."""
        raise NotImplementedError(
            "a contract test says how to make the provider: def make_provider(self)"
        )

    @pytest_asyncio.fixture
    async def provider(self) -> CompactionProvider:
        """The provider under test."""
        made = self.make_provider()
        provider: CompactionProvider = await made if inspect.isawaitable(made) else made
        return provider

    @pytest.fixture(params=sorted(_SAMPLES))
    def messages(self, request: pytest.FixtureRequest) -> list[Message]:
        """What is to be summarised."""
        return _SAMPLES[request.param]()

    @pytest.mark.asyncio
    async def test_it_writes_a_text(
        self, provider: CompactionProvider, messages: list[Message]
    ) -> None:
        summary = await provider.summarise(_request(messages))
        assert isinstance(summary, str), "a summary is a text"
        assert summary.strip(), "a blank summary makes the host's model write it"
        summary.encode()

    @pytest.mark.asyncio
    async def test_it_takes_a_summary_of_before_and_what_the_user_asks_for(
        self, provider: CompactionProvider
    ) -> None:
        request = _request(
            plain_conversation(),
            previous_summary="## Decisions\nThe port is 8443.",
            custom_instructions="Dwell on ports.",
        )
        assert (await provider.summarise(request)).strip()

    @pytest.mark.asyncio
    async def test_nothing_to_summarise_does_no_harm(self, provider: CompactionProvider) -> None:
        summary = await provider.summarise(_request([], previous_summary="## Decisions\nNone."))
        assert isinstance(summary, str)

    @pytest.mark.asyncio
    async def test_it_leaves_the_messages_of_the_host_alone(
        self, provider: CompactionProvider, messages: list[Message]
    ) -> None:
        before = copy.deepcopy(messages)
        await provider.summarise(_request(messages))
        assert messages == before, "messages are shared and read-only"

    @pytest.mark.asyncio
    async def test_two_sessions_at_once_each_get_a_text(self, provider: CompactionProvider) -> None:
        requests = [_request(plain_conversation()), _request(chinese_conversation())]
        texts = await asyncio.gather(*(provider.summarise(request) for request in requests))
        assert all(text.strip() for text in texts)

    @pytest.mark.asyncio
    async def test_cancelling_goes_through_and_leaves_it_usable(
        self, provider: CompactionProvider
    ) -> None:
        task: asyncio.Future[Any] = asyncio.ensure_future(
            provider.summarise(_request(long_conversation()))
        )
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=60)
        assert task.done(), "a cancelled call ends"
        assert task.cancelled() or task.exception() is None, "CancelledError has to go through"
        assert (await provider.summarise(_request(plain_conversation()))).strip()


def _request(messages: list[Message], **more: Any) -> SummaryRequest:
    return SummaryRequest(messages=messages, instructions=_INSTRUCTIONS, **more)
