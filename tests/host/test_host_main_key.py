"""The main conversation is still there when ``session.mainKey`` gets another value."""

from __future__ import annotations

from typing import Any

from hermitcrab.messages.text import text_of


async def test_renaming_the_main_key_takes_the_conversation_along(
    open_host: Any, crab: Any, home: Any
) -> None:
    """#120980: what stood under the old alias was listed and out of reach."""
    async with open_host(crab.ScriptedModel("Noted.")) as host:
        first = await host.send("main", "The port is 5437.")
    renamed = {"session": {"mainKey": "home"}}
    async with open_host(model := crab.ScriptedModel("5437."), config=renamed) as host:
        reply = await host.send("main", "Which port?")
    assert reply.session_key == "agent:main:home"
    assert reply.session_id == first.session_id
    assert text_of(model.requests[0].messages[0]) == "The port is 5437."
    table = home / "agents" / "main" / "sessions" / "sessions.sqlite"
    for file in table.parent.glob("sessions.sqlite*"):
        file.unlink()
    async with open_host(model := crab.ScriptedModel("Still 5437."), config=renamed) as host:
        reply = await host.send("main", "And after the table was lost?")
        assert [entry.key for entry in await (await host.agent()).sessions.list()] == [
            "agent:main:home"
        ]
    assert reply.session_id == first.session_id


async def test_a_conversation_that_has_the_new_key_already_stays(open_host: Any, crab: Any) -> None:
    renamed = {"session": {"mainKey": "home"}}
    async with open_host(crab.ScriptedModel(), config=renamed) as host:
        new = await host.send("main", "in the new one")
    async with open_host(crab.ScriptedModel()) as host:
        old = await host.send("main", "in the old one")
    assert old.session_id != new.session_id
    async with open_host(crab.ScriptedModel(), config=renamed) as host:
        assert (await host.send("main", "again")).session_id == new.session_id
