"""The event loop goes on while a long session is measured, compacted and assembled (P24)."""

from __future__ import annotations

import threading

from hermitcrab.messages import assistant, user
from hermitcrab.messages.tokens import estimate_text

MAIN = "agent:main:main"
#: Longer than any text that a turn counts on the loop: the system prompt and the tools go on.
WORDS = "It is a long story about crabs and their shells. " * 40


async def test_messages_are_counted_in_threads_whatever_is_done_with_a_session(open_host, crab):
    on_loop, in_threads = [], []
    loop_thread = threading.get_ident()

    def count(text):
        if "long story about crabs" in text:
            (on_loop if threading.get_ident() == loop_thread else in_threads).append(len(text))
        return estimate_text(text)

    config = {"agents": {"defaults": {"contextTokens": 16_000}}}
    async with open_host(crab.ScriptedModel(), config=config) as host:
        session = await host.session(MAIN)
        session._context.parts.counter.text = count
        for number in range(30):
            await session.append(user(f"{number}. {WORDS}"))
            await session.append(assistant(f"{number}. {WORDS}"))
        context = await session.assemble()
        assert [outcome.status for outcome in context.compactions] == ["compacted"]
        await session.end_turn()
        await host.send(MAIN, "And then?")
        await host.send(MAIN, "/status")
        await host.compact(MAIN)
    assert in_threads
    assert on_loop == []
