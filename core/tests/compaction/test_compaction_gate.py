"""When a compaction is tried before a model call, and when it is not tried again."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.compaction.budget import Budget, make_budget
from hermitcrab.compaction.gate import (
    COMPACTIONS_PER_TURN,
    Due,
    Pressure,
    compaction_due,
    latch_of,
)


@frozen(kw_only=True)
class Gate:
    enabled: bool = True
    max_active_transcript_bytes: int = 0


@pytest.fixture
def budget(settings: Any) -> Budget:
    """10,000 tokens are usable."""
    return make_budget(16_000, 2_000, settings())


def pressure(tokens: int = 0, visible_bytes: int = 0, **values: Any) -> Pressure:
    return Pressure(
        tokens=tokens,
        visible_bytes=visible_bytes,
        session_id="s",
        **{"stored_tokens": tokens, **values},
    )


def tried(status: str, tokens: int, trigger: str = "preflight") -> dict[str, Any]:
    return {"status": status, "tokensBefore": tokens, "trigger": trigger}


def test_what_fits_is_left_alone(budget: Budget) -> None:
    assert compaction_due(pressure(10_000), budget, Gate()) is None


def test_what_does_not_fit_must_be_compacted(budget: Budget) -> None:
    assert compaction_due(pressure(10_001), budget, Gate()) == Due("too_large", must_fit=True)


def test_switched_off_nothing_is_due(budget: Budget) -> None:
    gate = Gate(enabled=False, max_active_transcript_bytes=1)
    assert compaction_due(pressure(99_000, 99_000), budget, gate) is None


def test_the_aggressive_mode_starts_earlier_and_that_compaction_may_fail(settings: Any) -> None:
    eager = make_budget(16_000, 2_000, settings(mode="aggressive"))
    assert compaction_due(pressure(8_001), eager, Gate()) == Due("early")
    assert compaction_due(pressure(8_000), eager, Gate()) is None


@pytest.mark.parametrize("status", ["no_progress", "failed", "not_needed"])
def test_an_attempt_that_changed_nothing_is_not_repeated_until_the_context_has_grown(
    budget: Budget, status: str
) -> None:
    """C27: flush and compaction, or a model that returns as much as it got, must not loop."""
    last = tried(status, 10_100)
    assert compaction_due(pressure(10_200, last=last), budget, Gate()) is None
    assert compaction_due(pressure(10_600, last=last), budget, Gate()) is not None


@pytest.mark.parametrize("status", ["compacted", "cancelled"])
def test_other_outcomes_hold_nothing_back(budget: Budget, status: str) -> None:
    assert compaction_due(pressure(10_200, last=tried(status, 10_100)), budget, Gate())


def test_what_nothing_else_makes_fit_is_tried_all_the_same(budget: Budget) -> None:
    now = pressure(10_200, last=tried("no_progress", 10_100), fits_when_cut=False)
    assert compaction_due(now, budget, Gate()) == Due("too_large", must_fit=True)


def test_an_attempt_that_did_not_have_to_succeed_does_not_hold_back_one_that_has_to(
    budget: Budget,
) -> None:
    """The first rejection of an early compaction keeps the history; a full window gets one by rules."""
    assert compaction_due(pressure(10_200, last=tried("failed", 9_900)), budget, Gate())


def test_an_attempt_by_hand_holds_nothing_back(budget: Budget) -> None:
    last = tried("failed", 10_100, trigger="manual")
    assert compaction_due(pressure(10_200, last=last), budget, Gate())


def test_a_context_that_has_become_smaller_since_is_not_the_one_that_failed(budget: Budget) -> None:
    now = pressure(10_200, last=tried("not_needed", 30_000))
    assert compaction_due(now, budget, Gate())


def test_one_turn_compacts_a_bounded_number_of_times(budget: Budget) -> None:
    """P3"""
    assert compaction_due(pressure(99_000, attempts=COMPACTIONS_PER_TURN), budget, Gate()) is None


class TestBytes:
    GATE = Gate(max_active_transcript_bytes=1_000)

    def test_a_transcript_as_large_as_the_limit_is_due(self, budget: Budget) -> None:
        assert compaction_due(pressure(100, 1_000), budget, self.GATE) == Due("bytes")
        assert compaction_due(pressure(100, 999), budget, self.GATE) is None

    def test_zero_is_off(self, budget: Budget) -> None:
        assert compaction_due(pressure(100, 10**9), budget, Gate()) is None

    def test_one_that_stays_large_waits_for_as_much_again(self, budget: Budget) -> None:
        """P5: the trigger never cleared, and each turn flushed and compacted again."""
        latch = latch_of("s", 1_500, 1_000)
        held = pressure(100, 2_499, byte_latch=latch)
        assert compaction_due(held, budget, self.GATE) is None
        assert compaction_due(evolve(held, visible_bytes=2_500), budget, self.GATE)

    def test_the_latch_holds_for_its_session_and_its_limit_alone(self, budget: Budget) -> None:
        held = pressure(100, 1_600, byte_latch=latch_of("s", 1_500, 1_000))
        assert compaction_due(evolve(held, session_id="other"), budget, self.GATE)
        other = Gate(max_active_transcript_bytes=1_200)
        assert compaction_due(held, budget, other)

    def test_below_the_limit_there_is_no_latch(self) -> None:
        assert latch_of("s", 999, 1_000) is None

    @given(limit=st.integers(1, 10_000), grown=st.lists(st.integers(0, 500), max_size=60))
    def test_however_a_transcript_grows_it_fires_at_most_once_for_each_limit_of_growth(
        self, settings: Any, limit: int, grown: list[int]
    ) -> None:
        budget = make_budget(16_000, 2_000, settings())
        gate, latch, size, fired = Gate(max_active_transcript_bytes=limit), None, 0, 0
        for added in grown:
            size += added
            if compaction_due(pressure(100, size, byte_latch=latch), budget, gate):
                fired += 1
                latch = latch_of("s", size, limit)
        assert fired <= size // limit
