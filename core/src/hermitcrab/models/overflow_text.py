"""What a provider's error text says of the size of a request (context 6.5). Pure."""

from __future__ import annotations

import re

_OVERFLOW = re.compile(
    r"prompt is too long|prompt too long|input is too long|request_too_large|request too large"
    r"|context[ _]length[ _]exceeded|context_window_exceeded|exceed_context_size"
    r"|exceed(?:s|ed|ing)? (?:the |its |your )?(?:model'?s? )?(?:available |maximum |max )?"
    r"context (?:window|length|size|limit)"
    r"|context (?:window|length|size) (?:has been |was )?exceed(?:ed|s)"
    r"|(?:greater|larger|longer) than (?:the |its )?(?:model'?s? )?(?:maximum )?context"
    r"|maximum context length|maximum prompt length|available context size"
    r"|input token count.{0,80}exceeds|too many (?:input |prompt )?tokens"
    r"|token limit exceeded|exceed(?:s|ed) (?:the )?(?:model )?token limit"
    r"|exceeds (?:the )?limit of \d|exceeds the maximum number of (?:input )?tokens"
    r"|reduce the length of the (?:messages|prompt|input)"
    r"|超出.{0,20}(?:上下文|长度)|上下文.{0,20}超",
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

_NUMBER = r"(?<![\d,_])(?P<tokens>\d{1,3}(?:[,_]\d{3}){1,3}|\d{1,9})(?!\d)"
#: What stands around the size of the request; the size of the window stands elsewhere in the same texts.
_OBSERVED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_NUMBER} tokens? > \d",
        rf"resulted in {_NUMBER} tokens",
        rf"you requested (?:about )?{_NUMBER} tokens",
        rf"requested tokens? \(?{_NUMBER}",
        rf"request contains {_NUMBER} tokens",
        rf"input token count (?:of |is |\()?{_NUMBER}",
        rf"(?:prompt|request|input|messages?) (?:has|have|contains?|is) {_NUMBER} tokens",
        rf"(?:prompt|request|input) \({_NUMBER} tokens?\)",
        rf"(?:prompt|input) (?:token count|tokens?|length)(?: of|:|=)? ?\(?{_NUMBER}",
        rf"n_prompt_tokens\D{{1,4}}{_NUMBER}",
        rf"token count of {_NUMBER}",
    )
)
_PER_MINUTE = re.compile(
    r"limit:? (?P<limit>[\d,]{1,15}).{0,20}requested:? (?P<asked>[\d,]{1,15})", re.IGNORECASE
)
#: What a provider says stands at the beginning of its text; the rest may be the request.
_READ_CHARACTERS = 20_000


def is_throttling(text: str) -> bool:
    """Whether a text asks for fewer requests."""
    return _THROTTLED.search(text) is not None


def is_quota(text: str) -> bool:
    """Whether a text says that money or a quota is used up."""
    return _QUOTA.search(text) is not None


def is_overflow(status: int, text: str) -> bool:
    """Whether a provider's answer says that the request exceeds the context window.

    Texts about rates, money or reasoning never do, whatever else they mention.
    """
    if is_quota(text) or is_throttling(text) or _REASONING.search(text):
        return False
    if status in (400, 413) and not text.strip():
        return True
    return status == 413 or _OVERFLOW.search(text) is not None


def observed_tokens(text: str) -> int | None:
    """The size of the request in tokens by the provider's count, where its text tells."""
    text = text[:_READ_CHARACTERS]
    for pattern in _OBSERVED:
        found = pattern.search(text)
        if found is not None:
            tokens = _number(found["tokens"])
            return tokens or None
    return None


def exceeds_rate_alone(text: str) -> bool:
    """Whether one request by itself is larger than all that the provider allows in a minute: waiting cannot help."""
    text = text[:_READ_CHARACTERS]
    found = _PER_MINUTE.search(text) if is_throttling(text) else None
    return found is not None and _number(found["asked"]) > _number(found["limit"])


def _number(digits: str) -> int:
    return int(re.sub(r"\D", "", digits) or "0")
