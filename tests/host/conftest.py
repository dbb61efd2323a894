"""What tests of subagents share."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab import hookimpl


class Hanging:
    """An item of a script that never answers; ``started`` tells that it was asked."""

    def __init__(self):
        self.started = asyncio.Event()

    async def __call__(self, request):
        self.started.set()
        await asyncio.Event().wait()

    async def asked(self):
        await asyncio.wait_for(self.started.wait(), timeout=20)


@pytest.fixture
def hanging():
    return Hanging()


@pytest.fixture
def ended(crab):
    """A plugin that writes down how subagents end, and the list that it writes to."""
    outcomes = []

    @hookimpl
    def subagent_ended(event, ctx):
        outcomes.append((event.outcome, event.reason, event.target_session_key, ctx.session_key))

    return outcomes, [("watcher", crab.plugin(subagent_ended))]
