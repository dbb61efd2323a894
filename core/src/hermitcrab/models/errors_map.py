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
    ModelTimeoutError,
    ModelUnavailableError,
)
from hermitcrab.messages.text import scrub_text
from hermitcrab.models.overflow_text import (
    exceeds_rate_alone,
    is_overflow,
    is_quota,
    is_throttling,
    observed_tokens,
)

_SHOWN_CHARACTERS = 500
#: Statuses of servers and gateways that gave up waiting for the model.
_TIMEOUT_STATUSES = frozenset({408, 504, 524})

#: The status that an error object without one stands for, by its ``type``.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_CREDENTIAL = re.compile(r"\bsk-[A-Za-z0-9_\-*]{6,}|\bBearer [^\s\"']{6,}", re.IGNORECASE)


@frozen
class Failure:
    """A failed attempt: the error to raise, and whether another attempt can succeed."""

    error: ModelError
    retryable: bool = False


@frozen(kw_only=True)
class Origin:
    """The provider and model that failed, the protocol spoken, and the texts that no message may repeat."""

    provider_id: str
    model: str
    protocol: str = "OpenAI"
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
    if status in (401, 403) and not is_quota(text):
        return Failure(_auth_error(origin, status, said))
    if status in (402, 403) or _is_quota(status, text, headers or {}):
        return Failure(_quota_error(origin, said))
    if is_overflow(status, text):
        return Failure(_overflow_error(origin, said, observed_tokens(text)))
    if exceeds_rate_alone(text):
        return Failure(_too_large_error(origin, said))
    if status == 429 or (status <= 500 and is_throttling(text)):
        return Failure(_rate_limit_error(origin, said, headers or {}), retryable=True)
    if status == 408 or status >= 500:
        return Failure(_server_error(origin, status, said), retryable=True)
    return Failure(_request_error(origin, status, said))


def _is_quota(status: int, text: str, headers: Mapping[str, str]) -> bool:
    # Some providers call a limit per minute a quota too, but then say when to come back.
    if status not in (400, 429) or not is_quota(text):
        return False
    return "insufficient_quota" in text or retry_after_seconds(headers) is None


def failure_of_stream_error(origin: Origin, payload: Any) -> Failure:
    """The failure that an ``error`` object inside a stream or a 200 answer stands for."""
    fields = payload if isinstance(payload, dict) else {"message": str(payload)}
    code = fields.get("code")
    status = _STATUS_OF_TYPE.get(str(fields.get("type")), 500)
    if isinstance(code, int) and 400 <= code < 600:
        status = code
    return failure_of_response(origin, status, json.dumps({"error": fields}))


def unreachable(origin: Origin, reason: str, *, retryable: bool = True) -> Failure:
    """The failure of a connection: refused, broken or timed out."""
    hint = f"Check that the server of models.providers.{origin.provider_id}.baseUrl is running"
    message = f"no answer from the server: {origin.safe(reason)}"
    return Failure(ModelUnavailableError(message, where=origin.where, hint=hint), retryable)


def timed_out(origin: Origin, timeout_s: float) -> Failure:
    """The failure of a server that took a request and stayed silent; asked again, it would be kept waiting again."""
    return Failure(
        ModelTimeoutError(
            f"no answer from the server: nothing came within {timeout_s:g} s",
            where=origin.where,
            hint=f"Check that the server of models.providers.{origin.provider_id}.baseUrl is running",
        )
    )


def unreadable(origin: Origin, reason: str, *, retryable: bool = True) -> Failure:
    """The failure of an answer that is not what the protocol says."""
    address = f"models.providers.{origin.provider_id}.baseUrl"
    hint = f"Check that {address} speaks the {origin.protocol} protocol"
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


def _overflow_error(origin: Origin, said: str, tokens: int | None) -> ModelError:
    return ModelOverflowError(
        f"the request is larger than the context window{said}",
        where=origin.where,
        hint="Compact the session, or choose a model with a larger window",
        observed_tokens=tokens,
    )


def _too_large_error(origin: Origin, said: str) -> ModelError:
    return ModelRateLimitError(
        f"one request is larger than what the provider allows in a minute{said}",
        where=origin.where,
        hint="Compact the session, lower agents.defaults.contextTokens, or raise the limit at the provider",
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
    kind = ModelTimeoutError if status in _TIMEOUT_STATUSES else ModelUnavailableError
    return kind(
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
