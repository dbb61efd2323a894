"""What tests of subagents and of engines share."""

from __future__ import annotations

import asyncio

import pytest

from hermitcrab import hookimpl
from hermitcrab.context import (
    AssembleResult,
    CompactResult,
    ContextEngine,
    ContextEngineInfo,
    IngestResult,
)


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


class _Engine(ContextEngine):
    """Passes messages on; ``compact`` answers ``answers`` one after the other, the last one for ever."""

    info = None

    def __init__(self, info, answers):
        self.info = info
        self._answers = list(answers)
        self.compactions = []
        self.shown = None

    async def ingest(self, **params):
        return IngestResult(ingested=True)

    async def assemble(self, *, messages, **params):
        return AssembleResult(messages if self.shown is None else messages[-self.shown :])

    async def compact(self, **params):
        self.compactions.append(params)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer(self) if callable(answer) else answer


@pytest.fixture
def engine_of(crab):
    """Makes a plugin with a context engine that answers compactions as it is told; returns what a host needs for it."""

    def make(*answers, owns=False):
        made = []
        info = ContextEngineInfo(id="spy", name="Spy", owns_compaction=owns)
        answers = answers or (CompactResult(ok=True, compacted=False),)

        def engine():
            made.append(_Engine(info, answers))
            return made[-1]

        @hookimpl
        def register_context_engines(registry):
            registry.register("spy", engine)

        plugins = [("spy", crab.plugin(register_context_engines))]
        return made, plugins, {"plugins": {"slots": {"contextEngine": "spy"}}}

    return make
