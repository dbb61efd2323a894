from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.models import sse
from hermitcrab.models.errors_map import retry_after_seconds
from hermitcrab.models.overflow_text import is_overflow
from hermitcrab.models.sse import EventDecoder

STREAM = (
    'data: {"a": "é\u2028"}\r\n\r\n: comment\nevent: x\ndata: one\ndata: two\n\ndata: tail'.encode()
)


@settings(deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_do_not_depend_on_where_the_network_cuts(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    decoder = EventDecoder()
    events: list[str] = []
    for start, end in zip(places, places[1:], strict=False):  # noqa: RUF007
        events += decoder.feed(STREAM[start:end])
    assert events + decoder.close() == ['{"a": "é\u2028"}', "one\ntwo", "tail"]


def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 10)
    with pytest.raises(ValueError, match="larger than 10 bytes"):
        EventDecoder().feed(b"data: 0123456789")


def test_retry_after_is_a_number_of_seconds_or_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert retry_after_seconds({"retry-after": "2.5"}) == 2.5
    assert retry_after_seconds({"retry-after-ms": "300"}) == 0.3
    assert 90 < (retry_after_seconds({"retry-after": date}) or 0) <= 100
    for junk in ("soon", "-1", "nan", "inf", ""):
        assert retry_after_seconds({"retry-after": junk}) is None
    assert retry_after_seconds({}) is None


@pytest.mark.parametrize(
    "text",
    [
        "rate limit reached: too many tokens",
        "reasoning is mandatory, prompt is too long",
        "maximum context length; check your billing",
    ],
)
def test_throttling_billing_and_reasoning_texts_are_no_overflow(text: str) -> None:
    """Context 6.5."""
    assert not is_overflow(400, text)


@pytest.mark.timeout(20)
def test_hostile_error_texts_are_read_in_linear_time() -> None:
    """C41."""
    assert not is_overflow(400, "input token count " * 12_000)
    assert not is_overflow(400, "a" * 200_000)
