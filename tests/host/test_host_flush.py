"""The flush: when it runs, what it may do, and that it never costs a reply (memory 8, context 6.10)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta

import pytest

from hermitcrab import hookimpl
from hermitcrab.errors import ModelUnavailableError
from hermitcrab.hooks import FlushRequest
from hermitcrab.messages import assistant, text_of, user
from hermitcrab.models import ChatReply, TextDelta

MAIN = "agent:main:main"


def settings(**compaction):
    return {"agents": {"defaults": {"userTimezone": "UTC", "compaction": compaction}}}


def noon():
    return datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


async def fill(host, turns=12, size=400, key=MAIN):
    session = await host.session(key)
    for number in range(turns):
        await session.append(user(f"Step {number}: " + "we look at the harbour plan " * size))
        await session.append(assistant(f"Step {number} is noted."))
    await session.end_turn()
    return session


async def entry_of(host):
    return (await host.open_session(MAIN)).log.entry


@pytest.fixture
def flushing(crab):
    """Makes a model whose flushes go by a script: a list of messages to answer with, and then ``NO_REPLY``."""

    class Flushing(crab.ScriptedModel):
        def __init__(self, *flush, window=16_000, turns=()):
            super().__init__(*turns, window=window)
            self.flush = list(flush)
            self.flushes = []

        async def complete(self, request):
            if request.purpose != "flush":
                return await super().complete(request)
            self.purposes.append("flush")
            self.flushes.append(request)
            item = self.flush.pop(0) if self.flush else "NO_REPLY"
            item = item(request) if callable(item) else item
            if isinstance(item, Exception):
                raise item
            return ChatReply(message=assistant(item) if isinstance(item, str) else item)

    return Flushing


def writing(crab, content, path="memory/2026-03-01.md"):
    return crab.calling("write", path=path, content=content)


class TestWhen:
    async def test_it_runs_below_the_threshold_of_compaction_by_tokens(self, open_host, flushing):
        """P15: the margin lies strictly below; the flush of the first cycle runs too."""
        model = flushing(window=32_000)
        async with open_host(model) as host:
            await fill(host, turns=9)
            reply = await host.send(MAIN, "Go on.")
            entry = await entry_of(host)
        assert (len(reply.flushes), reply.compactions) == (1, ())
        assert (entry.flushed_cycle, entry.compaction_count) == (0, 0)

    async def test_it_runs_by_bytes_whatever_the_tokens_say(self, open_host, flushing):
        config = settings(memoryFlush={"forceFlushTranscriptBytes": "20kb"})
        async with open_host(flushing(window=1_000_000), config=config) as host:
            await fill(host, turns=3)
            assert len((await host.send(MAIN, "Go on.")).flushes) == 1

    async def test_zero_bytes_are_off_and_a_small_context_is_left_alone(self, open_host, flushing):
        config = settings(memoryFlush={"forceFlushTranscriptBytes": 0})
        async with open_host(flushing(window=1_000_000), config=config) as host:
            await fill(host, turns=3)
            assert (await host.send(MAIN, "Go on.")).flushes == ()

    async def test_it_runs_once_in_every_cycle_the_first_included(self, open_host, flushing):
        """P15: every other cycle was left out, because the marker held the count after the compaction."""
        async with open_host(flushing()) as host:
            flushed = []
            for _ in range(4):
                await fill(host)
                reply = await host.send(MAIN, "Go on.")
                assert reply.compactions[0].compacted
                flushed.append((len(reply.flushes), (await entry_of(host)).flushed_cycle))
        assert flushed == [(1, 0), (1, 1), (1, 2), (1, 3)]

    async def test_a_plugin_may_ask_for_it_before_a_compaction_the_flush_of_which_has_run(
        self, open_host, crab, flushing
    ):
        @hookimpl
        def before_compaction(event, ctx):
            return FlushRequest(flush=True)

        async with open_host(
            flushing(), plugins=[("saver", crab.plugin(before_compaction))]
        ) as host:
            await fill(host)
            assert len((await host.send(MAIN, "Go on.")).flushes) == 1

    @pytest.mark.parametrize("off", [False, {"enabled": False}])
    async def test_it_can_be_switched_off_in_two_ways(self, open_host, flushing, off):
        model = flushing()
        async with open_host(model, config=settings(memoryFlush=off)) as host:
            await fill(host)
            assert (await host.send(MAIN, "Go on.")).compactions[0].compacted
        assert model.flushes == []

    async def test_true_means_the_defaults(self, open_host, flushing):
        model = flushing(window=32_000)
        async with open_host(model, config=settings(memoryFlush=True)) as host:
            await fill(host, turns=9)
            await host.send(MAIN, "Go on.")
        assert len(model.flushes) == 1

    async def test_a_workspace_that_cannot_be_written_is_skipped(
        self, open_host, flushing, monkeypatch
    ):
        model = flushing()
        async with open_host(model) as host:
            await fill(host)
            monkeypatch.setattr(os, "access", lambda path, mode: False)
            reply = await host.send(MAIN, "Go on.")
        assert (model.flushes, reply.flushes) == ([], ())
        assert reply.compactions[0].compacted


class TestWhat:
    async def test_it_sees_the_conversation_and_two_tools_and_leaves_no_trace_in_it(
        self, open_host, crab, flushing
    ):
        """P4, C27: detached, so that it can trigger no compaction of its own."""
        heron = writing(crab, "- The heron nests in spring.")
        model = flushing(heron, window=32_000)
        async with open_host(model, config=settings(), clock=noon) as host:
            session = await fill(host, turns=9)
            reply = await host.send(MAIN, "Go on.")
            stored = crab.stored_messages(session.file)
        assert [tool.name for tool in model.flushes[0].tools] == ["read", "write"]
        assert reply.flushes[0].bytes_written > 0
        assert model.purposes.count("flush") == 2
        assert "heron" not in str(stored)
        assert "NO_REPLY" not in str(stored)

    async def test_other_tools_and_other_files_are_refused(self, open_host, crab, flushing, home):
        calls = [
            crab.calling("exec", command="ls"),
            writing(crab, "no", path="MEMORY.md"),
            writing(crab, "no", path="memory/2026-03-02.md"),
            writing(crab, "- yes"),
        ]
        model = flushing(*calls, window=32_000)
        async with open_host(model, config=settings(), clock=noon) as host:
            await fill(host, turns=9)
            reply = await host.send(MAIN, "Go on.")
        assert reply.flushes[0].error is None
        results = [m for m in model.flushes[-1].messages if m["role"] == "toolResult"]
        assert [bool(result.get("isError")) for result in results] == [True, True, True, False]
        assert not (home / "workspace/MEMORY.md").exists()
        assert os.listdir(home / "workspace/memory") == ["2026-03-01.md"]

    async def test_what_the_file_says_already_stays_and_is_not_said_again(
        self, open_host, crab, flushing, home
    ):
        """C65, C67"""
        (home / "workspace/memory").mkdir(parents=True)
        file = home / "workspace/memory/2026-03-01.md"
        file.write_text("- The port is 8443.\n")
        again = "- The port is 8443.\n- The heron nests in spring.\n"
        model = flushing(writing(crab, again), "NO_REPLY", writing(crab, again))
        async with open_host(model, config=settings(), clock=noon) as host:
            for _ in range(2):
                await fill(host)
                await host.send(MAIN, "Go on.")
        text = file.read_text()
        assert text.startswith("- The port is 8443.\n")
        assert (text.count("8443"), text.count("heron")) == (1, 1)

    async def test_its_day_is_fixed_when_it_begins_though_midnight_passes(
        self, open_host, crab, flushing, home
    ):
        """C68: several requests, the second of them on the next day."""
        moments = [datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)]

        def past_midnight(request):
            moments.append(moments[-1] + timedelta(hours=1))
            target = "memory/2026-03-01.md"
            assert target in text_of(request.messages[-1])
            return writing(crab, f"- Noted {len(moments)}.", path=target)

        model = flushing(past_midnight, "NO_REPLY", past_midnight, "NO_REPLY")
        config = settings()
        config["agents"]["defaults"]["userTimezone"] = "UTC"
        async with open_host(model, config=config, clock=lambda: moments[-1]) as host:
            # Larger than one request of the flush, so that it takes two.
            await fill(host, turns=24)
            reply = await host.send(MAIN, "Go on.")
        assert reply.flushes[0].path == "memory/2026-03-01.md"
        assert len(moments) == 3
        assert os.listdir(home / "workspace/memory") == ["2026-03-01.md"]

    async def test_the_day_is_the_users(self, open_host, flushing):
        config = settings()
        config["agents"]["defaults"]["userTimezone"] = "Asia/Tokyo"
        late = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
        async with open_host(flushing(), config=config, clock=lambda: late) as host:
            await fill(host)
            reply = await host.send(MAIN, "Go on.")
        assert reply.flushes[0].path == "memory/2026-03-02.md"


class TestFailure:
    async def test_it_is_counted_and_after_three_turns_the_cycle_is_done(self, open_host, flushing):
        """P16, C73: the reply is delivered each time, and nothing is tried for ever."""
        model = flushing(*[ModelUnavailableError("the server is down")] * 9, window=32_000)
        async with open_host(model) as host:
            await fill(host, turns=9)
            seen = []
            for _ in range(5):
                reply = await host.send(MAIN, "Go on.")
                assert reply.text == "ok"
                entry = await entry_of(host)
                seen.append((len(reply.flushes), entry.flush_failures, entry.flushed))
            status = (await host.send(MAIN, "/status")).text
        assert seen == [(1, 1, False), (1, 2, False), (1, 3, True), (0, 3, True), (0, 3, True)]
        assert "failed 3 times: the server is down" in status

    async def test_it_is_tried_once_a_turn_however_many_rounds_that_has(
        self, open_host, crab, flushing
    ):
        """P7, P16: a provider that hangs must not hold up each round again."""
        calls = [crab.calling("read", f"c{n}", path=f"{n}.md") for n in range(4)]
        failures = [ModelUnavailableError("the server is down")] * 9
        model = flushing(*failures, window=32_000, turns=calls)
        async with open_host(model) as host:
            await fill(host, turns=9)
            reply = await host.send(MAIN, "Go on.")
        assert len(model.flushes) == len(reply.flushes) == 1

    async def test_the_next_cycle_begins_afresh(self, open_host, flushing):
        model = flushing(*[ModelUnavailableError("the server is down")] * 2)
        async with open_host(model) as host:
            await fill(host)
            assert (await host.send(MAIN, "Go on.")).flushes[0].error
            await fill(host)
            await host.send(MAIN, "Go on.")
            await fill(host)
            reply = await host.send(MAIN, "Go on.")
            assert reply.flushes[0].error is None
            assert (await entry_of(host)).flush_failures == 0


class TestSilence:
    @pytest.mark.parametrize(
        "pieces",
        [
            ["NO_REPLY"],
            ["NO", "_RE", "PLY\n"],
            ['{"act', 'ion": ', '"NO_REPLY"}'],
            ["NO_REPLY ", "NO_REPLY"],
        ],
    )
    async def test_a_silent_reply_is_delivered_neither_whole_nor_in_pieces(
        self, open_host, crab, pieces
    ):
        """P16: internal replies leaked to the user, or their first letters did."""

        class Streaming(crab.ScriptedModel):
            async def stream(self, request):
                for piece in pieces:
                    yield TextDelta(piece)
                yield ChatReply(message=assistant("".join(pieces)))

        async with open_host(Streaming()) as host:
            events = [event async for event in host.stream(MAIN, "hello")]
        assert not [event for event in events if isinstance(event, TextDelta)]
        assert (events[-1].text, events[-1].silent) == ("", True)

    async def test_json_that_says_something_else_is_shown(self, open_host, crab):
        pieces = ['{"action"', ': "', 'open"}']

        class Streaming(crab.ScriptedModel):
            async def stream(self, request):
                for piece in pieces:
                    yield TextDelta(piece)
                yield ChatReply(message=assistant("".join(pieces)))

        async with open_host(Streaming()) as host:
            events = [event async for event in host.stream(MAIN, "hello")]
        shown = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert shown == events[-1].text == '{"action": "open"}'


_FLUSHING_PROCESS = """
    import asyncio, sys
    from pathlib import Path
    from zoneinfo import ZoneInfo
    from datetime import UTC, datetime
    from hermitcrab.memory.flush import run_flush
    from hermitcrab.messages import assistant, user
    from hermitcrab.models import ChatModel, ChatReply

    folder, name = Path(sys.argv[1]), sys.argv[2]

    class Writer(ChatModel):
        id = "writer"
        left = 20

        async def complete(self, request):
            if not self.left:
                return ChatReply(message=assistant("NO_REPLY"))
            self.left -= 1
            calls = [
                {"id": f"c{n}", "name": "write", "arguments": {
                    "path": "memory/2026-03-01.md", "content": f"- {name} says {self.left} and {n}."}}
                for n in range(5)
            ]
            return ChatReply(message=assistant("", tool_calls=calls))

    async def main():
        for _ in range(4):
            await run_flush(
                Writer(), messages=[user("hello")], workspace=folder / "workspace",
                now=datetime(2026, 3, 1, 12, tzinfo=UTC), zone=ZoneInfo("UTC"),
                lock_path=folder / "flush.lock",
            )

    asyncio.run(main())
"""


def test_two_processes_that_flush_at_once_both_keep_what_they_wrote(tmp_path):
    """C66"""
    (tmp_path / "workspace").mkdir()
    program = textwrap.dedent(_FLUSHING_PROCESS)
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name])
        for name in ("left", "right")
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    lines = (tmp_path / "workspace/memory/2026-03-01.md").read_text().splitlines()
    said = [line for line in lines if line.strip()]
    assert len(said) == len(set(said))
    assert {line.split()[1] for line in said} == {"left", "right"}
    assert sum("left" in line for line in said) == sum("right" in line for line in said) == 30
