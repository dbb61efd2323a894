from __future__ import annotations

from hermitcrab.agent.loop_guard import REFILLS, LoopGuard, fingerprint, stop_note


def guard_after_compaction() -> LoopGuard:
    guard = LoopGuard()
    guard.model_asked(compacted=True)
    return guard


def call(guard: LoopGuard, times: int = 1, path: str = "a", result: str = "text") -> None:
    for _ in range(times):
        guard.tool_called("read", {"path": path}, result)


def test_the_same_call_with_the_same_result_three_times_after_a_compaction_is_a_loop() -> None:
    guard = guard_after_compaction()
    call(guard, 2)
    assert guard.stop is None
    call(guard)
    assert guard.stop == "tool_loop"


def test_without_a_compaction_nothing_is_looked_at() -> None:
    guard = LoopGuard()
    guard.model_asked(compacted=False)
    call(guard, 9)
    assert guard.stop is None


def test_another_result_or_other_arguments_are_progress() -> None:
    guard = guard_after_compaction()
    call(guard, 2)
    call(guard, result="other")
    assert guard.stop is None
    guard = guard_after_compaction()
    call(guard, 2)
    call(guard, path="b")
    assert guard.stop is None


def test_only_the_calls_right_behind_the_compaction_count() -> None:
    guard = guard_after_compaction()
    call(guard, path="b")
    call(guard, 5)
    assert guard.stop is None


def test_a_loop_with_a_compaction_in_every_round_is_still_a_loop() -> None:
    guard = LoopGuard()
    for _ in range(3):
        guard.model_asked(compacted=True)
        call(guard)
    assert guard.stop == "tool_loop"


def test_a_context_that_is_full_again_after_every_compaction_is_a_storm() -> None:
    """C30"""
    guard = LoopGuard()
    for number in range(REFILLS):
        assert guard.stop is None
        guard.model_asked(compacted=True)
        call(guard, path=str(number))
    assert guard.stop == "compaction_storm"


def test_a_call_in_between_ends_a_storm() -> None:
    guard = LoopGuard()
    for number in range(REFILLS * 3):
        guard.model_asked(compacted=number % 2 == 0)
        call(guard, path=str(number))
    assert guard.stop is None


def test_the_order_of_arguments_does_not_matter_and_anything_can_be_an_argument() -> None:
    assert fingerprint("t", {"a": 1, "b": 2}, "r") == fingerprint("t", {"b": 2, "a": 1}, "r")
    assert fingerprint("t", {"a": object}, "\ud800") != fingerprint("t", {}, "\ud800")


def test_the_notes_say_what_happened() -> None:
    assert "same result" in stop_note("tool_loop", 9)
    assert "larger context window" in stop_note("compaction_storm", 9)
    assert "9 rounds" in stop_note("tool_rounds", 9)
