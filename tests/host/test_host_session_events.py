"""What listeners hear of sessions, and how every end and beginning of one is told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from hermitcrab import hookimpl
from hermitcrab.messages.text import text_of
from hermitcrab.plugins.health import read_health
from hermitcrab.sessions import SessionChanged, TranscriptUpdated

MAIN = "agent:main:main"


class Clock:
    def __init__(self):
        self.now = datetime(2026, 6, 10, 12, 0, tzinfo=UTC)

    def __call__(self):
        return self.now


def changes(events):
    return [event for event in events if isinstance(event, SessionChanged)]


def kinds(events):
    return [event.kind for event in changes(events)]


# -- listeners ------------------------------------------------------------------------------------


async def test_code_hears_of_a_session_and_of_each_entry_of_its_transcript(open_host, crab):
    events = []
    async with open_host(crab.ScriptedModel("Noted.")) as host:
        end = host.on_session_event(events.append)
        reply = await host.send(MAIN, "The port is 8080.")
        file = (await host.session(MAIN)).file
        end()
        end()
        await host.send(MAIN, "unheard")
    assert kinds(events) == ["created"]
    assert (events[-1].session_key, events[-1].session_id) == (MAIN, reply.session_id)
    updates = [event for event in events if isinstance(event, TranscriptUpdated)]
    assert {event.session_file for event in updates} == {file}
    assert [text_of(event.message) for event in updates if event.message] == [
        "The port is 8080.",
        "Noted.",
    ]
    stored = {entry["id"] for entry in crab.entries_of(file)}
    assert {event.entry_id for event in updates} <= stored


async def test_a_reset_is_told_as_the_end_of_one_session_and_its_replacement(open_host, crab):
    events = []
    async with open_host(crab.ScriptedModel()) as host:
        old = await host.send(MAIN, "hello")
        await host.patch_session(MAIN, {"label": "harbour", "displayName": "Harbour"})
        host.on_session_event(events.append)
        new = await host.send(MAIN, "/reset")
    told = [
        (event.kind, event.session_id, event.reason, event.previous_session_id)
        for event in changes(events)
    ]
    assert told == [
        ("ended", old.session_id, "reset", None),
        ("archived", old.session_id, "reset", None),
        ("replaced", new.session_id, "reset", old.session_id),
        ("ended", new.session_id, "shutdown", None),
    ]
    assert {(event.label, event.display_name) for event in changes(events)} == {
        ("harbour", "Harbour")
    }


async def test_choices_are_told_and_bookkeeping_is_not(open_host, crab):
    events = []
    async with open_host(crab.ScriptedModel()) as host:
        await host.send(MAIN, "hello")
        host.on_session_event(events.append)
        await host.send(MAIN, "hello again")
        assert changes(events) == []
        await host.patch_session(MAIN, {"label": "harbour"})
        await host.patch_session(MAIN, {"sendPolicy": "deny"})
        renamed, patched = changes(events)
    assert (renamed.kind, renamed.label, renamed.fields) == ("renamed", "harbour", ("label",))
    assert (patched.kind, patched.fields) == ("patched", ("sendPolicy",))


async def test_a_subagent_is_told_with_its_parent(open_host, crab):
    events = []
    async with open_host(crab.ScriptedModel()) as host:
        await host.send(MAIN, "hello")
        host.on_session_event(events.append)
        child = await host.spawn(MAIN, "Measure.", label="surveyor")
        told = changes(events)
    assert [event.kind for event in told] == ["created", "spawned", "ended"]
    assert {event.session_key for event in told} == {child.session_key}
    assert {event.parent_session_key for event in told} == {MAIN}
    assert {event.label for event in told} == {"surveyor"}


async def test_another_process_that_begins_anew_is_told_when_it_is_noticed(open_host, crab):
    events = []
    async with open_host(crab.ScriptedModel()) as host:
        old = await host.send(MAIN, "hello")
        async with open_host(crab.ScriptedModel()) as other:
            await other.send(MAIN, "/new")
        host.on_session_event(events.append)
        new = await host.send(MAIN, "hello")
        (replaced,) = changes(events)
    assert (replaced.kind, replaced.reason) == ("replaced", "unknown")
    assert (replaced.session_id, replaced.previous_session_id) == (new.session_id, old.session_id)


async def test_the_listeners_of_a_plugin_come_first_and_go_with_it(open_host, crab):
    heard = []

    @hookimpl
    def register_session_listeners(registry):
        registry.register("ears", lambda event: heard.append("plugin"))

    async with open_host(
        crab.ScriptedModel(), plugins=[("ears", crab.plugin(register_session_listeners))]
    ) as host:
        host.on_session_event(lambda event: heard.append("code"))
        await host.patch_session((await host.session(MAIN)).key, {"label": "harbour"})
        assert heard[-2:] == ["plugin", "code"]
        assert host.plugins.records["ears"].registrations
        host.plugins.unload("ears")
        heard.clear()
        await host.patch_session(MAIN, {"label": "port"})
        assert set(heard) == {"code"}


async def test_a_plugin_that_fails_to_load_leaves_no_listener(open_host, crab):
    heard = []

    @hookimpl
    def register_session_listeners(registry):
        registry.register("ears", heard.append)
        raise RuntimeError("broken")

    async with open_host(
        crab.ScriptedModel(), plugins=[("ears", crab.plugin(register_session_listeners))]
    ) as host:
        await host.send(MAIN, "hello")
    assert heard == []


async def test_a_failing_listener_of_a_plugin_is_seen_in_health_and_harms_no_turn(
    open_host, crab, home
):
    @hookimpl
    def register_session_listeners(registry):
        def ears(event):
            raise ValueError("too loud")

        registry.register("ears", ears)

    async with open_host(
        crab.ScriptedModel(), plugins=[("ears", crab.plugin(register_session_listeners))]
    ) as host:
        assert (await host.send(MAIN, "hello")).text == "ok"
    (failure,) = [each for each in read_health(home / "health.sqlite").hooks if each.failures]
    assert (failure.plugin_id, failure.hook) == ("ears", "register_session_listeners")
    assert "too loud" in failure.last_error


async def test_nothing_is_told_once_the_host_is_closed(open_host, crab):
    events = []
    async with open_host(crab.ScriptedModel()) as host:
        host.on_session_event(events.append)
        await host.send(MAIN, "hello")
    count = len(events)
    host._services.session_events.emit(events[-1])
    assert len(events) == count


# -- the hooks at the end and the beginning of sessions ---------------------------------------------


@pytest.fixture
def rollovers(crab):
    """A plugin that writes down how sessions end and begin, in order, and the list that it writes to."""
    heard = []

    @hookimpl
    async def before_reset(event, ctx):
        said = [text_of(message) for message in event.messages]
        heard.append(("before_reset", event.reason, ctx.session_id, said))

    @hookimpl
    async def session_end(event, ctx):
        heard.append(("session_end", event.reason, event.session_id, event.next_session_id))

    @hookimpl
    async def session_start(event, ctx):
        heard.append(("session_start", None, event.session_id, event.resumed_from))

    return heard, [("watcher", crab.plugin(before_reset, session_end, session_start))]


DAILY = {
    "session": {"reset": {"mode": "daily", "atHour": 4}},
    "agents": {"defaults": {"userTimezone": "UTC"}},
}
IDLE = {"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}


@pytest.mark.parametrize(
    ("reason", "config", "hours", "text"),
    [
        ("new", {}, 0, "/new"),
        ("reset", {}, 0, "/reset"),
        ("daily", DAILY, 24, "good morning"),
        ("idle", IDLE, 2, "still there?"),
    ],
)
async def test_every_rollover_is_told_with_its_reason_and_the_old_messages(
    open_host, crab, rollovers, reason, config, hours, text
):
    """#37955, #11960: only explicit resets were told; #17563: the messages were gone by then."""
    heard, plugins = rollovers
    clock = Clock()
    async with open_host(crab.ScriptedModel(), config=config, clock=clock, plugins=plugins) as host:
        old = await host.send(MAIN, "the port is 5437")
        clock.now += timedelta(hours=hours)
        new = await host.send(MAIN, text)
        await host.hooks.close()
        assert heard[1:] == [
            ("before_reset", reason, old.session_id, ["the port is 5437", "ok"]),
            ("session_end", reason, old.session_id, new.session_id),
            ("session_start", None, new.session_id, old.session_id),
        ]


