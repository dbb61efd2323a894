from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.compaction.budget import make_budget
from hermitcrab.errors import CompactionError


@pytest.mark.parametrize(
    ("window", "reserve", "usable", "keep_recent", "flush_at", "summary", "group"),
    [
        (4_096, 1_024, 2_072, 690, 1_382, 414, 1_036),
        (8_000, 2_000, 5_000, 1_666, 3_334, 1_000, 2_500),
        (32_000, 8_000, 23_000, 7_666, 19_000, 4_600, 11_500),
        (128_000, 20_000, 107_000, 20_000, 103_000, 21_400, 53_500),
        (200_000, 20_000, 179_000, 20_000, 175_000, 35_800, 89_500),
    ],
)
def test_a_window_is_divided_as_the_design_says(
    settings: Any,
    window: int,
    reserve: int,
    usable: int,
    keep_recent: int,
    flush_at: int,
    summary: int,
    group: int,
) -> None:
    budget = make_budget(window, 1_000, settings())
    assert (budget.window, budget.fixed) == (window, 1_000)
    assert budget.reserve == reserve
    assert budget.usable == usable
    assert budget.keep_recent == keep_recent
    assert budget.flush_at == flush_at
    assert budget.summary == summary
    assert budget.group == group
    assert budget.compact_at == usable


def test_a_small_window_is_not_swallowed_by_the_reserve(settings: Any) -> None:
    """P6: a fixed reserve of 20,000 tokens left nothing of a window of 16,000."""
    assert make_budget(16_000, 0, settings()).usable == 12_000


def test_a_larger_configured_reserve_counts(settings: Any) -> None:
    assert make_budget(200_000, 0, settings(reserve_tokens=30_000)).reserve == 30_000


def test_small_settings_are_kept(settings: Any, flush_settings: Any) -> None:
    chosen = settings(
        keep_recent_tokens=500, memory_flush=flush_settings(soft_threshold_tokens=100)
    )
    budget = make_budget(32_000, 0, chosen)
    assert budget.keep_recent == 500
    assert budget.flush_at == budget.usable - 100


def test_the_flush_starts_strictly_before_the_compaction(
    settings: Any, flush_settings: Any
) -> None:
    """P15: the margin of the flush is at most what a compaction keeps, and never the whole of what is usable."""
    chosen = settings(memory_flush=flush_settings(soft_threshold_tokens=1_000_000))
    budget = make_budget(8_000, 0, chosen)
    assert 0 < budget.flush_at < budget.usable


def test_a_system_prompt_that_leaves_no_room_is_an_error_that_says_so(settings: Any) -> None:
    """P6: nothing is compacted from the first token on; the operator is told."""
    with pytest.raises(CompactionError, match="5900 of 8000") as caught:
        make_budget(8_000, 5_900, settings())
    assert caught.value.where == "agents.defaults.contextTokens"
    assert caught.value.hint


def test_the_aggressive_mode_keeps_half_as_much_and_starts_at_four_fifths(settings: Any) -> None:
    usual, eager = (
        make_budget(32_000, 1_000, settings(mode=mode)) for mode in ("default", "aggressive")
    )
    assert eager.usable == usual.usable == 23_000
    assert eager.keep_recent == usual.keep_recent // 2 == 3_833
    assert eager.compact_at == 18_400
    assert eager.flush_at == 18_400 - 3_833


@given(window=st.integers(1_024, 1_000_000))
def test_an_aggressive_compaction_is_never_due_again_at_once(settings: Any, window: int) -> None:
    """P3: a group of the largest size and the largest summary are left, at worst."""
    budget = make_budget(window, 0, settings(mode="aggressive"))
    assert budget.group + budget.summary < budget.compact_at
    assert 0 < budget.keep_recent < budget.flush_at < budget.compact_at


@given(window=st.integers(1_024, 1_000_000), share=st.floats(0, 0.5))
def test_the_parts_never_exceed_the_window(settings: Any, window: int, share: float) -> None:
    budget = make_budget(window, int(window * share), settings())
    assert budget.reserve + budget.fixed + budget.usable == window
    assert budget.group + budget.summary < budget.usable
    assert 0 < budget.keep_recent < budget.flush_at < budget.usable
