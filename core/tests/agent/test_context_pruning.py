"""What pruning shows of old tool results, and what it remembers (context 7, P18)."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.agent.pruning import MARKER, SessionPruner, has_prompt_cache, state_of
from hermitcrab.config.schema.pruning import (
    ContextPruningConfig,
    HardClearConfig,
    PrunableToolsConfig,
)
from hermitcrab.messages.build import assistant, tool_result, user
from hermitcrab.messages.pruning import IMAGE_REMOVED, ToolResultPruner, without_old_images
from hermitcrab.messages.text import text_of
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

CLAUDE = "anthropic/claude-sonnet-4-5"
MINUTE = 60_000
CLEARED = "[Old tool result content cleared]"
COUNT = TokenCounter()


def rounds(number: int, characters: int = 6_000, tool: str = "read") -> list[Message]:
    """Turns of a question, a call with a long result, and an answer."""
    messages: list[Message] = []
    for turn in range(number):
        call: Any = {"id": f"call_{turn}", "name": tool, "arguments": {"n": turn}}
        body = f"head of {turn} " + "x y z " * (characters // 6) + f" tail of {turn}"
        messages += [
            user(f"question {turn}"),
            assistant("", tool_calls=[call]),
            tool_result(f"call_{turn}", tool, body),
            assistant(f"answer {turn}"),
        ]
    return messages


def results(messages: Any) -> list[str]:
    return [text_of(message) for message in messages if message["role"] == "toolResult"]


def pruner(**changes: Any) -> SessionPruner:
    settings = evolve(ContextPruningConfig(mode="cache-ttl"), **changes)
    return SessionPruner(settings, COUNT.messages)


def prune(by: SessionPruner, messages: Any, *, now: int, path: Any = (), **changes: Any) -> Any:
    options: dict[str, Any] = {"window": 20_000, "model_id": CLAUDE, **changes}
    return by.prune(messages, path, now_ms=now, **options)


def test_off_is_off() -> None:
    messages = rounds(20)
    assert prune(pruner(mode="off"), messages, now=10**12) is messages


def test_nothing_is_pruned_before_the_cache_has_run_out() -> None:
    by, messages = pruner(), rounds(20)
    assert results(prune(by, messages, now=MINUTE)) == results(messages), "never touched"
    assert results(prune(by, messages, now=5 * MINUTE)) == results(messages), "4 minutes later"
    assert results(prune(by, messages, now=11 * MINUTE)) != results(messages), "6 minutes later"


def test_long_results_are_trimmed_and_the_oldest_cleared_until_the_window_is_half_full() -> None:
    by, messages = pruner(), rounds(20)
    prune(by, messages, now=MINUTE, window=40_000)
    shown = prune(by, messages, now=10 * MINUTE, window=40_000)
    texts = results(shown)
    assert texts[0] == CLEARED
    assert "head of 12" in texts[12]
    assert "tail of 12" in texts[12]
    assert f"of {len(results(messages)[12])} characters" in texts[12]
    assert texts[-1] == results(messages)[-1], "what the last three answers rest on stays"
    assert COUNT.messages(shown) < 20_000


def test_little_text_is_trimmed_only() -> None:
    by, messages = pruner(min_prunable_tool_chars=10**6), rounds(20)
    prune(by, messages, now=MINUTE)
    assert CLEARED not in results(prune(by, messages, now=10 * MINUTE))


def test_clearing_can_be_switched_off_and_the_placeholder_changed() -> None:
    messages = rounds(20)
    for hard, expected in (
        (HardClearConfig(enabled=False), False),
        (HardClearConfig(placeholder="(gone)"), True),
    ):
        by = pruner(hard_clear=hard)
        prune(by, messages, now=MINUTE)
        assert ("(gone)" in results(prune(by, messages, now=10 * MINUTE))) is expected


def test_a_window_with_room_is_left_alone() -> None:
    by, messages = pruner(), rounds(20)
    prune(by, messages, now=MINUTE, window=400_000)
    assert prune(by, messages, now=10 * MINUTE, window=400_000) == messages


@pytest.mark.parametrize(
    ("allow", "deny", "pruned"),
    [
        ((), (), True),
        (("READ*",), (), True),
        (("web_*",), (), False),
        (("read",), ("r?ad",), False),
    ],
)
def test_tools_are_chosen_by_patterns(allow: Any, deny: Any, pruned: bool) -> None:
    by = pruner(tools=PrunableToolsConfig(allow=allow, deny=deny))
    messages = rounds(20)
    prune(by, messages, now=MINUTE)
    assert (results(prune(by, messages, now=10 * MINUTE)) != results(messages)) is pruned


def test_pruning_is_sticky_so_that_the_prompt_cache_keeps_its_worth() -> None:
    """P18: one-shot pruning invalidates the cache at every request."""
    by, messages = pruner(), rounds(20)
    prune(by, messages, now=MINUTE)
    first = results(prune(by, messages, now=10 * MINUTE))
    again = results(prune(by, [*messages, *rounds(1)], now=11 * MINUTE))
    assert again[: len(first)] == first


def test_pruning_survives_a_restart() -> None:
    by, messages = pruner(), rounds(20)
    prune(by, messages, now=MINUTE)
    first = results(prune(by, messages, now=10 * MINUTE))
    marker = by.take_marker(CLAUDE, compacted=False)
    path: Any = [{"type": "custom", "customType": MARKER, "data": marker}]
    assert results(prune(pruner(), messages, now=11 * MINUTE, path=path)) == first
    assert results(prune(pruner(), messages, now=11 * MINUTE)) == results(messages)


def test_a_trimmed_result_may_be_cleared_later_and_none_is_restored() -> None:
    by, messages = pruner(), rounds(6)
    prune(by, messages, now=MINUTE)
    before = results(prune(by, messages, now=10 * MINUTE))
    assert CLEARED not in before
    more = [*messages, *(rounds(20)[24:])]
    after = results(prune(by, more, now=20 * MINUTE))
    assert after[0] == CLEARED
    assert CLEARED in results(prune(by, more, now=21 * MINUTE, window=10**6))


def test_the_marker_says_when_the_cache_was_touched_and_what_is_new() -> None:
    by, messages = pruner(), rounds(20)
    assert by.take_marker(CLAUDE, compacted=False) is None, "nothing was asked"
    prune(by, messages, now=MINUTE)
    assert by.take_marker(CLAUDE, compacted=False) == {
        "provider": "anthropic",
        "modelId": "claude-sonnet-4-5",
        "timestamp": MINUTE,
    }
    prune(by, messages, now=10 * MINUTE)
    pruned = by.take_marker(CLAUDE, compacted=True)
    assert pruned is not None
    assert pruned.keys() == {"provider", "modelId", "pruned"}, "a compaction ends the cache"
    assert by.take_marker(CLAUDE, compacted=True) is None


def test_foreign_and_broken_markers_are_no_obstacle() -> None:
    data: Any = {"provider": "anthropic", "modelId": "claude", "timestamp": 5, "pruned": {"a": 7}}
    path: Any = [
        {"type": "custom", "customType": "openclaw.cache-ttl", "data": data},
        {"type": "custom", "customType": MARKER, "data": "nonsense"},
        {"type": "custom", "customType": MARKER, "data": {"timestamp": "soon", "pruned": []}},
    ]
    state = state_of(path)
    assert state.touched == {"anthropic/claude": 5}
    assert state.decided == {}


@pytest.mark.parametrize(
    ("model", "cached"),
    [
        (CLAUDE, True),
        ("openrouter/anthropic/claude-opus-4", True),
        ("openai/gpt-5", True),
        ("google/gemini-3-pro", True),
        ("ollama/llama3", False),
        ("offline/extractive", False),
    ],
)
def test_a_provider_without_a_prompt_cache_is_left_alone_and_that_is_said(
    model: str, cached: bool
) -> None:
    """P18: pruning that never fires for a provider must say why."""
    assert has_prompt_cache(model) is cached
    by, messages = pruner(), rounds(20)
    prune(by, messages, now=MINUTE, model_id=model)
    shown = prune(by, messages, now=10 * MINUTE, model_id=model)
    assert (results(shown) != results(messages)) is cached
    said = by.describe((), model) or ""
    assert ("mode age" in said) is not cached


def test_by_age_results_of_old_turns_are_cleared_with_any_provider() -> None:
    by, messages = pruner(mode="age"), rounds(8)
    texts = results(prune(by, messages, now=1, model_id="ollama/llama3"))
    assert texts == [CLEARED] * 3 + results(messages)[3:]


def test_by_age_the_placeholder_and_the_turns_come_from_the_configuration() -> None:
    by = pruner(mode="age", keep_turns=1, hard_clear=HardClearConfig(placeholder="(old)"))
    assert results(prune(by, rounds(3), now=1))[:2] == ["(old)", "(old)"]


def test_images_of_old_turns_become_a_note() -> None:
    picture: Any = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    messages: list[Any] = []
    for turn in range(5):
        asked: Any = user(f"look at {turn}")
        asked["content"] = [*asked["content"], picture]
        messages += [asked, assistant("I see.")]
    shown = without_old_images(messages)
    kinds = [[block["type"] for block in message["content"]] for message in shown[::2]]  # type: ignore[typeddict-item, index]
    assert kinds == [["text", "text"]] * 2 + [["text", "image"]] * 3
    assert IMAGE_REMOVED in text_of(shown[0])
    assert without_old_images(messages[4:]) is not shown


@given(
    st.lists(st.integers(0, 9_000), max_size=30),
    st.integers(500, 100_000),
    st.integers(0, 4),
)
def test_whatever_is_pruned_every_message_keeps_its_place_and_its_call(
    lengths: list[int], window: int, kept: int
) -> None:
    messages = [m for turn, n in enumerate(lengths) for m in rounds(turn + 1, n)[-4:]]
    rules = evolve(ContextPruningConfig(), keep_last_assistants=kept)
    by = ToolResultPruner(rules)
    decided = by.decide(messages, {}, window=window, measure=COUNT.messages)
    shown = by.show(messages, decided)
    assert [m["role"] for m in shown] == [m["role"] for m in messages]
    assert [m.get("toolCallId") for m in shown] == [m.get("toolCallId") for m in messages]
    assert by.show(messages, decided) == shown, "the same words every time"
    assert COUNT.messages(shown) <= COUNT.messages(messages)
    again = by.decide(messages, decided, window=window, measure=COUNT.messages)
    assert "trimmed" not in again.values(), "nothing is trimmed twice"
