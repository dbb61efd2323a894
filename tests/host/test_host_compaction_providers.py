"""Compaction providers and the safeguard, as a whole host uses them, and says where they are missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hermitcrab import hookimpl
from hermitcrab.messages import assistant, user

MAIN = "agent:main:main"
SAFEGUARD_OFF = {"plugins": {"entries": {"compaction-safeguard": {"enabled": False}}}}


def configured(**compaction: Any) -> dict[str, Any]:
    """A configuration in which nothing audits summaries."""
    return {**SAFEGUARD_OFF, "agents": {"defaults": {"compaction": compaction}}}


@pytest.fixture
def compact(crab, open_host):
    """Fills a session, compacts it by hand and tells what came of it."""

    async def run(config, *plugins):
        async with open_host(
            crab.ScriptedModel(window=16_000),
            config=config,
            plugins=[(f"plugin-{number}", each) for number, each in enumerate(plugins)],
        ) as host:
            session = await host.session(MAIN)
            for number in range(12):
                await session.append(user(f"Question {number}: " + "what then? " * 150))
                await session.append(assistant(f"We decided to use port {9000 + number}."))
            outcome = await host.compact(MAIN)
            entries = [e for e in crab.entries_of(session.file) if e["type"] == "compaction"]
            status = await host.send(MAIN, "/status")
            return SimpleNamespace(
                outcome=outcome,
                details=entries[-1]["details"] if entries else None,
                diagnostics=[str(each) for each in host.plugins.diagnostics],
                status=status.text,
            )

    return run


def provider_plugin(crab, answer):
    class Provider:
        def __init__(self, context):
            self.agent_id = context.agent_id

        async def summarise(self, request):
            if isinstance(answer, Exception):
                raise answer
            return f"## Decisions\n- {answer} of {self.agent_id}"

    @hookimpl
    def register_compaction_providers(registry):
        registry.register("mine", Provider)

    return crab.plugin(register_compaction_providers)


async def test_the_provider_that_config_names_writes_the_summary(crab, compact):
    done = await compact(configured(provider="mine"), provider_plugin(crab, "All well"))
    assert done.outcome.status == "compacted"
    assert (done.outcome.mode, done.outcome.reason) == ("plugin", None)
    assert "- All well of main" in done.outcome.summary
    assert done.outcome.identifiers_kept == done.outcome.identifiers_required
    assert done.details["provider"] == "mine"


async def test_a_provider_that_is_not_named_is_not_asked(crab, compact):
    done = await compact(configured(mode="default"), provider_plugin(crab, RuntimeError("boom")))
    assert (done.outcome.status, done.outcome.mode) == ("compacted", "model")
    assert done.diagnostics == []


async def test_a_provider_that_fails_is_replaced_and_the_outcome_says_so(crab, compact):
    done = await compact(configured(provider="mine"), provider_plugin(crab, RuntimeError("boom")))
    assert (done.outcome.status, done.outcome.mode) == ("compacted", "model")
    reason = 'the compaction provider "mine" is not used: RuntimeError: boom'
    assert done.outcome.reason == reason
    assert reason in done.status


async def test_an_unknown_provider_is_told_by_the_host_and_by_the_outcome(crab, compact):
    done = await compact(configured(provider="mina"), provider_plugin(crab, "x"))
    assert (done.outcome.status, done.outcome.mode) == ("compacted", "model")
    assert '"mina" is not used: no plugin has registered it' in done.outcome.reason
    told = [each for each in done.diagnostics if 'provider is "mina"' in each]
    assert len(told) == 1
    assert 'Did you mean "mine"?' in told[0]


async def test_where_nothing_audits_although_config_wants_it_that_is_told(compact):
    done = await compact(configured(mode="safeguard"))
    assert done.outcome.status == "compacted"
    assert "safeguard" not in done.details
    (told,) = done.diagnostics
    assert told.startswith("compaction-safeguard: agents.defaults.compaction.mode is safeguard,")
    assert "summaries are not audited" in told
