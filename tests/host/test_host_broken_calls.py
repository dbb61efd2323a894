"""A tool call whose arguments broke off is not run with none."""

from __future__ import annotations

from typing import Any

from hermitcrab.messages import assistant


async def test_a_call_that_was_cut_off_does_not_run_and_the_model_is_told(
    open_host: Any, crab: Any, home: Any
) -> None:
    cut: Any = assistant("")
    cut["content"] = [
        {
            "type": "toolCall",
            "id": "call_1",
            "name": "write",
            "arguments": {},
            "rawArguments": '{"path": "notes.md", "content": "half a',
        }
    ]
    model = crab.ScriptedModel(cut, "Again, then.")
    async with open_host(model) as host:
        reply = await host.send("main", "Write it down.")
    assert reply.text == "Again, then."
    (result,) = [message for message in reply.messages if message["role"] == "toolResult"]
    assert result["isError"]
    assert "are not a JSON object" in result["content"][0]["text"]
    assert not (home / "workspace" / "notes.md").exists()
