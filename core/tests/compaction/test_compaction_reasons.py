from __future__ import annotations

import pytest

from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.compaction.reasons import reason_class


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Nothing to compact (session too small)", "no_compactable_entries"),
        ("no real conversation messages", "no_compactable_entries"),
        ("the conversation is too short to compact", "no_compactable_entries"),
        ("everything is recent or not yet flushed", "no_compactable_entries"),
        ("below threshold", "below_threshold"),
        ("already under target", "below_threshold"),
        ("Already compacted", "already_compacted"),
        ("already_compacted_recently", "already_compacted"),
        (
            "another process has compacted this session meanwhile, or it was rewritten",
            "already_compacted",
        ),
        ("deferred to background context-engine maintenance", "deferred_background"),
        ("live context still exceeds target", "live_context_still_exceeds_target"),
        ("a summary would take as much as what it replaces", "live_context_still_exceeds_target"),
        (
            "the engine says that it compacted, and the context is as large as before",
            "live_context_still_exceeds_target",
        ),
        ("compaction safeguard: the summary timed out (503)", "guard_blocked"),
        ("cancelled by a plugin", "guard_blocked"),
        ("automatic compaction is off (agents.defaults.compaction.enabled)", "guard_blocked"),
        ("summarization_failed: the server failed (500)", "summary_failed"),
        ("Compaction timed out", "timeout"),
        ("no answer within 180 s", "timeout"),
        ("the provider refused the credentials (401)", "provider_error_4xx"),
        ("HTTP 429", "provider_error_4xx"),
        ("the server failed (503)", "provider_error_5xx"),
        ("invalid api key", "auth_failed"),
        ("the transcript cannot be written", "transcript_persistence_failed"),
        ("who knows", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_first_class_that_fits_is_the_class_of_a_reason(
    reason: str | None, expected: str
) -> None:
    assert reason_class(reason) == expected


def test_numbers_that_are_no_status_do_not_count_as_one() -> None:
    assert reason_class("4011 messages, 5003 words") == "unknown"


def test_an_outcome_carries_its_class_into_its_record() -> None:
    failed = CompactionOutcome(status="failed", trigger="preflight", reason="HTTP 502")
    assert failed.reason_class == failed.record()["reasonClass"] == "provider_error_5xx"
    done = CompactionOutcome(status="compacted", trigger="preflight", reason="a remark")
    assert done.record()["reasonClass"] is None
