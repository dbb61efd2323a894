"""Pruning in the turn: what the model sees is shortened, what the transcript holds is not (context 7)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hermitcrab.messages import Message
from hermitcrab.messages.text import text_of

CLEARED = "[Old tool result content cleared]"


class Clock:
    """A clock that a test sets forward."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, minutes: int) -> None:
        self.moment += timedelta(minutes=minutes)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def config(mode: str) -> dict[str, Any]:
    defaults = {"contextTokens": 64_000, "contextPruning": {"mode": mode}}
    return {"agents": {"defaults": defaults}}


def write_long_file(home: Path) -> None:
    workspace = home / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "long.txt").write_text(f"a line of the file {'x ' * 40}\n" * 700, encoding="utf-8")


async def read_in_turns(host: Any, model: Any, crab: Any, turns: int) -> list[Message]:
    """Turns that each read the long file; what the model was sent at last."""
    for turn in range(turns):
        model.script += [crab.calling("read", f"call_{turn}", path="long.txt"), "done"]
        await host.send("main", f"read it, turn {turn}")
    return list(model.requests[-1].messages)


def shown_results(messages: list[Message]) -> list[str]:
    return [text_of(message) for message in messages if message["role"] == "toolResult"]


async def test_by_age_the_model_sees_a_placeholder_and_the_transcript_keeps_the_result(
    crab: Any, home: Path, open_host: Any
) -> None:
    write_long_file(home)
    model = crab.ScriptedModel()
    async with open_host(model, config=config("age")) as host:
        shown = shown_results(await read_in_turns(host, model, crab, 7))
        file = (await host.session("main")).file
    assert shown[:2] == [CLEARED, CLEARED]
    assert CLEARED not in shown[2:]
    stored = shown_results(crab.stored_messages(file))
    assert all(text.startswith("a line of the file") for text in stored)


async def test_once_the_prompt_cache_has_run_out_results_are_shortened_for_good(
    crab: Any, home: Path, open_host: Any, clock: Clock
) -> None:
    write_long_file(home)
    model = crab.ScriptedModel()
    model.id = "anthropic/claude-sonnet-4-5"
    async with open_host(model, config=config("cache-ttl"), clock=clock) as host:
        before = shown_results(await read_in_turns(host, model, crab, 6))
        assert all("[Shortened:" not in text for text in before)
        clock.advance(6)
        await host.send("main", "and now?")
        pruned = shown_results(list(model.requests[-1].messages))
        assert any("[Shortened:" in text for text in pruned)
    again = crab.ScriptedModel()
    again.id = model.id
    async with open_host(again, config=config("cache-ttl"), clock=clock) as host:
        await host.send("main", "and after a restart?")
        assert shown_results(list(again.requests[-1].messages)) == pruned
        file = (await host.session("main")).file
    assert all("[Shortened:" not in text for text in shown_results(crab.stored_messages(file)))


async def test_status_says_why_nothing_is_pruned(open_host: Any, crab: Any) -> None:
    """P18: pruning never fires for a provider, and nobody knows why."""
    async with open_host(crab.ScriptedModel(), config=config("cache-ttl")) as host:
        reply = await host.send("main", "/status")
    assert "Pruning: nothing: scripted/model is not known to have a prompt cache" in reply.text
