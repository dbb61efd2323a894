"""Levels that act: thinking, fast, verbose and reasoning, set from commands, config and code (sessions 5.2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hermitcrab.agent import ThinkingDelta
from hermitcrab.errors import SessionError
from hermitcrab.messages import assistant

MAIN = "agent:main:main"


@pytest.fixture
def thinker(crab):
    """A model that can be told how much to think."""
    model = crab.ScriptedModel()
    model.thinking_levels = ("low", "medium", "high")
    return model


async def say(host, text):
    return (await host.send(MAIN, text)).text


async def test_a_level_reaches_the_model_as_the_nearest_that_it_knows(open_host, thinker):
    async with open_host(thinker) as host:
        await host.send(MAIN, "hello")
        assert "high (set for this session)" in await say(host, "/think ultrathink")
        await host.send(MAIN, "hello")
        answer = await say(host, "/think xhigh")
        assert "knows low, medium, high and is told high" in answer
        await host.send(MAIN, "hello")
        await host.send(MAIN, "/think off")
        await host.send(MAIN, "hello")
        assert "low" in await say(host, "/think inherit")
        await host.send(MAIN, "hello")
    told = [request.thinking for request in thinker.requests]
    assert told == ["low", "high", "high", None, "low"]


async def test_a_model_that_is_not_marked_is_told_nothing(open_host, crab):
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        assert "told nothing" in await say(host, "/think high")
        await host.send(MAIN, "hello")
    assert model.requests[0].thinking is None


@pytest.mark.parametrize(
    ("command", "valid"),
    [
        ("/think very", "minimal, low, medium"),
        ("/fast slow", "on, off, auto"),
        ("/verbose loud", "off, on, full"),
        ("/reasoning maybe", "off, on, stream"),
        ("/send sometimes", "on (allow), off (deny)"),
    ],
)
async def test_an_unknown_word_changes_nothing_and_the_valid_ones_are_named(
    open_host, crab, command, valid
):
    """Sessions 5.2."""
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        await host.send(MAIN, "/think low")
        before = (await host.open_session(MAIN)).log.entry
        answer = await say(host, command)
        after = (await host.open_session(MAIN)).log.entry
    assert answer.startswith("Not changed")
    assert valid in answer
    assert after == before
    assert model.requests == []


async def test_a_command_without_an_argument_shows_the_level_and_who_set_it(open_host, crab):
    config = {"agents": {"defaults": {"thinkingDefault": "medium", "reasoningDefault": "on"}}}
    async with open_host(crab.ScriptedModel(), config=config) as host:
        assert "medium (as configured)" in await say(host, "/think")
        assert "on (as configured)" in await say(host, "/reasoning")
        assert "not set" in await say(host, "/verbose")
        assert "off (as configured)" in await say(host, "/fast")
        await host.send(MAIN, "/verbose full")
        assert "full (set for this session)" in await say(host, "/verbose")
        assert "thinking medium, fast off, verbose full, reasoning on" in await say(host, "/status")


async def test_an_agent_of_its_own_may_have_levels_of_its_own(open_host, thinker):
    agents = {
        "defaults": {"thinkingDefault": "low"},
        "list": [{"id": "main"}, {"id": "deep", "thinkingDefault": "high"}],
    }
    async with open_host(thinker, config={"agents": agents}) as host:
        await host.send(MAIN, "hello")
        await host.send("agent:deep:main", "hello")
    assert [request.thinking for request in thinker.requests] == ["low", "high"]


async def test_fast_mode_is_asked_for_and_a_model_without_one_is_named(open_host, crab):
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        assert "no `fastBody`" in await say(host, "/fast on")
        await host.send(MAIN, "hello")
        model.has_fast_mode = True
        assert "fastBody" not in await say(host, "/fast")
        await host.send(MAIN, "/fast auto")
        await host.send(MAIN, "hello")
    assert [request.fast for request in model.requests] == [True, False]


async def test_tool_calls_are_told_where_the_verbose_level_asks_for_them(open_host, crab, home):
    lines = {}
    (home / "workspace").mkdir(parents=True)
    (home / "workspace/AGENTS.md").write_text("Be brief.")
    for level in ("off", "on", "full", "default"):
        model = crab.ScriptedModel(crab.calling("read", path="AGENTS.md"), "Read.")
        async with open_host(model) as host:
            await host.send(MAIN, f"/verbose {level}")
            lines[level] = (await host.send(MAIN, "Read the rules.")).tool_lines
    assert lines["off"] == lines["default"] == ()
    assert lines["on"] == ("read(path=AGENTS.md)",)
    assert lines["full"] == ("read(path=AGENTS.md)", "read returned: Be brief.")


def thoughtful(text, thought):
    return assistant([{"type": "thinking", "thinking": thought}, {"type": "text", "text": text}])


async def test_thinking_comes_with_the_reply_where_the_level_asks_for_it(open_host, crab):
    found = {}
    for level in ("off", "on", "stream"):
        model = crab.ScriptedModel(thoughtful("4711.", "It was in the notes."))
        async with open_host(model) as host:
            await host.send(MAIN, f"/reasoning {level}")
            events = [event async for event in host.stream(MAIN, "The code?")]
        thoughts = [event.text for event in events if isinstance(event, ThinkingDelta)]
        found[level] = (events[-1].reasoning, thoughts)
        assert events[-1].text == "4711."
        assert model.requests[0].stream_thinking == (level == "stream")
    assert found == {
        "off": ("", []),
        "on": ("It was in the notes.", []),
        "stream": ("It was in the notes.", ["It was in the notes."]),
    }


async def test_a_chosen_level_and_model_outlive_the_daily_reset(open_host, thinker):
    """#90119, #69301, #92562"""
    moment = [datetime(2026, 6, 10, 12, tzinfo=UTC)]
    config = {"session": {"reset": {"mode": "daily"}}}
    async with open_host(thinker, config=config, clock=lambda: moment[0]) as host:
        first = await host.send(MAIN, "hello")
        await host.send(MAIN, "/think high")
        await host.send(MAIN, "/model box/large")
        moment[0] += timedelta(days=1)
        second = await host.send(MAIN, "hello again")
        entry = (await host.open_session(MAIN)).log.entry
    assert first.session_id != second.session_id
    assert thinker.requests[-1].thinking == "high"
    assert (entry.provider_override, entry.model_override) == ("box", "large")


async def test_levels_can_be_set_and_read_from_code(open_host, thinker):
    async with open_host(thinker) as host:
        await host.send(MAIN, "hello")
        await host.patch_session("main", {"thinkingLevel": "think hard", "fastMode": True})
        levels = await host.levels("main")
        assert (levels.thinking.value, levels.told_thinking, levels.is_fast) == ("low", "low", True)
        with pytest.raises(SessionError, match="thinkingLevel"):
            await host.patch_session("main", {"fastMode": None, "thinkingLevel": "very"})
        assert (await host.levels("main")).is_fast


async def test_a_change_of_level_stands_in_the_transcript_for_other_readers(
    open_host, crab, thinker
):
    async with open_host(thinker) as host:
        reply = await host.send(MAIN, "hello")
        await host.send(MAIN, "/think high")
        await host.send(MAIN, "/think high")
        file = (await host.session(MAIN)).file
        assert reply.session_id in file.name
    changes = [e for e in crab.entries_of(file) if e["type"] == "thinking_level_change"]
    assert [change["thinkingLevel"] for change in changes] == ["high"]
