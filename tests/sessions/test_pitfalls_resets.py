"""What users lost to resets: conversations that vanished, grew on, or ended for no reason of theirs (sessions 9.6)."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermitcrab import hookimpl
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.reading import read_transcript

MAIN = "agent:main:main"
DAILY = {
    "session": {"reset": {"mode": "daily", "atHour": 4}},
    "agents": {"defaults": {"userTimezone": "UTC"}},
}
IDLE = {"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}
BOTH = {**DAILY, "session": {"reset": {"mode": "daily", "atHour": 4, "idleMinutes": 60}}}


class Clock:
    def __init__(self):
        self.now = datetime(2026, 6, 10, 12, 0, tzinfo=UTC)

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def texts(messages):
    return [text_of(message) for message in messages]


async def archived(host):
    agent = await host.agent()
    return await agent.sessions.archived(MAIN)


async def test_each_day_has_its_own_file_and_its_own_context(open_host, crab, clock):
    """#78607, #57020, #69155: the id changed and the file stayed, so that the context grew for weeks."""
    model = crab.ScriptedModel()
    files = []
    async with open_host(model, config=DAILY, clock=clock) as host:
        for day in range(4):
            reply = await host.send(MAIN, f"day {day}")
            file = (await host.session(MAIN)).file
            assert file.stem == reply.session_id
            assert texts(model.requests[-1].messages) == [f"day {day}"]
            files.append(file)
            clock.now += timedelta(days=1)
    assert len(set(files)) == 4
    for day, file in enumerate(files):
        assert texts(crab.stored_messages(file)) == [f"day {day}", "ok"]
        assert crab.entries_of(file)[0]["id"] == file.stem


@pytest.mark.parametrize(
    ("config", "hours", "text"),
    [({}, 0, "/new"), ({}, 0, "/reset"), (DAILY, 24, "morning"), (IDLE, 2, "still there?")],
)
async def test_what_a_reset_puts_away_is_told_listed_and_readable(
    open_host, crab, clock, config, hours, text
):
    """#96751, pinchy#429, #112630, #116712, #122469: the conversation vanished, and nothing led back to it."""
    async with open_host(crab.ScriptedModel(), config=config, clock=clock) as host:
        old = await host.send(MAIN, "the port is 5437")
        clock.now += timedelta(hours=hours)
        new = await host.send(MAIN, text)
        assert "new" in " ".join([*new.notes, new.text]).lower()
        [found] = await archived(host)
        assert (found.key, found.session_id, found.reason) == (MAIN, old.session_id, "reset")
        assert found.problem is None
        contents = read_transcript(found.file)
        said = [text_of(each["message"]) for each in contents.branch() if "message" in each]
        assert said == ["the port is 5437", "ok"]
        await host.send(MAIN, "/new")
        ids = {each.session_id for each in await archived(host)}
        assert ids == {old.session_id, new.session_id}


@pytest.mark.parametrize("config", [DAILY, IDLE, BOTH])
@pytest.mark.parametrize("days", [-400, 400])
async def test_the_time_of_a_file_ends_no_conversation(open_host, crab, clock, config, days):
    """#99964: a transcript that was newer than its row made a finished session roll over."""
    async with open_host(crab.ScriptedModel(), config=config, clock=clock) as host:
        first = await host.send(MAIN, "hello")
        file = (await host.session(MAIN)).file
    moment = (clock.now + timedelta(days=days)).timestamp()
    for each in file.parent.iterdir():
        os.utime(each, (moment, moment))
    async with open_host(crab.ScriptedModel(), config=config, clock=clock) as host:
        clock.now += timedelta(minutes=59)
        reply = await host.send(MAIN, "hello again")
        assert reply.session_id == first.session_id
        assert reply.notes == ()


async def test_bookkeeping_between_two_messages_does_not_keep_a_conversation_alive(
    open_host, crab, clock
):
    """#11520, #51991, #49515, #58571: routes, patches and heartbeats moved the time that idleness is measured by."""
    async with open_host(crab.ScriptedModel(), config=IDLE, clock=clock) as host:
        first = await host.send(MAIN, "hello")
        for _ in range(4):
            clock.now += timedelta(minutes=20)
            await host.patch_session(MAIN, {"displayName": "Ann", "channel": "telegram"})
            beat = await host.send(MAIN, "beat", provenance={"kind": "internal_system"})
            assert beat.session_id == first.session_id
            await host.send(MAIN, "/status", provenance={"kind": "internal_system"})
        assert (await host.send(MAIN, "hello")).session_id != first.session_id


@pytest.mark.parametrize("how", ["/new", "/reset", "idle"])
async def test_plugins_read_the_old_conversation_at_any_time_of_a_reset(
    open_host, crab, clock, how
):
    """#17563, #18017, #50752: the transcript was renamed before the hook read it, and memory files were empty."""
    read = []

    @hookimpl
    async def before_reset(event, ctx):
        read.append(("before_reset", texts(event.messages)))

    @hookimpl
    async def session_end(event, ctx):
        if event.reason != "shutdown":
            read.append(("session_end", texts(crab.stored_messages(Path(event.session_file)))))

    plugins = [("keeper", crab.plugin(before_reset, session_end))]
    async with open_host(crab.ScriptedModel(), config=IDLE, clock=clock, plugins=plugins) as host:
        await host.send(MAIN, "the port is 5437")
        clock.now += timedelta(minutes=61 if how == "idle" else 0)
        await host.send(MAIN, "hello" if how == "idle" else how)
        await host.hooks.close()
    assert read == [
        ("before_reset", ["the port is 5437", "ok"]),
        ("session_end", ["the port is 5437", "ok"]),
    ]


async def test_an_idle_and_a_daily_end_are_judged_before_anything_is_written(
    open_host, crab, clock
):
    """#11520: the write of the new message's route came first, and the session looked fresh."""
    async with open_host(crab.ScriptedModel(), config=BOTH, clock=clock) as host:
        old = await host.send(MAIN, "hello")
        file = (await host.session(MAIN)).file
        before = file.read_bytes()
        clock.now += timedelta(minutes=61)
        new = await host.send(MAIN, "good day")
        assert new.session_id != old.session_id
        assert b"good day" not in file.read_bytes()
        assert file.read_bytes().startswith(before)
