"""What a session is doing: turns and compactions beside each other, and what a reset makes of them."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab.agent.activity import Activity
from hermitcrab.errors import SessionStateError


@pytest.fixture
def activity():
    return Activity("agent:main:main")


async def test_a_compaction_in_a_turn_leads_back_to_the_turn(activity):
    async with activity.turn():
        with activity.compacting():
            assert activity.state == "compacting"
        assert activity.state == "running"
    assert activity.state == "idle"


async def test_a_turn_that_fails_is_over_all_the_same(activity):
    with pytest.raises(ValueError, match="no"):
        async with activity.turn():
            raise ValueError("no")
    assert activity.state == "idle"


async def test_a_second_turn_is_refused_while_one_runs(activity):
    async with activity.turn():
        with pytest.raises(SessionStateError, match="a turn runs in it"):
            async with activity.turn():
                raise AssertionError("never begins")
        assert activity.state == "running"
    assert activity.state == "idle"


async def test_a_compaction_within_another_is_part_of_it(activity):
    with activity.compacting():
        with activity.compacting():
            assert activity.state == "compacting"
        assert activity.state == "compacting"
    assert activity.state == "idle"


async def test_a_turn_may_end_while_somebodys_own_loop_compacts(activity):
    compaction = activity.compacting()
    async with activity.turn():
        compaction.__enter__()
    assert activity.state == "compacting"
    compaction.__exit__(None, None, None)
    assert activity.state == "idle"


async def test_a_turn_begins_once_a_compaction_is_over(activity):
    async def turn():
        async with activity.turn():
            return activity.state

    with activity.compacting():
        waiting = asyncio.create_task(turn())
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await asyncio.wait_for(waiting, timeout=20) == "running"


async def test_a_turn_that_another_process_overtakes_comes_to_its_end(activity):
    async with activity.turn():
        activity.archive()
        assert activity.state == "archived"
    assert activity.state == "archived"
    with pytest.raises(SessionStateError, match="archived"):
        activity.check("turn_began")
    activity.archive()


async def test_our_own_reset_waits_for_what_runs(activity):
    async with activity.turn():
        with pytest.raises(SessionStateError, match="running"):
            activity.check("reset")
    assert activity.check("reset") == "archived"
    assert activity.state == "idle"
