"""What a failed request for vectors means: the error to raise, and what can be done about it (memory 5.5). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from hermitcrab.errors import EmbeddingError, EmbeddingFailure
from hermitcrab.models.errors_map import Origin, provider_text, retry_after_seconds
from hermitcrab.models.overflow_text import (
    exceeds_rate_alone,
    is_overflow,
    is_quota,
    is_throttling,
)

#: Where the settings of embeddings stand in config.
SETTINGS = "agents.defaults.memorySearch"

_HINTS: Mapping[EmbeddingFailure, str] = {
    "transient": "Try again later; until then memory is searched by keywords",
    "quota": "Check the plan and billing of the account, or choose another provider",
    "auth": f"Check {SETTINGS}.remote.apiKey and what the key may use",
    "request": f"Check {SETTINGS}.model and what the provider accepts",
    "answer": f"Check that {SETTINGS}.remote.baseUrl leads to an embedding server of this kind",
    "switched": "The next search uses it",
}


@frozen
class Failure:
    """A failed attempt: the error to raise, whether another attempt can succeed, or a smaller request."""

    error: EmbeddingError
    retryable: bool = False
    too_large: bool = False


def failure(
    where: str,
    kind: EmbeddingFailure,
    message: str,
    *,
    hint: str | None = None,
    retry_after_s: float | None = None,
    retryable: bool = False,
    too_large: bool = False,
) -> Failure:
    """A failure with the hint of its kind, where there is no better one."""
    error = EmbeddingError(
        message,
        kind=kind,
        where=where,
        hint=hint or _HINTS[kind],
        retry_after_s=retry_after_s,
    )
    return Failure(error, retryable, too_large)


def failure_of_response(
    origin: Origin, status: int, body: str, headers: Mapping[str, str]
) -> Failure:
    """The failure that a status and body stand for; a quota that is used up is final (memory 11, 22)."""
    text = provider_text(body)
    said = f": {origin.safe(text)}" if text else ""
    where = origin.where
    wait_s = retry_after_seconds(headers)
    if _is_quota(status, text, wait_s):
        return failure(where, "quota", f"the quota or balance is used up ({status}){said}")
    if status in (401, 403):
        return failure(where, "auth", f"the credentials were refused ({status}){said}")
    if is_overflow(status, text) or exceeds_rate_alone(text):
        return failure(where, "request", f"the request is too large{said}", too_large=True)
    if status == 429 or (status < 500 and is_throttling(text)):
        message = f"the provider asks for fewer requests{said}"
        return failure(where, "transient", message, retry_after_s=wait_s, retryable=True)
    if status == 408 or status >= 500:
        message = f"the server failed ({status}){said}"
        return failure(where, "transient", message, retry_after_s=wait_s, retryable=True)
    hint = None
    if status == 404:
        hint = f"Check {SETTINGS}.remote.baseUrl and that the model {origin.model} exists there"
    return failure(where, "request", f"the request was refused ({status}){said}", hint=hint)


def _is_quota(status: int, text: str, wait_s: float | None) -> bool:
    if status == 402:
        return True
    if status not in (400, 403, 429) or not is_quota(text):
        return False
    # Some providers call a limit per minute a quota too, but then say when to come back.
    return "insufficient_quota" in text or wait_s is None
