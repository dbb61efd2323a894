"""Conversations that are over by themselves, and replies that must not go out, as the user sees it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hermitcrab import hookimpl
from hermitcrab.sessions import InboundMessage

MAIN = "agent:main:main"
IDLE = {"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}


class Clock:
    def __init__(self):
        self.now = datetime(2026, 6, 10, 12, 0, tzinfo=UTC)

    def __call__(self):
        return self.now


async def test_the_message_that_finds_the_conversation_over_is_answered_in_a_new_one(
    open_host, crab
):
    """#129688, #78059: the triggering message got no reply; #35481: the old transcript was lost."""
    clock, ended = Clock(), []

    @hookimpl
    def session_end(event, ctx):
        ended.append((event.reason, event.session_id, event.next_session_id))

    plugins = [("watcher", crab.plugin(session_end))]
    model = crab.ScriptedModel()
    async with open_host(model, config=IDLE, clock=clock, plugins=plugins) as host:
        first = await host.send(MAIN, "the port is 5437")
        old_file = (await host.session(MAIN)).file
        clock.now += timedelta(minutes=60)
        assert (await host.send(MAIN, "still there?")).session_id == first.session_id
        clock.now += timedelta(minutes=61)
        reply = await host.send(MAIN, "good morning")
        session = await host.session(MAIN)
    assert reply.text == "ok"
    assert reply.session_id != first.session_id
    assert "long pause" in reply.notes[0]
    assert ended == [
        ("idle", first.session_id, reply.session_id),
        ("shutdown", reply.session_id, None),
    ]
    assert "5437" in old_file.read_text()
    assert "5437" not in str(session.messages)
    assert "good morning" in str(session.messages)


async def test_what_the_user_chose_outlives_the_reset(open_host, crab):
    """#90119, #69301, #92562"""
    clock = Clock()
    async with open_host(crab.ScriptedModel(), config=IDLE, clock=clock) as host:
        await host.send(MAIN, "hello")
        await host.send(MAIN, "/model box/large")
        clock.now += timedelta(days=1)
        await host.send(MAIN, "hello again")
        entry = (await host.open_session(MAIN)).log.entry
    assert (entry.provider_override, entry.model_override) == ("box", "large")


async def test_messages_of_the_system_end_no_conversation(open_host, crab):
    """#58571: heartbeats triggered the reset themselves."""
    clock = Clock()
    async with open_host(crab.ScriptedModel(), config=IDLE, clock=clock) as host:
        first = await host.send(MAIN, "hello")
        clock.now += timedelta(days=1)
        system = {"kind": "internal_system"}
        beat = await host.send(MAIN, "heartbeat", provenance=system)
        assert beat.session_id == first.session_id
        assert (await host.send(MAIN, "hello")).session_id != first.session_id


async def test_without_configuration_nothing_is_ever_over(open_host, crab):
    clock = Clock()
    async with open_host(crab.ScriptedModel(), clock=clock) as host:
        first = await host.send(MAIN, "hello")
        clock.now += timedelta(days=400)
        assert (await host.send(MAIN, "hello")).session_id == first.session_id


async def test_a_reply_that_the_send_policy_denies_is_kept_back_and_says_so(open_host, crab):
    config = {
        "session": {"sendPolicy": {"rules": [{"action": "deny", "match": {"channel": "irc"}}]}}
    }
    async with open_host(crab.ScriptedModel(), config=config) as host:
        message = InboundMessage(text="hello", channel="irc", chat_type="group", peer="#crabs")
        reply = await host.receive(message)
        assert reply.silent
        assert "send policy" in reply.notes[0]
        assert not (await host.send(MAIN, "hello")).silent
