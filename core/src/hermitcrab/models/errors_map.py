"""What a failed request means: the typed error to raise, and whether asking again can help (context 6.5, 6.8)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from attrs import frozen

from hermitcrab.errors import (
    ModelAuthError,
    ModelError,
    ModelOverflowError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
)
from hermitcrab.messages.text import scrub_text

_SHOWN_CHARACTERS = 500

_OVERFLOW = re.compile(
    r"prompt is too long|request_too_large|request too large|context[ _]length[ _]exceeded"
    r"|exceeds? (?:the )?(?:model'?s? )?(?:available |maximum )?context (?:window|length|size)"
    r"|context (?:window|length|size) (?:has been |was )?exceeded|exceed_context_size"
    r"|maximum context length|maximum prompt length|available context size"
    r"|input token count.{0,80}exceeds|input is too long|too many (?:input )?tokens"
    r"|token limit exceeded|exceeds (?:the )?limit of \d+|exceeds the maximum number of tokens"
    r"|reduce the length of the (?:messages|prompt|input)|prompt too long|larger than the context"
    r"|model_context_window_exceeded|context_window_exceeded|超出.{0,20}(?:上下文|长度)|上下文.{0,20}超",
    re.IGNORECASE,
)
_THROTTLED = re.compile(
    r"rate.?limit|too many requests|throttl|tokens per (?:min|day)|requests per (?:min|day)"
    r"|\btpm\b|\brpm\b|overloaded|concurrency limit",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|quota exceeded|billing|credit balance"
    r"|insufficient (?:credits?|balance|funds)|payment required|余额不足",
    re.IGNORECASE,
)
_REASONING = re.compile(
    r"reasoning.{0,40}(?:required|mandatory|must|cannot|disable)", re.IGNORECASE
)
_CREDENTIAL = re.compile(r"\bsk-[A-Za-z0-9_\-*]{6,}|\bBearer [^\s\"']{6,}", re.IGNORECASE)


@frozen
class Failure:
    """A failed attempt: the error to raise, and whether another attempt can succeed."""

    error: ModelError
    retryable: bool = False


@frozen(kw_only=True)
class Origin:
    """The provider and model that failed, and the texts that no message may repeat."""

    provider_id: str
    model: str
    secrets: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.provider_id}/{self.model}"

    def safe(self, text: str) -> str:
        """The text on one line, without credentials and cut to a readable length."""
        for secret in self.secrets:
            text = text.replace(secret, "[redacted]")
        line = scrub_text(" ".join(_CREDENTIAL.sub("[redacted]", text[:20_000]).split()))
        return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


def failure_of_response(
    origin: Origin, status: int, body: str, headers: Mapping[str, str] | None = None
) -> Failure:
    """The failure that a status and body stand for."""
    text = provider_text(body)
    said = f": {origin.safe(text)}" if text else ""
    if status in (401, 403) and not _QUOTA.search(text):
        return Failure(_auth_error(origin, status, said))
    if status in (402, 403) or _is_quota(status, text, headers or {}):
        return Failure(_quota_error(origin, said))
    if is_overflow(status, text):
        return Failure(_overflow_error(origin, said))
    if status == 429 or (status <= 500 and _THROTTLED.search(text)):
        return Failure(_rate_limit_error(origin, said, headers or {}), retryable=True)
    if status == 408 or status >= 500:
        return Failure(_server_error(origin, status, said), retryable=True)
    return Failure(_request_error(origin, status, said))


def _is_quota(status: int, text: str, headers: Mapping[str, str]) -> bool:
    # Some providers call a limit per minute a quota too, but then say when to come back.
    if status not in (400, 429) or not _QUOTA.search(text):
        return False
    return "insufficient_quota" in text or retry_after_seconds(headers) is None


def is_overflow(status: int, text: str) -> bool:
    """Whether a provider's answer says that the request exceeds the context window (context 6.5)."""
    if _QUOTA.search(text) or _THROTTLED.search(text) or _REASONING.search(text):
        return False
    if status in (400, 413) and not text.strip():
        return True
    return status == 413 or _OVERFLOW.search(text) is not None


def failure_of_stream_error(origin: Origin, payload: Any) -> Failure:
    """The failure that an ``error`` object inside a stream or a 200 answer stands for."""
    fields = payload if isinstance(payload, dict) else {"message": str(payload)}
    code = fields.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return failure_of_response(origin, status, json.dumps({"error": fields}))


def unreachable(origin: Origin, reason: str, *, retryable: bool = True) -> Failure:
    """The failure of a connection: refused, broken or timed out."""
    hint = f"Check that the server of models.providers.{origin.provider_id}.baseUrl is running"
    message = f"no answer from the server: {origin.safe(reason)}"
    return Failure(ModelUnavailableError(message, where=origin.where, hint=hint), retryable)


def unreadable(origin: Origin, reason: str, *, retryable: bool = True) -> Failure:
    """The failure of an answer that is not what the protocol says."""
    hint = f"Check that models.providers.{origin.provider_id}.baseUrl speaks the OpenAI protocol"
    message = f"the server's answer is unreadable: {origin.safe(reason)}"
    return Failure(ModelUnavailableError(message, where=origin.where, hint=hint), retryable)


def provider_text(body: str) -> str:
    """What an error body says: message, code and type where it is JSON, else the body itself."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return body.strip()
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(error, dict):
        return str(error or "")
    parts = [error.get("message") or error.get("detail"), error.get("code"), error.get("type")]
    return " ".join(str(part) for part in parts if part) or (json.dumps(error) if error else "")


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Seconds that a provider asks to wait, from ``retry-after-ms`` or ``retry-after`` (a number or a date)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _auth_error(origin: Origin, status: int, said: str) -> ModelError:
    return ModelAuthError(
        f"the provider refused the credentials ({status}){said}",
        where=origin.where,
        hint=f"Check models.providers.{origin.provider_id}.apiKey and what the key may use",
    )


def _quota_error(origin: Origin, said: str) -> ModelError:
    return ModelRateLimitError(
        f"the quota or balance at the provider is used up{said}",
        where=origin.where,
        hint="Check the plan and billing of the account, or choose another model",
    )


def _overflow_error(origin: Origin, said: str) -> ModelError:
    return ModelOverflowError(
        f"the request is larger than the context window{said}",
        where=origin.where,
        hint="Compact the session, or choose a model with a larger window",
    )


def _rate_limit_error(origin: Origin, said: str, headers: Mapping[str, str]) -> ModelError:
    seconds = retry_after_seconds(headers)
    wait = "a moment" if seconds is None else f"{seconds:.0f} s"
    return ModelRateLimitError(
        f"the provider asks for fewer requests{said}",
        where=origin.where,
        hint=f"Wait {wait} and try again",
        retry_after_s=seconds,
    )


def _server_error(origin: Origin, status: int, said: str) -> ModelError:
    return ModelUnavailableError(
        f"the server failed ({status}){said}",
        where=origin.where,
        hint="Try again later, or choose another model",
    )


def _request_error(origin: Origin, status: int, said: str) -> ModelError:
    provider = f"models.providers.{origin.provider_id}"
    hint = f"Check the parameters that {provider} accepts"
    if status == 404:
        hint = f"Check {provider}.baseUrl and that the model {origin.model} exists there"
    return ModelRequestError(
        f"the provider refused the request ({status}){said}", where=origin.where, hint=hint
    )
