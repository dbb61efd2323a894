"""The smaller parts of the algorithm: repeated asks, labels, what is left out, answers, and one request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermitcrab.compaction import HEADINGS, asking
from hermitcrab.compaction.asking import SummaryRequests
from hermitcrab.compaction.composing import SummaryTask
from hermitcrab.compaction.drafting import plugin_draft
from hermitcrab.compaction.files import file_lists
from hermitcrab.compaction.labels import last_moment_ms, part_label, time_span
from hermitcrab.compaction.model_fallback import SummariesWithFallback
from hermitcrab.compaction.oversize import is_oversize, without_oversize
from hermitcrab.compaction.repeats import without_repeated_asks
from hermitcrab.compaction.serialise import IMAGE_NOTES, plain_text, serialise
from hermitcrab.compaction.structure import cut_answer
from hermitcrab.compaction.summarise import Summariser
from hermitcrab.compaction.writing import joined_pieces
from hermitcrab.errors import (
    CompactionError,
    ModelAuthError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

ASK = "Please restart the staging server."
IMAGE: Any = {"type": "image", "data": "QUJD", "mimeType": "image/png"}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_RETRY_MINIMUM_S", 0.0)
    monkeypatch.setattr(asking, "_RETRY_MAXIMUM_S", 0.0)


class TestRepeatedAsks:
    """Context 6.7: a message that was delivered twice is one request."""

    def test_the_same_text_within_a_minute_counts_once(self) -> None:
        first, other = user(ASK, timestamp=0), assistant("On it.")
        again = user("  Please  restart\nthe staging server. ", timestamp=60_000)
        assert without_repeated_asks([first, other, again]) == [first, other]

    def test_each_repetition_is_measured_from_the_one_before(self) -> None:
        messages = [user(ASK, timestamp=moment) for moment in (0, 50_000, 100_000, 170_000)]
        assert without_repeated_asks(messages) == [messages[0], messages[3]]

    @pytest.mark.parametrize(
        "second",
        [
            user(ASK, timestamp=60_001),
            user(ASK.lower(), timestamp=5),
            user([{"type": "text", "text": ASK}, IMAGE], timestamp=5),
            {"role": "user", "content": ASK},
            {"role": "user", "content": ASK, "timestamp": "soon"},
            assistant(ASK, timestamp=5),
        ],
    )
    def test_what_may_be_meant_stays(self, second: Any) -> None:
        messages = [user(ASK, timestamp=0), second]
        assert without_repeated_asks(messages) == messages

    def test_short_texts_stay_however_often_they_come(self) -> None:
        messages = [user("x" * 23, timestamp=1) for _ in range(3)]
        assert without_repeated_asks(messages) == messages
        assert len(without_repeated_asks([user("x" * 24, timestamp=1) for _ in range(3)])) == 1


class TestLabels:
    """Context 4.8, version B"""

    def test_a_part_says_where_it_stands_and_when_it_was(self) -> None:
        messages = [user("a", timestamp=1_767_346_200_000), user("b", timestamp=1_767_351_900_000)]
        span = "2026-01-02 09:30 — 2026-01-02 11:05 UTC"
        assert time_span(messages) == span
        assert part_label(1, 3, messages) == f"[Chunk 1/3 — oldest messages, {span}]"
        assert part_label(2, 3, messages) == f"[Chunk 2/3 — messages between, {span}]"
        assert part_label(3, 3, messages) == f"[Chunk 3/3 — most recent messages, {span}]"
        assert last_moment_ms(messages) == 1_767_351_900_000

    @pytest.mark.parametrize("moment", [None, "yesterday", True, 1e300, float("nan"), -1e18])
    def test_times_that_are_none_are_left_out(self, moment: Any) -> None:
        messages: list[Any] = [{"role": "user", "content": "a", "timestamp": moment}]
        assert part_label(1, 2, messages) == "[Chunk 1/2 — oldest messages]"
        assert last_moment_ms(messages) is None

    def test_earlier_notes_are_older_than_all_parts(self) -> None:
        assert part_label(1, 3, []) == "[Chunk 1/3 — earlier notes, older than all that follows]"


class TestOversize:
    """Context 4.7"""

    @pytest.mark.parametrize(("tokens", "large"), [(4_166, False), (4_167, True), (0, False)])
    def test_a_message_is_too_large_from_half_the_window_on_with_a_margin(
        self, tokens: int, large: bool
    ) -> None:
        assert is_oversize(tokens, 10_000) is large

    def test_the_rest_of_a_batch_goes_with_what_is_too_large(self) -> None:
        calls: Any = [{"id": one, "name": "read", "arguments": {}} for one in "ab"]
        batch = [
            assistant("", tool_calls=calls),
            tool_result("a", "read", "small"),
            tool_result("b", "read", "huge"),
        ]
        messages = [user("go"), *batch, user("on")]

        def count(message: Message) -> int:
            return 5_400 if message is batch[2] else 10

        kept, notes = without_oversize(messages, 10_000, count)
        assert kept == [messages[0], messages[-1]]
        assert notes == ["[Large toolResult (~5K tokens) omitted from summary]"]

    def test_very_many_are_counted_together(self) -> None:
        messages = [user(str(number)) for number in range(30)]
        kept, notes = without_oversize(messages, 100, lambda message: 400)
        assert kept == []
        assert len(notes) == 9
        assert notes[-1] == "[22 more large messages omitted from summary]"

    async def test_a_summary_that_failed_is_tried_without_what_is_too_large(
        self, scripted: Any
    ) -> None:
        large = user("word " * 4_000)
        model = scripted(
            lambda request: (
                ModelRequestError("bad")
                if "word word" in request.messages[0]["content"][0]["text"]
                else "notes"
            )
        )
        summariser = Summariser(model, TokenCounter(), window=8_000, timeout_s=10)
        task = SummaryTask(messages=[user("hello"), large, user("on")])
        summary = await summariser.summarise(task)
        assert summary.text == "notes"
        assert summary.note == "[Large user (~4K tokens) omitted from summary]"
        assert isinstance(summary.failure, ModelRequestError)

    async def test_what_is_all_too_large_is_not_left_out(self, scripted: Any) -> None:
        model = scripted(ModelRequestError("bad"))
        summariser = Summariser(model, TokenCounter(), window=8_000, timeout_s=10)
        with pytest.raises(CompactionError, match="bad"):
            await summariser.summarise(SummaryTask(messages=[user("word " * 4_000)]))


class TestAnswers:
    def test_an_answer_that_may_be_stored_is_left_alone(self) -> None:
        assert cut_answer("\n notes \n", 1_000) == "notes"
        text = "中" * 11_000
        assert cut_answer(text, 1_000) == text

    @pytest.mark.parametrize(("tokens", "most"), [(1, 2_000), (1_000, 12_000), (100_000, 32_000)])
    def test_an_endless_answer_is_cut_in_whole_lines(self, tokens: int, most: int) -> None:
        line = "- And then we looked at the next file.\n"
        cut = cut_answer(line * 100_000, tokens)
        assert most * 0.9 < len(cut) <= most
        assert cut.endswith("next file.")
        assert len(cut_answer("x" * 1_000_000, tokens)) == most

    def test_a_summary_of_a_plugin_is_cut_as_well(self, bench: Any) -> None:
        draft = plugin_draft("x" * 1_000_000, None, budget=bench.budget())
        assert len(draft.answer) <= 32_000
        assert len(draft.sections[HEADINGS[0]]) <= 32_000

    async def test_the_tokens_of_what_is_cut_are_never_counted(
        self, bench: Any, work: Any, scripted: Any
    ) -> None:
        """A model that answers 300 KB costs no more time than any other."""
        longest = 0

        def count(text: str) -> int:
            nonlocal longest
            longest = max(longest, len(text))
            return len(text) // 4

        bench.counter = TokenCounter(count)
        await bench.log.append_messages(work(40))
        await bench.log.append_messages([assistant("done")])
        largest = 34_000
        for decision in (None, "plugin"):
            bench.decision = decision and _decision("The next file was like it. " * 12_000)
            outcome = await bench.compact(scripted("The next file was like it. " * 12_000))
            assert outcome.compacted
            await bench.log.append_messages(work(40))
        assert longest <= largest


def _decision(summary: str) -> Any:
    from hermitcrab.hooks import CompactionDecision

    return CompactionDecision(summary=summary)


class TestImages:
    def test_images_of_many_messages_are_counted_together(self) -> None:
        """Context 4.11, version B"""
        shown = [user([{"type": "text", "text": f"look {number}"}, IMAGE]) for number in range(11)]
        text = serialise(shown)
        assert text.count("[1 image not shown]") == IMAGE_NOTES
        assert text.endswith("[3 more images in 3 messages not shown]")
        assert "[User]: look 10" in text
        assert "more images" not in serialise(shown[:IMAGE_NOTES])


class TestRequests:
    @pytest.mark.parametrize("error", [ModelTimeoutError("slow"), ModelAuthError("no")])
    async def test_neither_a_timeout_nor_a_refusal_is_tried_again(
        self, scripted: Any, error: Exception
    ) -> None:
        """Context 4.6: whoever took too long once takes too long again."""
        model = scripted(error)
        summariser = Summariser(model, TokenCounter(), window=8_000, timeout_s=10)
        with pytest.raises(CompactionError):
            await summariser.summarise(SummaryTask(messages=[user("a"), user("b")]))
        assert len(model.requests) == 1

    @pytest.mark.parametrize("attempt", [1, 2, 3, 20])
    def test_waits_double_within_bounds(
        self, monkeypatch: pytest.MonkeyPatch, attempt: int
    ) -> None:
        """Context 4.1: 500 ms times two to the power of the attempt, a fifth more at most, never over 5 s."""
        monkeypatch.setattr(asking, "_RETRY_MINIMUM_S", 0.5)
        monkeypatch.setattr(asking, "_RETRY_MAXIMUM_S", 5.0)
        state: Any = type("State", (), {"attempt_number": attempt, "outcome": None})()
        waits = [asking._retry_wait_s(state) for _ in range(200)]
        least = min(5.0, 0.5 * 2.0 ** (attempt - 1))
        assert all(least <= wait <= min(5.0, least * 1.2) for wait in waits)
        assert len(set(waits)) > 1 or attempt == 20

    async def test_cancelling_while_it_waits_asks_no_more(
        self, scripted: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(asking, "_RETRY_MINIMUM_S", 60.0)
        monkeypatch.setattr(asking, "_RETRY_MAXIMUM_S", 60.0)
        asked = asyncio.Event()

        def step(request: Any) -> Exception:
            asked.set()
            return ModelUnavailableError("gone")

        model = scripted(step)
        task = asyncio.create_task(
            SummaryRequests(model, timeout_s=10).ask("summarise", "s", [user("a")], 100)
        )
        await asyncio.wait_for(asked.wait(), timeout=10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(model.requests) == 1


class TestModelFallback:
    """P25: fallback for failures of a provider, not for answers that are no good, nor when cancelled."""

    def sources(self, *models: Any, timeout_s: float = 10) -> SummariesWithFallback:
        first, second = (
            Summariser(model, TokenCounter(), window=8_000, timeout_s=timeout_s) for model in models
        )
        return SummariesWithFallback(first, second)

    @pytest.mark.parametrize(
        "failure",
        [
            ModelAuthError("no key"),
            ModelRequestError("bad"),
            ModelUnavailableError("gone"),
            ModelTimeoutError("slow"),
            KeyError("choices"),
            None,
        ],
    )
    async def test_the_own_model_writes_where_the_other_provider_fails(
        self, scripted: Any, failure: Exception | None
    ) -> None:
        own = scripted("notes")
        sources = self.sources(scripted(failure), own, timeout_s=0.05 if failure is None else 10)
        summary = await sources.summarise(SummaryTask(messages=[user("a"), user("b")]))
        assert summary.text == "notes"
        assert summary.remark.startswith("the summary model scripted/model is not used: ")
        assert len(own.requests) == 1

    async def test_an_answer_that_is_no_good_is_not_asked_for_elsewhere(
        self, scripted: Any
    ) -> None:
        own = scripted("notes")
        with pytest.raises(CompactionError, match="no summary text"):
            await self.sources(scripted(""), own).summarise(SummaryTask(messages=[user("a")]))
        assert own.requests == []

    async def test_cancelling_ends_both(self, scripted: Any) -> None:
        asked = asyncio.Event()
        first, own = scripted(lambda request: asked.set()), scripted("notes")
        task = asyncio.create_task(
            self.sources(first, own).summarise(SummaryTask(messages=[user("a")]))
        )
        await asyncio.wait_for(asked.wait(), timeout=10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (first.cancelled, own.requests) == (1, [])

    async def test_where_both_fail_both_are_named(self, scripted: Any) -> None:
        sources = self.sources(
            scripted(ModelAuthError("no key")), scripted(ModelRequestError("bad"))
        )
        with pytest.raises(CompactionError, match=r"no key.*summarization_failed: bad"):
            await sources.summarise(SummaryTask(messages=[user("a")]))

    async def test_half_a_summary_is_better_than_none(self, scripted: Any) -> None:
        bad = ModelRequestError("bad")
        messages = [user("word " * 1_500), user("word " * 1_500), user("word " * 1_500)]
        first = scripted("one", bad, "one again", bad)
        task = SummaryTask(messages=messages, max_tokens=300)
        summary = await self.sources(first, scripted(bad)).summarise(task)
        assert summary.text == "one"
        assert "could not be summarised" in summary.note
        whole = await self.sources(scripted("one", bad, "one", bad), scripted("all")).summarise(
            task
        )
        assert (whole.text, whole.note) == ("all", "")


def test_a_result_of_white_space_alone_holds_no_identifiers() -> None:
    """Its compaction once failed with an IndexError."""
    assert plain_text(tool_result("1", "read", " \n" * 4_000)).strip() == ""
    call: Any = {"id": "1", "name": "write", "arguments": {"text": "\n" * 4_000}}
    assert plain_text(assistant("", tool_calls=[call])).strip() == ""


def test_pieces_hold_every_text_once() -> None:
    texts = [str(number) for number in range(100)]
    pieces = joined_pieces(texts, 20)
    assert "\n".join(pieces).split("\n") == texts
    assert len(pieces) > 5
    assert joined_pieces([], 20) == [""]


def test_files_are_known_from_patches_and_from_tools_of_servers_too() -> None:
    """Context 4.11, version B"""
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n*** Move to: b.py\n*** Add File: c d.md \n+x"
    )
    calls: Any = [
        {"id": "1", "name": "mcp__files__read", "arguments": {"filePath": "seen.py"}},
        {"id": "2", "name": "Edit", "arguments": {"file_path": "changed.py"}},
        {"id": "3", "name": "apply_patch", "arguments": {"input": patch}},
        {"id": "4", "name": "apply_patch", "arguments": {"patch": 7}},
        {"id": "5", "name": "thread", "arguments": {"path": "not_read.py"}},
    ]
    lists = file_lists([assistant("", tool_calls=calls)], None)
    assert lists.read == ["seen.py"]
    assert lists.modified == ["changed.py", "a.py", "b.py", "c d.md"]
