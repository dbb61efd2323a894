"""Compactions beside other programs and after crashes: none on a stale plan, each counted, no flush left out."""

from __future__ import annotations

import pytest

from hermitcrab import hookimpl
from hermitcrab.errors import ModelOverflowError
from hermitcrab.messages import assistant, user
from hermitcrab.messages.text import text_of
from hermitcrab.sessions.entries import SessionEntries

MAIN = "agent:main:main"


async def talk(session, topic):
    """Enough of a conversation for a compaction."""
    for number in range(12):
        await session.append(user(f"{topic} {number}: {'what about the harbour? ' * 30}"))
        await session.append(assistant(f"Answer {number}: {'it is open at noon. ' * 30}"))
    await session.end_turn()


def compactions_in(crab, file):
    return [entry for entry in crab.entries_of(file) if entry["type"] == "compaction"]


async def test_compactions_of_two_hosts_are_counted_together(open_host, crab, monkeypatch):
    """Neither overwrites the count of the other, although the second one comes before the first is counted."""
    async with (
        open_host(crab.ScriptedModel(window=8_000)) as first,
        open_host(crab.ScriptedModel(window=8_000)) as second,
    ):
        session = await first.session(MAIN)
        await talk(session, "topic")
        log = (await first.open_session(MAIN)).log
        append = log.append_compaction

        async def append_and_wait(entry, **options):
            monkeypatch.undo()
            written = await append(entry, **options)
            await talk(await second.session(MAIN), "another topic")
            assert (await second.compact(MAIN)).compacted
            return written

        monkeypatch.setattr(log, "append_compaction", append_and_wait)
        assert (await first.compact(MAIN)).compacted
        assert len(compactions_in(crab, session.file)) == 2
        table = SessionEntries(session.file.with_name("sessions.sqlite"))
        assert table.get(MAIN).compaction_count == 2
        table.close()


async def test_a_compaction_is_dropped_if_another_was_heard_of_since_its_plan(open_host, crab):
    """Whatever looks at the session meanwhile, such as a plugin, must not make a stale plan look fresh."""

    class Rival:
        act = None

        @hookimpl
        async def before_compaction(self, event, ctx):
            if self.act is not None:
                act, self.act = self.act, None
                await act()

    rival = Rival()
    async with (
        open_host(crab.ScriptedModel(window=8_000), plugins=[("rival", rival)]) as first,
        open_host(crab.ScriptedModel(window=8_000)) as second,
    ):
        session = await first.session(MAIN)
        await talk(session, "topic")

        async def compact_elsewhere_and_look():
            assert (await second.compact(MAIN)).compacted
            seen = (await first.session(MAIN)).messages
            assert "<summary>" in text_of(seen[0])

        rival.act = compact_elsewhere_and_look
        outcome = await first.compact(MAIN)
        assert rival.act is None
        assert (outcome.status, outcome.benign) == ("not_needed", True)
        assert len(compactions_in(crab, session.file)) == 1
        reply = await first.send(MAIN, "And now?")
    assert reply.text == "ok"


@pytest.mark.parametrize("crashed", [False, True])
async def test_each_cycle_has_its_flush_even_if_the_compaction_was_not_counted(
    open_host, crab, crashed
):
    """A process that dies between a compaction and its count must not cost the next cycle its flush."""
    model = crab.ScriptedModel(window=8_000)
    async with open_host(model) as host:
        session = await host.session(MAIN)
        await talk(session, "before")
        assert (await host.compact(MAIN)).compacted
        table = SessionEntries(session.file.with_name("sessions.sqlite"))
    assert "flush" in model.purposes
    if crashed:
        table.update(MAIN, compaction_count=0)
    table.close()
    model = crab.ScriptedModel(window=8_000)
    async with open_host(model) as host:
        session = await host.session(MAIN)
        await talk(session, "after")
        assert (await host.compact(MAIN)).compacted
        assert "flush" in model.purposes
        assert not any(text_of(message).startswith("before 0") for message in session.messages)


async def test_a_provider_that_finds_the_request_too_large_is_asked_again_with_what_another_compacted(
    open_host, crab
):
    """The turn goes on with the other program's compaction instead of adding one to it."""
    async with (
        open_host(crab.ScriptedModel(window=16_000)) as second,
        open_host(model := crab.ScriptedModel(window=16_000)) as first,
    ):
        session = await first.session(MAIN)
        await talk(session, "topic")
        await second.session(MAIN)

        async def too_large(request):
            assert (await second.compact(MAIN)).compacted
            return ModelOverflowError("too large")

        model.script = [too_large, "It fits."]
        reply = await first.send(MAIN, "Does it fit?")
        assert reply.text == "It fits."
        assert len(compactions_in(crab, session.file)) == 1
        assert "<summary>" in text_of(model.requests[-1].messages[0])
