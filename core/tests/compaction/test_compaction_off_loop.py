"""What takes time with a long conversation is done in threads, and the event loop goes on meanwhile (P24)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hermitcrab.compaction import reading, view
from hermitcrab.compaction.composing import SummaryTask
from hermitcrab.compaction.summarise import Summariser
from hermitcrab.messages import pairing
from hermitcrab.messages.tokens import TokenCounter, estimate_text
from hermitcrab.models.offline.model import OfflineModel


@pytest.fixture
def on_loop(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done in the thread of the event loop that grows with the conversation."""
    done: list[str] = []
    loop_thread = threading.get_ident()

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() == loop_thread:
                done.append(name)
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(reading, "serialise_message", watched("read", reading.serialise_message))
    monkeypatch.setattr(view, "repair_pairing", watched("repair", pairing.repair_pairing))
    return done


async def test_a_compaction_neither_counts_nor_reads_messages_on_the_event_loop(
    bench: Any, work: Any, on_loop: list[str]
) -> None:
    counted: list[str] = []
    loop_thread = threading.get_ident()

    def count(text: str) -> int:
        if threading.get_ident() == loop_thread:
            counted.append(text)
        return estimate_text(text)

    bench.counter = TokenCounter(count)
    await bench.log.append_messages(work(60))
    compactor = bench.compactor(OfflineModel())
    assert await compactor.has_work(bench.budget(), "manual")
    outcome = await compactor.compact(bench.budget(), trigger="manual", must_fit=False)
    assert outcome.compacted
    assert counted == []
    assert on_loop == []


async def test_the_event_loop_goes_on_while_a_conversation_is_planned(
    bench: Any, work: Any
) -> None:
    """The counter waits for the loop, which could not answer if it were waiting for the counter."""
    loop = asyncio.get_running_loop()

    def count(text: str) -> int:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(timeout=20)
        return len(text)

    bench.counter = TokenCounter(count)
    await bench.log.append_messages(work(3))
    assert await bench.compactor(OfflineModel()).has_work(bench.budget(4_000), "manual")


async def test_several_threads_may_build_views_and_count_at_once(bench: Any, work: Any) -> None:
    messages = work(60, words=400)
    alone = view.ViewBuilder(TokenCounter()).build(messages, bench.budget())
    builder = view.ViewBuilder(TokenCounter(remembered=7))
    views = await asyncio.gather(
        *(asyncio.to_thread(builder.build, messages, bench.budget()) for _ in range(8))
    )
    assert [made.tokens for made in views] == [alone.tokens] * 8
    assert all(made.messages == alone.messages for made in views)


def test_every_message_is_written_out_once(monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    """One reader serves the audit, the summariser and what stands in for it."""
    read: list[int] = []
    serialise_message = reading.serialise_message

    def watched(message: Any) -> str:
        read.append(id(message))
        return serialise_message(message)

    monkeypatch.setattr(reading, "serialise_message", watched)
    counter = TokenCounter()
    reader = reading.MessageReader(counter)
    messages = work(20)
    for _ in range(2):
        summariser = Summariser(OfflineModel(), counter, window=8_000, timeout_s=10, reader=reader)
        asyncio.run(summariser.summarise(SummaryTask(messages=messages)))
    assert reader.total(messages) > 0
    assert sorted(read) == sorted(map(id, messages))