async def test_an_explicit_reset_from_code_is_told_the_same(open_host, crab, rollovers):
    heard, plugins = rollovers
    async with open_host(crab.ScriptedModel(), plugins=plugins) as host:
        old = await host.send(MAIN, "hello")
        await host.reset(MAIN, reason="reset")
        await host.hooks.close()
        assert [each[:3] for each in heard[1:3]] == [
            ("before_reset", "reset", old.session_id),
            ("session_end", "reset", old.session_id),
        ]


async def test_every_open_session_ends_once_when_the_host_closes(open_host, crab, rollovers):
    heard, plugins = rollovers
    other = "agent:main:telegram:direct:7"
    async with open_host(crab.ScriptedModel(), plugins=plugins) as host:
        await host.send(MAIN, "hello")
        first = await host.send(MAIN, "/new")
        second = await host.send(other, "hello")
        await host.close()
    ends = [each for each in heard if each[0] == "session_end"]
    assert [(reason, session_id) for _, reason, session_id, _ in ends[1:]] == [
        ("shutdown", first.session_id),
        ("shutdown", second.session_id),
    ]
    assert len({session_id for _, _, session_id, _ in ends}) == len(ends)


async def test_a_session_that_cannot_be_read_ends_too_when_it_is_begun_anew(
    open_host, crab, rollovers
):
    heard, plugins = rollovers
    async with open_host(crab.ScriptedModel()) as host:
        old = await host.send(MAIN, "hello")
        (await host.session(MAIN)).file.unlink()
    async with open_host(crab.ScriptedModel(), plugins=plugins) as host:
        await host.reset(MAIN, reason="reset")
        new = await host.session(MAIN)
        await host.hooks.close()
        assert heard == [
            ("session_end", "reset", old.session_id, new.session_id),
            ("session_start", None, new.session_id, old.session_id),
        ]


