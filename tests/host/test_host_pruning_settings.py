"""Each setting of ``contextPruning`` does what it says to what the model is sent (context 7, 8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from hermitcrab.messages import assistant, text_of, tool_result, user

CLEARED = "[Old tool result content cleared]"
ROUNDS = 10


class Clock:
    def __init__(self):
        self.moment = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self):
        return self.moment


@pytest.fixture
def results(crab, open_host):
    """The tool results of the last request in a new session, after a pause in which the prompt cache runs out."""
    numbers = count()

    async def run(mode="cache-ttl", *, minutes=6, called=("read",), **pruning):
        clock = Clock()
        key = f"agent:main:run-{next(numbers)}"
        defaults = {"contextTokens": 32_000, "contextPruning": {"mode": mode, **pruning}}
        model = crab.ScriptedModel()
        model.id = "anthropic/claude-sonnet-4-5"
        config = {"agents": {"defaults": defaults}}
        async with open_host(model, config=config, clock=clock) as host:
            session = await host.session(key)
            for number in range(ROUNDS):
                name = called[number % len(called)]
                call = {"id": f"call_{number}", "name": name, "arguments": {}}
                body = f"head of {number} " + "word " * 1_300 + f" tail of {number}"
                await session.append(user(f"question {number}"))
                await session.append(assistant("", tool_calls=[call]))
                await session.append(tool_result(f"call_{number}", name, body))
                await session.append(assistant(f"answer {number}"))
            await session.end_turn()
            await host.send(key, "and now?")
            clock.moment += timedelta(minutes=minutes)
            await host.send(key, "and now again?")
        sent = model.requests[-1].messages
        return [text_of(message) for message in sent if message["role"] == "toolResult"]

    return run


def trimmed(texts):
    return [number for number, text in enumerate(texts) if "[Shortened:" in text]


def cleared(texts, placeholder=CLEARED):
    return [number for number, text in enumerate(texts) if text == placeholder]


async def test_without_a_mode_nothing_is_pruned(results):
    texts = await results("off")
    assert len(texts) == ROUNDS
    assert trimmed(texts) == cleared(texts) == []


async def test_by_default_long_results_are_trimmed_and_three_answers_left_alone(results):
    """Of the last three messages of the assistant one is the call whose result is the tenth."""
    texts = await results()
    assert trimmed(texts) == list(range(9))
    assert all("head of" in text and "tail of" in text for text in texts)


@pytest.mark.parametrize(
    ("ttl", "minutes", "prunes"), [("5m", 4, False), ("1h", 6, False), ("2m", 4, True)]
)
async def test_ttl_is_how_long_nothing_is_pruned(results, ttl, minutes, prunes):
    assert bool(trimmed(await results(ttl=ttl, minutes=minutes))) is prunes


@pytest.mark.parametrize(("kept", "number"), [(1, 10), (5, 8), (50, 0)])
async def test_keep_last_assistants_protects_what_they_rest_on(results, kept, number):
    assert len(trimmed(await results(keepLastAssistants=kept))) == number


@pytest.mark.parametrize(("turns", "number"), [(1, 10), (4, 8), (12, 0)])
async def test_keep_turns_is_the_age_from_which_results_are_cleared(results, turns, number):
    assert len(cleared(await results("age", keepTurns=turns, minutes=0))) == number


@pytest.mark.parametrize(("ratio", "prunes"), [(0.0, True), (0.3, True), (0.9, False)])
async def test_soft_trim_ratio_is_the_share_from_which_results_are_trimmed(results, ratio, prunes):
    assert bool(trimmed(await results(softTrimRatio=ratio))) is prunes


@pytest.mark.parametrize(("ratio", "clears"), [(0.0, True), (0.9, False)])
async def test_hard_clear_ratio_is_the_share_from_which_results_are_cleared(results, ratio, clears):
    texts = await results(hardClearRatio=ratio, minPrunableToolChars=0)
    assert bool(cleared(texts)) is clears


@pytest.mark.parametrize(("least", "clears"), [(1_000, True), (10**6, False)])
async def test_min_prunable_tool_chars_spares_what_is_little(results, least, clears):
    texts = await results(hardClearRatio=0.0, minPrunableToolChars=least)
    assert bool(cleared(texts)) is clears


async def test_soft_trim_says_what_is_long_and_what_stays_of_it(results):
    assert trimmed(await results(softTrim={"maxChars": 10_000})) == []
    texts = await results(softTrim={"maxChars": 100, "headChars": 9, "tailChars": 6})
    assert texts[0].startswith("head of 0\n...\nl of 0\n\n[Shortened:")


async def test_hard_clear_can_be_switched_off_and_has_its_own_placeholder(results):
    always = {"hardClearRatio": 0.0, "minPrunableToolChars": 0}
    off = await results(hardClear={"enabled": False}, **always)
    assert cleared(off) == []
    assert trimmed(off)
    own = await results(hardClear={"placeholder": "(gone)"}, **always)
    assert cleared(own, "(gone)") == list(range(9))
    by_age = await results("age", hardClear={"placeholder": "(old)"}, minutes=0)
    assert cleared(by_age, "(old)")


@pytest.mark.parametrize(
    ("tools", "pruned"),
    [
        ({"allow": ["read"]}, {"read"}),
        ({"allow": ["WEB_*"]}, {"web_fetch"}),
        ({"deny": ["web_*"]}, {"read"}),
        ({"allow": ["*"], "deny": ["read"]}, {"web_fetch"}),
        ({}, {"read", "web_fetch"}),
    ],
)
async def test_tools_choose_by_patterns_and_deny_wins(results, tools, pruned):
    texts = await results("age", called=("read", "web_fetch"), minutes=0, tools=tools)
    names = {("read", "web_fetch")[number % 2] for number in cleared(texts)}
    assert names == pruned
