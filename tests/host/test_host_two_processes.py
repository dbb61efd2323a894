"""Two hosts on one home, as two processes would be."""

from __future__ import annotations

MAIN = "agent:main:main"


async def test_a_new_session_begun_by_another_host_is_the_one_that_goes_on(open_host, crab):
    async with open_host(crab.ScriptedModel()) as first, open_host(crab.ScriptedModel()) as second:
        await first.send(MAIN, "hello")
        await second.send(MAIN, "/new")
        begun = await second.send(MAIN, "a fresh start")
        reply = await first.send(MAIN, "and who am I talking to?")
        assert reply.session_id == begun.session_id
        session = await first.session(MAIN)
        assert "a fresh start" in str(session.messages)
        assert "hello" not in str(session.messages)


async def test_turns_of_two_hosts_interleave_in_one_line(open_host, crab):
    async with open_host(crab.ScriptedModel()) as first, open_host(crab.ScriptedModel()) as second:
        for number in range(3):
            await first.send(MAIN, f"first {number}")
            await second.send(MAIN, f"second {number}")
        texts = str((await first.session(MAIN)).messages)
    for number in range(3):
        assert f"first {number}" in texts
        assert f"second {number}" in texts
