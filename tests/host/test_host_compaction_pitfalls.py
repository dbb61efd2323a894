"""What users of such systems report of compactions and flushes, each as a whole turn (context 10, notes 8)."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab import hookimpl
from hermitcrab.compaction import HEADINGS
from hermitcrab.context import (
    CompactResult,
    ContextEngine,
    ContextEngineInfo,
    IngestResult,
)
from hermitcrab.errors import ModelAuthError, ModelOverflowError
from hermitcrab.messages import assistant, text_of, user
from hermitcrab.messages.pairing import find_faults
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.models import ChatReply

MAIN = "agent:main:main"
PARAGRAPH = "we look at the harbour plan and at the tide tables of the coming week " * 12
NO_FLUSH = {"memoryFlush": False}


def settings(window=16_000, audited=False, **compaction):
    defaults = {"contextTokens": window, "compaction": compaction}
    entries = {} if audited else {"compaction-safeguard": {"enabled": False}}
    return {"agents": {"defaults": defaults}, "plugins": {"entries": entries}}


def turn(number):
    """A turn of about 400 tokens, with identifiers of its own."""
    return [
        user(f"Step {number}, /srv/app/step_{number}.toml: {PARAGRAPH}"),
        assistant(f"We decided to use port {9000 + number}. {PARAGRAPH}"),
    ]


async def fill(host, tokens, key=MAIN):
    """A conversation of about so many tokens."""
    session = await host.session(key)
    for number in range(tokens // TokenCounter().messages(turn(100))):
        for message in turn(number):
            await session.append(message)
    await session.end_turn()
    return session


def request_tokens(request):
    counter = TokenCounter()
    fixed = counter.text(request.system) + counter.tools(request.tools)
    return fixed + counter.messages(request.messages)


def compactions_of(crab, session):
    return [entry for entry in crab.entries_of(session.file) if entry["type"] == "compaction"]


def write_files(home, number, characters):
    workspace = home / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    for index in range(number):
        line = (
            "one word after another and then one more, and so on to the end of the line of text\n"
        )
        text = f"file {index}\n" + line * (characters // len(line))
        (workspace / f"file-{index}.txt").write_text(text, encoding="utf-8")


@pytest.fixture
def answering(crab):
    """Makes a model whose summaries are what ``summarise`` makes of a request."""

    class Answering(crab.ScriptedModel):
        def __init__(self, *script, summarise, **options):
            super().__init__(*script, **options)
            self.summarise = summarise

        async def complete(self, request):
            if request.purpose not in {"summarise", "merge"}:
                return await super().complete(request)
            self.purposes.append(request.purpose)
            text = self.summarise(request)
            return ChatReply(message=assistant(await text if asyncio.iscoroutine(text) else text))

    return Answering


class TestSummariesThatFail:
    async def test_what_cannot_be_summarised_is_kept_and_never_replaced_by_a_stub(
        self, open_host, crab
    ):
        """P1, C38: "Summary unavailable" once took the place of the whole history."""
        model = crab.ScriptedModel(window=32_000)
        no_key = ModelAuthError("no key for this provider")
        model.failing |= dict.fromkeys(("summarise", "merge"), no_key)
        async with open_host(model, config=settings(32_000, audited=True)) as host:
            session = await fill(host, 12_000)
            count_before = len(session.messages)
            first = await host.compact(MAIN)
            assert (first.status, first.summary) == ("failed", None)
            assert "no key for this provider" in first.reason
            assert compactions_of(crab, session) == []
            assert (await host.send(MAIN, "Go on.")).text == "ok"
            assert len(model.requests[-1].messages) == count_before + 1
            second = await host.compact(MAIN)
        assert (second.status, second.mode) == ("compacted", "deterministic")
        assert second.identifiers_kept == second.identifiers_required > 0
        for heading in HEADINGS:
            assert heading in second.summary
        assert "We decided to use port" in second.summary

    async def test_a_summariser_that_shortens_nothing_ends_in_bounded_calls(
        self, open_host, answering
    ):
        """P4, C27: flush and compaction kept each other going for ever."""
        model = answering(
            summarise=lambda request: "\n".join(map(text_of, request.messages)), window=16_000
        )
        async with open_host(model, config=settings()) as host:
            await fill(host, 13_000)
            compactions = 0
            for _ in range(5):
                reply = await host.send(MAIN, "Go on.")
                assert reply.text == "ok"
                compactions += len(reply.compactions)
        assert 0 < compactions <= 3
        assert model.purposes.count("flush") <= 3 * compactions
        assert len(model.purposes) <= 60

    @pytest.mark.parametrize("text", ["\ud83d", "## Decisions\n- half an emoji \ud83d here"])
    async def test_half_a_character_in_a_summary_does_not_brick_the_session(
        self, open_host, crab, answering, text
    ):
        """C57"""
        model = answering("Here.", "Still here.", summarise=lambda request: text, window=16_000)
        async with open_host(model, config=settings(**NO_FLUSH)) as host:
            session = await fill(host, 13_000)
            reply = await host.send(MAIN, "Go on.")
            assert reply.text == "Here."
            assert reply.compactions[0].compacted
            [entry] = compactions_of(crab, session)
            entry["summary"].encode("utf-8")
        again = crab.ScriptedModel("And after a restart.")
        async with open_host(again, config=settings(**NO_FLUSH)) as host:
            assert (await host.send(MAIN, "hello")).text == "And after a restart."


class TestEngines:
    async def test_an_engine_that_has_failed_neither_assembles_nor_compacts(self, open_host, crab):
        """P9: compaction went to the default engine, the next turn to the broken one, and undid it."""
        asked = []

        class Broken(ContextEngine):
            info = ContextEngineInfo(id="broken", name="Broken")

            async def ingest(self, **params):
                return IngestResult(ingested=True)

            async def assemble(self, **params):
                asked.append("assemble")
                raise RuntimeError("no room for an index")

            async def compact(self, **params):
                asked.append("compact")
                return CompactResult(ok=True, compacted=True)

        @hookimpl
        def register_context_engines(registry):
            registry.register("broken", Broken)

        config = settings(**NO_FLUSH)
        config["plugins"]["slots"] = {"contextEngine": "broken"}
        plugins = [("broken", crab.plugin(register_context_engines))]
        model = crab.ScriptedModel(window=16_000)
        async with open_host(model, config=config, plugins=plugins) as host:
            session = await fill(host, 14_000)
            first = await host.send(MAIN, "Go on.")
            second = await host.send(MAIN, "And on.")
        assert asked == ["assemble"]
        assert first.engine == second.engine == "legacy"
        assert "no room for an index" in second.degraded[0]
        assert len(compactions_of(crab, session)) == len(first.compactions) == 1
        assert len(model.requests[1].messages) > len(model.requests[0].messages)


class TestToolWork:
    async def test_no_request_of_tool_heavy_work_is_too_large_or_torn(self, open_host, crab, home):
        """P2, P3, C93: compacted, and too large again within minutes; or a result without its call."""
        write_files(home, 14, 6_000)
        calls = [crab.calling("read", f"call_{n}", path=f"file-{n}.txt") for n in range(14)]
        model = crab.ScriptedModel(*calls, "Read.", window=8_000)
        config = settings(8_000, audited=True)
        async with open_host(model, config=config) as host:
            await fill(host, 3_000)
            reply = await host.send(MAIN, "Read all files.")
        assert reply.text == "Read."
        assert len(model.requests) == 15
        for request in model.requests:
            assert request_tokens(request) <= 8_000
            faults = find_faults(request.messages)
            assert (faults.orphan_results, faults.missing_results) == (0, 0)
            asked = [text_of(m) for m in request.messages if m["role"] == "user"]
            assert "Read all files." in "\n".join(asked), "the ask is seen to the end (P17)"
        assert 0 < len(reply.compactions) <= 15

    async def test_what_was_done_before_an_overflow_is_not_done_again(self, open_host, crab, home):
        """P17, C14: the turn goes on from the transcript; neither message nor action is repeated."""
        (home / "workspace").mkdir(parents=True)
        writing = crab.calling("write", "call_1", path="log.md", content="moored at pier 9\n")
        model = crab.ScriptedModel(writing, ModelOverflowError("prompt is too long"), "Moored.")
        async with open_host(model, config=settings(64_000, **NO_FLUSH)) as host:
            session = await fill(host, 9_000)
            reply = await host.send(MAIN, "Note that we moored.")
        assert reply.text == "Moored."
        assert reply.compactions[0].trigger == "overflow"
        stored = crab.stored_messages(session.file)
        assert [text_of(m) for m in stored if m["role"] == "user"].count(
            "Note that we moored."
        ) == 1
        assert sum(m["role"] == "toolResult" for m in stored) == 1
        assert len(model.requests) == 3
        last = "\n".join(map(text_of, model.requests[-1].messages))
        assert last.count("Note that we moored.") >= 1
        assert (home / "workspace/log.md").read_text(encoding="utf-8") == "moored at pier 9\n"


class TestFlushes:
    async def test_a_flush_never_brings_about_a_compaction_or_another_flush(self, open_host, crab):
        """P4: what the flush says and does stands in no transcript and counts for no threshold."""
        config = settings(
            32_000, memoryFlush={"softThresholdTokens": 8_000, "forceFlushTranscriptBytes": "1kb"}
        )
        model = crab.ScriptedModel(window=32_000)
        async with open_host(model, config=config) as host:
            session = await fill(host, 20_500)
            size = session.file.stat().st_size
            replies = [await host.send(MAIN, "Go on.") for _ in range(4)]
        assert [len(reply.flushes) for reply in replies] == [1, 0, 0, 0]
        assert all(reply.compactions == () for reply in replies)
        assert "summarise" not in model.purposes
        assert session.file.stat().st_size - size < 8_000

    async def test_the_size_that_forces_a_flush_is_that_of_what_the_model_sees(
        self, open_host, crab
    ):
        """P5: counted over the whole file, the trigger never cleared, and every cycle flushed at once."""
        flush = {"forceFlushTranscriptBytes": "60kb", "softThresholdTokens": 0}
        model = crab.ScriptedModel(window=64_000)
        config = settings(64_000, keepRecentTokens=2_000, memoryFlush=flush)
        async with open_host(model, config=config) as host:
            session = await fill(host, 22_000)
            assert session.file.stat().st_size > 60 * 1024
            assert len((await host.send(MAIN, "Go on.")).flushes) == 1
            assert (await host.compact(MAIN)).compacted
            replies = [await host.send(MAIN, "Go on.") for _ in range(3)]
        assert [len(reply.flushes) for reply in replies] == [0, 0, 0]

    async def test_half_a_character_in_a_note_does_not_cost_the_flush(self, open_host, crab, home):
        """C57"""

        class Noting(crab.ScriptedModel):
            async def complete(self, request):
                if request.purpose != "flush":
                    return await super().complete(request)
                self.purposes.append("flush")
                if self.purposes.count("flush") > 1:
                    return ChatReply(message=assistant("NO_REPLY"))
                words = text_of(request.messages[-1]).split()
                path = next(word.rstrip(".,") for word in words if word.startswith("memory/"))
                note = crab.calling("write", path=path, content="- half \ud83d an emoji")
                return ChatReply(message=note)

        config = settings(memoryFlush={"forceFlushTranscriptBytes": "1kb"})
        async with open_host(Noting(window=16_000), config=config) as host:
            await fill(host, 2_000)
            reply = await host.send(MAIN, "Go on.")
        assert reply.text == "ok"
        assert reply.flushes[0].error is None
        [file] = (home / "workspace/memory").glob("*.md")
        assert "an emoji" in file.read_text(encoding="utf-8")
