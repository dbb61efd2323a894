"""The system prompt: what stands in it, and how large its files may be (memory 1.2, 1.3)."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.agent.prompt import PromptParts, build_system_prompt, cut_file


@pytest.fixture
def parts(tmp_path: Path) -> PromptParts:
    return PromptParts(
        introduction="You are a crab.",
        workspace=tmp_path,
        private=True,
        per_file=20_000,
        total=60_000,
        window=200_000,
    )


def test_an_empty_workspace_leaves_the_introduction_alone(parts):
    assert build_system_prompt(parts) == "You are a crab."


def test_files_stand_in_their_order_and_missing_ones_are_named(parts):
    for name in ("MEMORY.md", "SOUL.md", "AGENTS.md"):
        (parts.workspace / name).write_text(f"text of {name}")
    prompt = build_system_prompt(parts)
    positions = [prompt.index(f"text of {name}") for name in ("AGENTS.md", "SOUL.md", "MEMORY.md")]
    assert positions == sorted(positions)
    assert "Not there: TOOLS.md, USER.md." in prompt


def test_long_term_memory_is_not_even_named_outside_private_sessions(parts):
    (parts.workspace / "AGENTS.md").write_text("rules")
    (parts.workspace / "MEMORY.md").write_text("secret")
    assert "MEMORY.md" not in build_system_prompt(evolve(parts, private=False))


def test_files_never_fill_a_small_window(parts):
    (parts.workspace / "AGENTS.md").write_text("#" * 20_000)
    prompt = build_system_prompt(evolve(parts, window=4_000))
    assert prompt.count("#") <= 4_000


def test_a_file_that_is_not_text_does_not_break_the_prompt(parts):
    (parts.workspace / "AGENTS.md").write_bytes(b"rules \xff\xfe end")
    assert "rules " in build_system_prompt(parts)


@given(st.text(max_size=3_000), st.integers(min_value=64, max_value=2_000))
def test_a_file_is_whole_or_keeps_its_head_and_its_tail(text, cap):
    shown = cut_file(text, cap, "AGENTS.md")
    if len(text) <= cap:
        assert shown == text
    else:
        assert shown.startswith(text[: int(cap * 0.7)])
        assert shown.endswith(text[-int(cap * 0.2) :])
        assert "left out" in shown
