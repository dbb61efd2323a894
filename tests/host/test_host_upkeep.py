"""A host sees to old sessions in the background, once a day (sessions 2.8)."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from hermitcrab import hookimpl
from hermitcrab.errors import SessionNotFoundError
from hermitcrab.sessions.entries import SessionEntries

OLD = "agent:main:telegram:direct:1"
ENFORCE = {"session": {"maintenance": {"mode": "enforce"}}}


def age(home: Path, key: str, days: float = 40) -> Path:
    """Let a session have been used so many days ago, and nobody have seen to it today; returns its transcript."""
    folder = home / "agents/main/sessions"
    table = SessionEntries(folder / "sessions.sqlite")
    entry = table.get(key)
    assert entry is not None
    at = time.time() - days * 86_400
    table.put(evolve(entry, updated_at=int(at * 1000)))
    table.transact(lambda connection: connection.execute("delete from session_state"))
    table.close()
    path = folder / f"{entry.session_id}.jsonl"
    os.utime(path, (at, at))
    return path


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(3_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


@pytest.fixture
async def old(home: Path, open_host: Any) -> Path:
    """The transcript of a session that was used 40 days ago."""
    async with open_host() as host:
        await host.send(OLD, "Hello from far away.")
    return age(home, OLD)


async def test_by_default_a_host_only_says_what_is_due_and_says_it_once_a_day(
    old: Path, open_host: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """#107712: sessions disappeared without any maintenance config."""
    async with open_host():
        await until(lambda: "session.maintenance.mode is warn" in caplog.text)
    async with open_host() as host:
        await host.send("main", "hello")
    assert old.exists()
    said = [each for each in caplog.records if "session.maintenance.mode is warn" in each.message]
    [record] = said
    assert "1 not used for more than 30d" in record.message
    facts = record.__dict__
    assert (facts["would_prune"], facts["would_cap"], facts["total"]) == (1, 0, 1)


async def test_enforced_it_removes_what_is_due_and_tells_plugins_and_listeners(
    old: Path, open_host: Any, crab: Any
) -> None:
    ended: list[Any] = []

    @hookimpl
    async def session_end(event: Any, ctx: Any) -> None:
        ended.append(event)

    events: list[Any] = []
    plugins = [("watcher", crab.plugin(session_end))]
    async with open_host(config=ENFORCE, plugins=plugins) as host:
        host.on_session_event(events.append)
        await until(lambda: bool(events))
        assert not old.exists()
        agent = await host.agent()
        assert await agent.sessions.list() == []
        [archived] = await agent.sessions.archived(OLD)
    assert archived.reason == "deleted"
    [event] = events
    assert (event.kind, event.session_key, event.reason) == ("deleted", OLD, "age")
    [end] = [each for each in ended if each.reason == "deleted"]
    assert (end.session_key, end.session_file) == (OLD, str(archived.file))
    assert end.transcript_archived


async def test_a_host_that_closes_at_once_leaves_nothing_half_and_the_next_goes_on(
    old: Path, open_host: Any
) -> None:
    async with open_host(config=ENFORCE):
        pass
    table = SessionEntries(old.parent / "sessions.sqlite")
    assert old.exists() == (table.get(OLD) is not None)
    table.close()
    async with open_host(config=ENFORCE):
        await until(lambda: not old.exists())


async def test_a_session_that_somebody_comes_back_to_is_kept_or_begins_anew(
    old: Path, open_host: Any, crab: Any
) -> None:
    """The turn and the upkeep may meet; either way the message is answered and stands in a transcript."""
    async with open_host(crab.ScriptedModel("Welcome back."), config=ENFORCE) as host:
        reply = await host.send(OLD, "I am back.")
        assert reply.text == "Welcome back."
        agent = await host.agent()
        [entry] = await agent.sessions.list()
    stored = crab.stored_messages(old.parent / f"{entry.session_id}.jsonl")
    assert stored[-1]["content"][0]["text"] == "Welcome back."


async def test_a_damaged_row_stops_the_upkeep_and_not_the_host(
    old: Path, open_host: Any, caplog: pytest.LogCaptureFixture
) -> None:
    table = SessionEntries(old.parent / "sessions.sqlite")
    table.transact(lambda connection: connection.execute("update session_entries set entry = '{'"))
    table.close()
    async with open_host(config=ENFORCE) as host:
        await until(lambda: "were not seen to" in caplog.text)
        assert (await host.send("main", "hello")).text
    assert old.exists()
    assert caplog.records[0].levelno == logging.WARNING


class TestDelete:
    async def test_a_session_is_deleted_and_the_next_message_begins_anew(
        self, open_host: Any, crab: Any
    ) -> None:
        async with open_host(crab.ScriptedModel("one", "two")) as host:
            first = await host.send("main", "hello")
            removed = await host.delete_session("main")
            assert [each.exists() for each in removed.archives] == [True]
            second = await host.send("main", "hello again")
            agent = await host.agent()
            [archived] = await agent.sessions.archived("agent:main:main")
        assert second.session_id != first.session_id
        assert archived.session_id == first.session_id

    async def test_it_waits_for_the_turn_that_runs(self, open_host: Any, crab: Any) -> None:
        started, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(request: Any) -> str:
            started.set()
            await go_on.wait()
            return "done"

        async with open_host(crab.ScriptedModel(slowly)) as host:
            turn = asyncio.ensure_future(host.send("main", "hello"))
            await started.wait()
            deletion = asyncio.ensure_future(host.delete_session("main"))
            await asyncio.sleep(0.05)
            assert not deletion.done()
            go_on.set()
            assert (await turn).text == "done"
            [archive] = (await deletion).archives
        assert crab.stored_messages(archive)[-1]["content"][0]["text"] == "done"

    async def test_an_unknown_session_is_an_error(self, open_host: Any) -> None:
        async with open_host() as host:
            with pytest.raises(SessionNotFoundError):
                await host.delete_session("main")
