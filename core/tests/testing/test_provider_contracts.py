"""The contracts of embeddings, models and compaction providers: what keeps them passes, and each breach is caught."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from hermitcrab.compaction import SummaryRequest
from hermitcrab.memory import EmbeddingProvider
from hermitcrab.messages import assistant
from hermitcrab.models import ChatModel, ChatReply, ChatRequest, OfflineModel, TextDelta
from hermitcrab.testing import (
    ChatModelContract,
    CompactionProviderContract,
    EmbeddingProviderContract,
    plain_conversation,
)


class LetterCounts(EmbeddingProvider):
    """A vector of how often characters occur, in 64 classes."""

    id, model, dims = "letters", "counts", 64

    def __init__(self, key: str = "key-1") -> None:
        self._key = key

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return [self._vector(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        return self._vector(text)

    def fingerprint(self) -> str:
        return "letters:counts:64"

    def _vector(self, text: str) -> list[float]:
        counts = [0.0] * 64
        for character in text:
            counts[ord(character) % 64] += 1
        length = math.sqrt(sum(count * count for count in counts)) or 1.0
        return [count / length for count in counts]


class TestLetterCounts(EmbeddingProviderContract):
    secrets = ("key-1",)

    def make_provider(self) -> EmbeddingProvider:
        return LetterCounts("key-1")


class TestOfflineModel(ChatModelContract):
    def make_model(self) -> ChatModel:
        return OfflineModel()


class LastWords:
    """Summarises by quoting what was said last."""

    async def summarise(self, request: SummaryRequest, /) -> str:
        await asyncio.sleep(0)
        last = request.messages[-1] if request.messages else None
        return f"## Decisions\n{'nothing' if last is None else last['role']}"


class TestLastWords(CompactionProviderContract):
    async def make_provider(self) -> LastWords:
        return LastWords()


class TestBreachesOfTheEmbeddingContract:
    contract = EmbeddingProviderContract()

    async def test_vectors_that_are_not_of_length_1(self) -> None:
        class Long(LetterCounts):
            def _vector(self, text: str) -> list[float]:
                return [2 * number for number in super()._vector(text)]

        with pytest.raises(AssertionError):
            await self.contract.test_vectors_have_length_1(Long())

    async def test_a_vector_too_few(self) -> None:
        class Forgetful(LetterCounts):
            async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
                return (await super().embed_documents(texts))[1:]

        with pytest.raises(AssertionError):
            await self.contract.test_each_text_has_one_vector_of_the_same_size(Forgetful())

    async def test_batches_that_mix_texts_up(self) -> None:
        class Mixing(LetterCounts):
            async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
                return (await super().embed_documents(texts))[::-1]

        with pytest.raises(AssertionError):
            await self.contract.test_many_texts_come_back_in_their_order(Mixing())

    async def test_an_answer_that_is_not_a_number(self) -> None:
        class Dividing(LetterCounts):
            def _vector(self, text: str) -> list[float]:
                return super()._vector(text) if text.strip() else [math.nan] * 64

        with pytest.raises(AssertionError):
            await self.contract.test_any_text_has_a_vector(Dividing(), " ")

    async def test_a_secret_in_the_fingerprint(self) -> None:
        class Talkative(LetterCounts):
            def fingerprint(self) -> str:
                return f"letters:{self._key}"

        class Contract(EmbeddingProviderContract):
            secrets = ("key-1",)

            def make_provider(self) -> EmbeddingProvider:
                return Talkative()

        with pytest.raises(AssertionError):
            await Contract().test_the_fingerprint_is_stable_and_keeps_secrets(Talkative())

    async def test_a_fingerprint_of_the_instance(self) -> None:
        class Restless(LetterCounts):
            def fingerprint(self) -> str:
                return str(id(self))

        class Contract(EmbeddingProviderContract):
            def make_provider(self) -> EmbeddingProvider:
                return Restless()

        with pytest.raises(AssertionError):
            await Contract().test_the_fingerprint_is_stable_and_keeps_secrets(Restless())

    async def test_queries_in_a_space_of_their_own(self) -> None:
        class Apart(LetterCounts):
            async def embed_query(self, text: str) -> list[float]:
                return (await super().embed_query(text))[::-1]

        with pytest.raises(AssertionError):
            await self.contract.test_a_query_finds_its_own_text(Apart())


class TestBreachesOfTheModelContract:
    contract = ChatModelContract()

    async def test_a_stream_without_a_reply(self) -> None:
        class Endless(OfflineModel):
            async def stream(self, request: ChatRequest) -> Any:
                yield TextDelta("Well,")

        with pytest.raises(AssertionError):
            await self.contract.test_a_stream_ends_with_exactly_one_reply(Endless())

    async def test_pieces_that_do_not_make_up_the_whole(self) -> None:
        class Mumbling(OfflineModel):
            async def stream(self, request: ChatRequest) -> Any:
                yield TextDelta("Something else")
                yield await self.complete(request)

        with pytest.raises(AssertionError):
            await self.contract.test_a_stream_ends_with_exactly_one_reply(Mumbling())

    async def test_a_tool_that_is_not_on_offer(self) -> None:
        class Inventive(OfflineModel):
            async def complete(self, request: ChatRequest) -> ChatReply:
                call: Any = {"id": "call_1", "name": "launch", "arguments": {}}
                return ChatReply(message=assistant("", tool_calls=[call]))

        with pytest.raises(AssertionError):
            await self.contract.test_it_calls_only_tools_that_are_on_offer(Inventive())

    async def test_changing_the_messages_of_the_host(self) -> None:
        class Tidying(OfflineModel):
            async def complete(self, request: ChatRequest) -> ChatReply:
                reply = await super().complete(request)
                request.messages[0]["content"] = ""  # type: ignore[typeddict-item]
                return reply

        with pytest.raises(AssertionError):
            await self.contract.test_it_leaves_the_messages_of_the_host_alone(Tidying())

    async def test_an_answer_of_the_user(self) -> None:
        class Confused(OfflineModel):
            async def complete(self, request: ChatRequest) -> ChatReply:
                reply = await super().complete(request)
                return evolve(reply, message={**reply.message, "role": "user"})

        with pytest.raises(AssertionError):
            await self.contract.test_it_answers_with_an_assistant_message(Confused(), "plain")

    async def test_an_id_without_a_provider(self) -> None:
        class Nameless(OfflineModel):
            id = "model"

        with pytest.raises(AssertionError):
            await self.contract.test_it_says_what_it_is(Nameless())

    async def test_swallowing_the_cancelling(self) -> None:
        class Stubborn(OfflineModel):
            async def complete(self, request: ChatRequest) -> ChatReply:
                try:
                    await asyncio.sleep(10)
                except asyncio.CancelledError as error:
                    raise RuntimeError("cancelled") from error
                return await super().complete(request)

        with pytest.raises(AssertionError):
            await self.contract.test_cancelling_goes_through_and_leaves_it_usable(Stubborn())


class TestBreachesOfTheCompactionContract:
    contract = CompactionProviderContract()

    async def test_a_blank_summary(self) -> None:
        class Silent(LastWords):
            async def summarise(self, request: SummaryRequest, /) -> str:
                return " "

        with pytest.raises(AssertionError):
            await self.contract.test_it_writes_a_text(Silent(), plain_conversation())

    async def test_changing_the_messages_of_the_host(self) -> None:
        class Consuming(LastWords):
            async def summarise(self, request: SummaryRequest, /) -> str:
                request.messages[0]["content"] = ""  # type: ignore[typeddict-item]
                return "## Decisions"

        with pytest.raises(AssertionError):
            await self.contract.test_it_leaves_the_messages_of_the_host_alone(
                Consuming(), plain_conversation()
            )


@pytest.mark.parametrize(
    "make",
    [
        EmbeddingProviderContract().make_provider,
        ChatModelContract().make_model,
        CompactionProviderContract().make_provider,
    ],
)
def test_a_contract_without_its_part_says_what_to_write(make: Any) -> None:
    with pytest.raises(NotImplementedError, match="def make_"):
        make()
