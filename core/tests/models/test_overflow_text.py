"""What providers say of requests that are too large, and what only looks like it (context 6.5)."""

from __future__ import annotations

import time

import pytest

from hermitcrab.errors import (
    ModelOverflowError,
    ModelRateLimitError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from hermitcrab.models.errors_map import Origin, failure_of_response
from hermitcrab.models.overflow_text import exceeds_rate_alone, is_overflow, observed_tokens

ORIGIN = Origin(provider_id="lab", model="tiny")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("prompt is too long: 213462 tokens > 200000 maximum", 213_462),
        ('{"type":"request_too_large","message":"Request exceeds the maximum size"}', None),
        ("Your input exceeds the context window of this model.", None),
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9,001"
            " tokens. Please reduce the length of the messages.",
            9_001,
        ),
        (
            "This model's maximum context length is 4097 tokens, however you requested 5100 tokens (4100 in"
            " your prompt; 1000 for the completion).",
            5_100,
        ),
        (
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            1_196_265,
        ),
        (
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            537_812,
        ),
        ("Please reduce the length of the messages or completion.", None),
        ("prompt token count of 140011 exceeds the limit of 128000", 140_011),
        (
            "request (9211 tokens) exceeds the available context size (8192 tokens), try increasing it",
            9_211,
        ),
        (
            "The number of tokens to keep from the initial prompt is greater than the context length",
            None,
        ),
        ("invalid params, context window exceeds limit", None),
        ("Invalid request: Your request exceeded model token limit: 262144", None),
        (
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            40_000,
        ),
        ("model_context_window_exceeded", None),
        ("prompt too long; exceeded max context length by 1200 tokens", None),
        ("Requested tokens (5121) exceed context window of 4096", 5_121),
        ("context_length_exceeded", None),
        ("Input is too long for requested model.", None),
        ("Too many tokens in the prompt.", None),
        ("Token limit exceeded", None),
        ("Context size has been exceeded.", None),
        ("输入超出模型的上下文长度", None),
    ],
)
def test_a_request_that_is_too_large_is_recognised_with_the_providers_count(
    text: str, tokens: int | None
) -> None:
    assert is_overflow(400, text)
    assert observed_tokens(text) == tokens
    error = failure_of_response(ORIGIN, 400, text).error
    assert isinstance(error, ModelOverflowError)
    assert error.observed_tokens == tokens


@pytest.mark.parametrize("status", [400, 413])
def test_a_refusal_without_a_word_counts_as_too_large(status: int) -> None:
    assert is_overflow(status, "  ")
    assert not is_overflow(500, "")


@pytest.mark.parametrize(
    "text",
    [
        "Throttling error: Too many tokens, please wait before trying again.",
        "Rate limit reached: too many tokens per minute",
        "429 Too many requests",
        "Request too large: tokens per min (TPM) limit 30000",
        "Your credit balance is too low; the prompt is too long for it",
        "insufficient_quota: token limit exceeded",
        "billing hard limit: maximum context length",
        "Reasoning is mandatory for this endpoint and cannot be disabled: too many tokens",
        "temperature must be at most 2",
        "messages: at least one message is required",
        "max_tokens must be at least 1",
    ],
)
def test_rates_money_and_reasoning_are_no_overflow(text: str) -> None:
    assert not is_overflow(400, text)


def test_a_request_larger_than_the_limit_of_a_minute_is_told_at_once() -> None:
    """Waiting cannot help, so it is neither retried nor mistaken for a full context window."""
    text = "Request too large for tiny in organization org on tokens per min (TPM): Limit 30000, Requested 52,873."
    assert exceeds_rate_alone(text)
    failure = failure_of_response(ORIGIN, 429, text)
    assert isinstance(failure.error, ModelRateLimitError)
    assert not failure.retryable
    assert "Compact" in (failure.error.hint or "")


def test_a_request_that_only_has_to_wait_is_retried() -> None:
    text = "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 2873."
    assert not exceeds_rate_alone(text)
    assert failure_of_response(ORIGIN, 429, text).retryable


@pytest.mark.parametrize("status", [408, 504, 524])
def test_a_gateway_that_gave_up_waiting_is_a_timeout(status: int) -> None:
    assert type(failure_of_response(ORIGIN, status, "gateway").error) is ModelTimeoutError
    assert type(failure_of_response(ORIGIN, 503, "busy").error) is ModelUnavailableError


@pytest.mark.parametrize(
    "text", ["prompt tokens " * 20_000, "limit 1 " * 20_000 + "tpm", "9" * 200_000]
)
def test_patterns_are_linear(text: str) -> None:
    """C41"""
    started = time.monotonic()
    is_overflow(400, text)
    observed_tokens(text)
    exceeds_rate_alone(text)
    assert time.monotonic() - started < 5
