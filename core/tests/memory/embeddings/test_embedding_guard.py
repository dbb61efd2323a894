"""Whoever made a provider, it is held to its contract, left alone when that is due, and replaced once (memory 5.7)."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.errors import EmbeddingError
from hermitcrab.memory import EmbeddingProvider
from hermitcrab.memory.embeddings.guard import (
    FAILURES_BEFORE_FALLBACK,
    PAUSE_S,
    GuardedEmbeddings,
)
from hermitcrab.memory.embeddings.vectors import checked_vectors


class Provider(EmbeddingProvider):
    """Raises what stands in ``failing``, else gives what stands in ``answer``, else vectors of ``dims`` ones."""

    def __init__(self, name="one", dims=2):
        self.id, self.model, self.dims = name, "m", dims
        self.failing = None
        self.answer = None
        self.asked = []
        self.closed = 0

    async def embed_documents(self, texts):
        self.asked += texts
        if self.failing is not None:
            raise self.failing
        return [[1.0] * self.dims for _ in texts] if self.answer is None else self.answer

    async def embed_query(self, text):
        return (await self.embed_documents([text]))[0]

    def fingerprint(self):
        return f"fingerprint of {self.id}"

    async def close(self):
        self.closed += 1


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def failed(kind, **values):
    return EmbeddingError("it failed", kind=kind, **values)


async def failure_of(call) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        await call
    return caught.value


@given(st.lists(st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-3), min_size=1, max_size=9))
def test_vectors_come_out_with_length_one_and_the_same_direction(numbers):
    (vector,) = checked_vectors([numbers], count=1, dims=0, where="x")
    assert math.isclose(math.hypot(*vector), 1.0)
    again = checked_vectors([vector], count=1, dims=len(numbers), where="x")
    assert again == [vector]
    assert math.isclose(
        sum(a * b for a, b in zip(vector, numbers, strict=True)), math.hypot(*numbers)
    )


def test_a_vector_of_zeros_stays_as_it_is():
    assert checked_vectors([[0, 0]], count=1, dims=2, where="x") == [[0.0, 0.0]]


async def test_a_weighed_query_goes_through_the_same_checks():
    class Weighing(Provider):
        weighs_words = True

        async def embed_weighed_query(self, text, weights):
            self.asked.append((text, weights))
            return self.answer or [0.0, 2.0]

    provider = Weighing()
    guard = GuardedEmbeddings(provider)
    assert guard.weighs_words
    assert await guard.embed_weighed_query("a \ud83d", {"a": 2.0}) == [0.0, 1.0]
    assert provider.asked == [("a \ufffd", {"a": 2.0})]
    provider.answer = [1.0]
    assert (await failure_of(guard.embed_weighed_query("a", {}))).kind == "answer"


async def test_a_provider_that_weighs_nothing_gives_its_plain_vector():
    guard = GuardedEmbeddings(Provider())
    assert not guard.weighs_words
    assert await guard.embed_weighed_query("a", {"a": 2.0}) == await guard.embed_query("a")


@pytest.mark.parametrize(
    "answer",
    [7, "text", {}, [], [[1.0]], [[1.0, 2.0, 3.0]], [[]], [[math.nan, 1]], [[math.inf, 1]],
     [["1", "2"]], [[1, 2], [1, 2]], [None], [[1, None]]],
)  # fmt: skip
async def test_what_a_plugin_answers_is_checked(answer):
    """Pitfall 35."""
    provider = Provider()
    provider.answer = answer
    error = await failure_of(GuardedEmbeddings(provider).embed_documents(["a"]))
    assert error.kind == "answer"
    assert error.where == "one/m"


async def test_arrays_are_vectors_too():
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    provider = Provider()
    provider.answer = numpy.array([[3.0, 4.0]], dtype="float32")
    (vector,) = await GuardedEmbeddings(provider).embed_documents(["a"])
    assert vector == pytest.approx([0.6, 0.8])
    assert type(vector[0]) is float


async def test_the_first_answer_fixes_the_length():
    """C83."""
    provider = Provider(dims=0)
    guard = GuardedEmbeddings(provider)
    provider.answer = [[1.0, 0.0, 0.0]]
    await guard.embed_documents(["a"])
    assert guard.dims == 3
    provider.answer = [[1.0, 0.0]]
    assert (await failure_of(guard.embed_query("a"))).kind == "answer"


async def test_what_a_plugin_raises_becomes_a_typed_error_without_secrets(caplog):
    """Pitfall 21."""
    provider = Provider()
    provider.failing = RuntimeError("no luck with secret-123456")
    guard = GuardedEmbeddings(provider, secrets=("secret-123456",))
    error = await failure_of(guard.embed_query("a"))
    assert error.kind == "transient"
    assert "RuntimeError: no luck with [redacted]" in str(error)
    assert error.__cause__ is provider.failing


async def test_texts_are_encodable_and_blank_queries_are_not_asked():
    provider = Provider()
    guard = GuardedEmbeddings(provider)
    await guard.embed_documents(["broken \ud83d text"])
    provider.asked[0].encode()
    assert (await failure_of(guard.embed_query(" \n"))).kind == "request"
    assert await guard.embed_documents([]) == []
    assert len(provider.asked) == 1


@pytest.mark.parametrize("kind", ["quota", "auth"])
async def test_what_is_final_is_not_asked_again_for_a_while(kind):
    """C88."""
    provider, clock = Provider(), Clock()
    guard = GuardedEmbeddings(provider, now=clock)
    provider.failing = failed(kind)
    first = await failure_of(guard.embed_query("a"))
    provider.failing = None
    clock.now = PAUSE_S - 1
    again = await failure_of(guard.embed_documents(["b"]))
    assert (again.kind, str(again)) == (kind, str(first))
    assert provider.asked == ["a"]
    clock.now = PAUSE_S
    assert await guard.embed_query("c")


async def test_a_pause_that_a_provider_names_is_kept():
    """C85."""
    provider, clock = Provider(), Clock()
    guard = GuardedEmbeddings(provider, now=clock)
    provider.failing = failed("transient", retry_after_s=20)
    await failure_of(guard.embed_query("a"))
    provider.failing = None
    clock.now = 19
    await failure_of(guard.embed_query("a"))
    clock.now = 20
    assert await guard.embed_query("a")


async def test_what_may_pass_is_asked_again_at_once():
    provider = Provider()
    guard = GuardedEmbeddings(provider)
    for _ in range(5):
        provider.failing = failed("transient")
        await failure_of(guard.embed_query("a"))
    provider.failing = None
    assert await guard.embed_query("a")


async def test_a_probe_tells_and_ends_a_pause():
    provider, clock = Provider(dims=0), Clock()
    guard = GuardedEmbeddings(provider, now=clock)
    provider.failing = failed("quota")
    await failure_of(guard.embed_query("a"))
    assert (await guard.probe()).error == "it failed"
    provider.failing = ValueError("odd")
    assert "ValueError: odd" in (await guard.probe()).error
    provider.failing, provider.answer = None, [[1.0, math.nan]]
    assert not (await guard.probe()).ok
    provider.answer = [[1.0, 2.0]]
    assert (await guard.probe()).ok
    assert guard.dims == 2
    assert await guard.embed_query("a")


async def test_what_fails_for_good_is_replaced_and_the_call_says_so():
    """Pitfall 23: vectors of two providers never come from one call, nor under one fingerprint."""
    first, second = Provider("first"), Provider("second", dims=5)
    guard = GuardedEmbeddings(first, fallback=lambda: second)
    first.failing = failed("quota")
    error = await failure_of(guard.embed_documents(["a"]))
    assert error.kind == "switched"
    assert "first/m failed (it failed); second/m takes its place" in str(error)
    assert second.asked == []
    assert (guard.id, guard.model, guard.dims) == ("second", "m", 5)
    assert guard.fingerprint() == "fingerprint of second"
    assert len(await guard.embed_query("a")) == 5
    assert guard.switch_reason in str(error)


async def test_what_may_pass_is_replaced_when_it_does_not_pass():
    first, second = Provider("first"), Provider("second")
    guard = GuardedEmbeddings(first, fallback=lambda: second)
    for _ in range(FAILURES_BEFORE_FALLBACK - 1):
        first.failing = failed("transient")
        assert (await failure_of(guard.embed_query("a"))).kind == "transient"
    first.failing = None
    await guard.embed_query("a")
    kinds = []
    for _ in range(FAILURES_BEFORE_FALLBACK):
        first.failing = failed("transient")
        kinds.append((await failure_of(guard.embed_query("a"))).kind)
    assert kinds == ["transient"] * (FAILURES_BEFORE_FALLBACK - 1) + ["switched"]


async def test_it_is_replaced_once():
    second = Provider("second")
    guard = GuardedEmbeddings(first := Provider("first"), fallback=lambda: second)
    first.failing = second.failing = failed("auth")
    assert (await failure_of(guard.embed_query("a"))).kind == "switched"
    assert (await failure_of(guard.embed_query("a"))).kind == "auth"
    assert guard.id == "second"


async def test_a_fallback_that_cannot_be_made_changes_nothing():
    def no_fallback():
        raise failed("auth")

    first = Provider("first")
    guard = GuardedEmbeddings(first, fallback=no_fallback)
    first.failing = failed("quota")
    assert (await failure_of(guard.embed_query("a"))).kind == "quota"
    assert (guard.id, guard.switch_reason) == ("first", None)


async def test_an_answer_that_comes_after_the_switch_is_not_handed_out():
    """It would stand under the other provider's fingerprint."""

    class Slow(Provider):
        release = asyncio.Event()

        async def embed_documents(self, texts):
            await self.release.wait()
            return await super().embed_documents(texts)

    first = Slow("first")
    guard = GuardedEmbeddings(first, fallback=lambda: Provider("second"))
    late = asyncio.ensure_future(guard.embed_documents(["a"]))
    await asyncio.sleep(0)
    first.embed_query = lambda text: _raise(failed("quota"))
    assert (await failure_of(guard.embed_query("b"))).kind == "switched"
    first.release.set()
    assert (await failure_of(late)).kind == "switched"


async def _raise(error):
    raise error


async def test_cancelling_is_no_failure():
    provider = Provider()
    guard = GuardedEmbeddings(provider, fallback=lambda: Provider("second"))
    for _ in range(FAILURES_BEFORE_FALLBACK + 1):
        provider.failing = asyncio.CancelledError()
        with pytest.raises(asyncio.CancelledError):
            await guard.embed_query("a")
    assert guard.id == "one"


async def test_closing_closes_both_and_a_failure_there_is_logged(caplog):
    first, second = Provider("first"), Provider("second")
    guard = GuardedEmbeddings(first, fallback=lambda: second)
    first.failing = failed("quota")
    await failure_of(guard.embed_query("a"))
    second.close = lambda: _raise(RuntimeError("stuck"))
    await guard.close()
    assert first.closed == 1
    assert "second" in caplog.text