# -- states ---------------------------------------------------------------------------------------


async def test_a_session_says_what_it_is_doing(open_host, crab):
    states = []
    hosts = []

    async def look(request):
        context = await hosts[0].open_session(MAIN)
        states.append((await hosts[0].describe_session(context))["State"])
        return "Noted."

    @hookimpl
    async def before_compaction(event, ctx):
        states.append((await hosts[0].open_session(MAIN)).activity.state)

    model = crab.ScriptedModel(look, window=16_000)
    plugins = [("watcher", crab.plugin(before_compaction))]
    async with open_host(model, plugins=plugins) as host:
        hosts.append(host)
        await host.send(MAIN, "hello")
        context = await host.open_session(MAIN)
        states.append((await host.describe_session(context))["State"])
        for number in range(12):
            await host.send(MAIN, f"Step {number}: " + "plan " * 1_000)
        await host.compact(MAIN)
        states.append(context.activity.state)
        await host.send(MAIN, "/new")
        states.append(context.activity.state)
    assert states[:2] == ["running", "idle (last turn: done)"]
    assert "compacting" in states[2:-2]
    assert states[-2:] == ["idle", "archived"]


async def test_status_tells_how_the_last_turn_ended(open_host, crab):
    from hermitcrab.errors import ModelUnavailableError

    model = crab.ScriptedModel(ModelUnavailableError("down"))
    async with open_host(model) as host:
        with pytest.raises(ModelUnavailableError):
            await host.send(MAIN, "hello")
        assert "State: idle (last turn: failed)" in (await host.send(MAIN, "/status")).text
        await host.send(MAIN, "hello")
        assert "State: idle (last turn: done)" in (await host.send(MAIN, "/status")).text


async def test_a_cancelled_turn_is_remembered_as_killed(open_host, crab):
    model = crab.HangingModel()
    async with open_host(model) as host:
        turn = asyncio.create_task(host.send(MAIN, "Tell me a story."))
        await asyncio.wait_for(model.started.wait(), timeout=20)
        context = await host.open_session(MAIN)
        assert context.activity.state == "running"
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        assert context.activity.state == "idle"
        entry = context.log.entry
        assert (entry.status, entry.aborted_last_run) == ("killed", True)
        model.hangs = False
        await host.send(MAIN, "And now?")
        assert (context.log.entry.status, context.log.entry.aborted_last_run) == ("done", None)


async def test_a_running_that_a_dead_process_left_behind_confuses_nobody(open_host, crab):
    async with open_host(crab.ScriptedModel()) as host:
        await host.send(MAIN, "hello")
        await host.patch_session(MAIN, {"status": "running"})
    async with open_host(crab.ScriptedModel()) as host:
        context = await host.open_session(MAIN)
        assert context.activity.state == "idle"
        told = (await host.describe_session(context))["State"]
        assert told == "idle (the last turn did not come to its end)"
        assert (await host.send(MAIN, "hello")).text == "ok"
        assert context.log.entry.status == "done"


async def test_a_question_that_a_dead_process_left_open_is_told(open_host, crab):
    """A turn writes nothing when it begins, so only its question tells of a crash."""
    async with open_host(crab.ScriptedModel()) as host:
        await host.send(MAIN, "hello")
        session = await host.session(MAIN)
        await session.append({"role": "user", "content": "and then the power went"})
    async with open_host(crab.ScriptedModel()) as host:
        told = (await host.send(MAIN, "/status")).text
        assert "State: idle (the last turn did not come to its end)" in told
        await host.send(MAIN, "hello again")
        assert "State: idle (last turn: done)" in (await host.send(MAIN, "/status")).text


async def test_a_turn_waits_for_a_compaction_that_somebodys_own_loop_has_begun(open_host, crab):
    async with open_host(crab.ScriptedModel()) as host:
        await host.session(MAIN)
        context = await host.open_session(MAIN)
        with context.activity.compacting():
            turn = asyncio.create_task(host.send(MAIN, "hello"))
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert context.activity.state == "compacting"
            assert not turn.done()
        assert (await asyncio.wait_for(turn, timeout=20)).text == "ok"
