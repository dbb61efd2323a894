"""Chat and compaction with a real model behind a real server (field notes 5)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import aclosing

import pytest
import yaml

from hermitcrab.errors import ModelUnavailableError
from hermitcrab.messages import text_of
from hermitcrab.messages.pairing import find_faults
from hermitcrab.models import TextDelta

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MAIN = "agent:main:main"
#: A request that this model answers at length.
STORY = "Write a long story about a boat."
NOTE = (
    "For the minutes: the harbour office moved the ferry to pier {n}, the ticket price is {n} crowns, and "
    "captain Olsen sails at {n} o'clock with the green boat. Nobody may park in front of the red shed, and the "
    "lighthouse keeper wants his ladder number {n} back before the storm. Answer in one short sentence."
)


def program(home, *args, **more):
    """The installed program as a process of its own."""
    environ = {name: value for name, value in os.environ.items() if "HERMITCRAB" not in name}
    return subprocess.run(
        [sys.executable, "-m", "hermitcrab", *args],
        env=environ | {"HERMITCRAB_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
        **more,
    )


def transcript_of(home):
    (file,) = (home / "agents/main/sessions").glob("*.jsonl")
    return file


def test_a_piped_chat_answers_and_knows_the_window_of_the_server(home, crab, small_window):
    home.mkdir()
    config = small_window.config(max_tokens=24)
    (home / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    done = program(home, "chat", input="Say hello to Anna.\nAnd to Bert.\n")
    assert "window 2,048 tokens" in done.stderr
    assert len([line for line in done.stdout.splitlines() if line.strip()]) >= 2
    said = crab.stored_messages(transcript_of(home))
    assert [message["role"] for message in said] == ["user", "assistant"] * 2
    for answer in (said[1], said[3]):
        assert answer["content"][0]["text"].strip() in done.stdout
        assert 0 < answer["usage"]["output"] <= 24
        assert (answer["provider"], answer["model"]) == ("local", "small")
    assert "0 findings" in program(home, "sessions", "verify").stdout


async def test_an_answer_arrives_piece_by_piece(open_host, small_window):
    async with open_host(config=small_window.config(max_tokens=24)) as host:
        events = [event async for event in host.stream(MAIN, "Count from one to twenty.")]
    pieces = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(pieces) > 3
    assert "".join(pieces) == events[-1].text


async def test_a_conversation_that_outgrows_the_window_is_compacted_and_goes_on(
    open_host, crab, home, small_window
):
    """Every request fits what the server serves: it would refuse a larger one."""
    compacted, flushes, number = [], [], 0
    async with open_host(config=small_window.config(max_tokens=24)) as host:
        while not compacted and number < 12:
            number += 1
            reply = await host.send(MAIN, f"{NOTE.format(n=number)} {NOTE.format(n=number + 50)}")
            compacted += reply.compactions
            flushes += reply.flushes
        assert compacted
        assert all(outcome.compacted for outcome in compacted)
        assert flushes, "the flush goes before the compaction"
        after = await host.send(MAIN, "Who sails the green boat?")
        assert after.text.strip()
        assert after.usage.input + after.usage.cache_read < 2048
        session = await host.session(MAIN)
        view = (await session.assemble()).messages
        faults = find_faults(view)
        assert (faults.orphan_results, faults.missing_results) == (0, 0)
    entries = crab.entries_of(transcript_of(home))
    summary = next(entry["summary"] for entry in entries if entry["type"] == "compaction")
    assert summary in text_of(view[0])
    asked = [m for m in crab.stored_messages(transcript_of(home)) if m["role"] == "user"]
    assert len(asked) == number + 1
    assert list((home / "workspace/memory").glob("*.md"))
    assert "0 findings" in program(home, "sessions", "verify").stdout


async def words_until_idle(server):
    """How many tokens of its present answer the server had written when it was last seen at work."""
    written = 0
    while True:
        slot = await asyncio.to_thread(server.slot)
        if not slot["is_processing"]:
            return written
        written = slot["next_token"][0]["n_decoded"]
        await asyncio.sleep(0.1)


async def test_cancelling_an_answer_frees_the_server(open_host, crab, home, small_window):
    """The story would take 900 tokens: a server that nobody told would go on for that long."""
    async with open_host(config=small_window.config(max_tokens=900)) as host:
        begun = asyncio.Event()

        async def listen():
            async with aclosing(host.stream(MAIN, STORY)) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        begun.set()

        turn = asyncio.create_task(listen())
        await asyncio.wait_for(begun.wait(), 300)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert await words_until_idle(small_window) < 300
    last = crab.stored_messages(transcript_of(home))[-1]
    assert (last["role"], last["stopReason"]) == ("assistant", "aborted")


async def test_a_server_that_dies_in_an_answer_costs_that_answer_only(
    open_host, crab, home, start_server
):
    server = start_server(2048)
    async with open_host(config=server.config(max_tokens=900)) as host:
        pieces = []

        async def listen():
            async with aclosing(host.stream(MAIN, STORY)) as events:
                async for event in events:
                    if isinstance(event, TextDelta) and not pieces:
                        await asyncio.to_thread(server.kill)
                    pieces.append(event)

        with pytest.raises(ModelUnavailableError):
            await listen()
        said = crab.stored_messages(transcript_of(home))
        assert [message["role"] for message in said] == ["user", "assistant"]
        assert said[1]["stopReason"] == "error"
        with pytest.raises(ModelUnavailableError):
            await host.send(MAIN, "Are you there?")
        await asyncio.to_thread(server.start)
    async with open_host(config=server.config(max_tokens=24)) as host:
        reply = await host.send(MAIN, "Say hello to Anna.")
        assert reply.text.strip()
        assert reply.session_id == transcript_of(home).stem
    assert "0 findings" in program(home, "sessions", "verify").stdout
