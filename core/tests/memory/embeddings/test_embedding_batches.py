"""Texts travel in batches, and come back as if they had not (memory 5.4, 5.5)."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.errors import EmbeddingError
from hermitcrab.memory.embeddings.batching import batches


@given(
    texts=st.lists(st.text(max_size=30), max_size=40),
    max_items=st.integers(1, 10),
    max_bytes=st.integers(1, 60),
)
def test_batches_lose_and_reorder_nothing_and_keep_both_limits(texts, max_items, max_bytes):
    groups = list(batches(texts, max_items=max_items, max_bytes=max_bytes))
    assert [text for group in groups for text in group] == texts
    for group in groups:
        assert 1 <= len(group) <= max_items
        assert len(group) == 1 or sum(len(text.encode()) for text in group) <= max_bytes


@given(texts=st.lists(st.text(max_size=30), max_size=40), max_bytes=st.integers(1, 60))
def test_no_two_neighbouring_batches_could_be_one(texts, max_bytes):
    groups = list(batches(texts, max_items=1000, max_bytes=max_bytes))
    for one, other in itertools.pairwise(groups):
        assert sum(len(text.encode()) for text in (*one, other[0])) > max_bytes


async def test_many_texts_travel_in_batches_and_come_back_in_order(make, server):
    texts = [f"text {number}" * (number % 7 + 1) for number in range(40)]
    whole = await make().embed_documents(texts)
    (request,) = server.received
    assert request.texts == texts
    server.received.clear()
    assert await make(limits={"items": 7}).embed_documents(texts) == whole
    assert len(server.received) == 6


async def test_no_more_requests_run_at_a_time_than_allowed(make, server, answers):
    server.respond = lambda received: answers.Answer(answers.data(received.texts), delay_s=0.05)
    await make(limits={"items": 1, "concurrency": 3}).embed_documents([str(n) for n in range(9)])
    assert server.most_running == 3
    server.most_running = 0
    await make(limits={"items": 1, "concurrency": 1}).embed_documents(["a", "b", "c"])
    assert server.most_running == 1


async def test_what_is_too_large_together_is_sent_in_halves(make, server, answers):
    def respond(received):
        if len(received.texts) > 2:
            return answers.Answer({"error": {"message": "request too large"}}, status=413)
        return answers.Answer(answers.data(received.texts))

    server.respond = respond
    texts = ["a", "bb", "ccc", "dddd", "eeeee"]
    split = await make().embed_documents(texts)
    assert [request.texts for request in server.received] == [
        texts,
        texts[:2],
        texts[2:],
        texts[2:3],
        texts[3:],
    ]
    server.respond = lambda received: answers.Answer(answers.data(received.texts))
    assert split == await make().embed_documents(texts)


async def test_one_text_that_is_too_large_is_refused(make, server, answers):
    server.respond = lambda received: answers.Answer("", status=413)
    with pytest.raises(EmbeddingError) as caught:
        await make().embed_documents(["a", "b"])
    assert caught.value.kind == "request"
    assert len(server.received) == 2


async def test_one_failed_batch_fails_the_call_and_ends_the_others(make, server, answers):
    """Pitfall C84: some vectors missing is not success."""

    def respond(received):
        if received.texts == ["bad"]:
            return answers.Answer({"error": "no"}, status=400)
        return answers.Answer(answers.data(received.texts), delay_s=30)

    server.respond = respond
    with pytest.raises(EmbeddingError) as caught:
        await make(limits={"items": 1}).embed_documents(["good", "bad"])
    assert caught.value.kind == "request"
    async with asyncio.timeout(10):
        await server.abandoned.wait()


async def test_nothing_to_embed_asks_nobody(make, server):
    assert await make().embed_documents([]) == []
    assert server.received == []


async def test_one_client_serves_all_requests_until_the_provider_is_closed(make):
    provider = make()
    await provider.embed_query("a")
    client = vars(provider)["_client"]
    await provider.embed_documents(["a", "b"])
    assert vars(provider)["_client"] is client
    await provider.close()
    await provider.close()
    assert client.is_closed
