"""Requests to the Anthropic Messages API as values."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import evolve, frozen

from hermitcrab.messages.convert_anthropic import to_anthropic
from hermitcrab.messages.text import scrub_text
from hermitcrab.messages.types import Message
from hermitcrab.models.contract import ChatRequest, ToolSchema

#: How long the provider remembers the beginning of a request: not at all, five minutes, an hour.
PromptCache = Literal["none", "short", "long"]

#: Tokens of an answer where nobody says; the protocol demands a limit. More, where the model is to think.
DEFAULT_MAX_TOKENS = 8_192
DEFAULT_MAX_TOKENS_THINKING = 16_384
_SMALLEST_THINKING = 1_024
_THINKING_TOKENS = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 4_096,
    "adaptive": 4_096,
    "high": 8_192,
    "xhigh": 16_384,
    "max": 32_768,
    "ultra": 32_768,
}
_EFFORTS = {"minimal": "low", "adaptive": "medium", "xhigh": "high", "ultra": "max"}
_CACHE_CONTROLS: Mapping[PromptCache, Mapping[str, str]] = {
    "none": {},
    "short": {"type": "ephemeral"},
    "long": {"type": "ephemeral", "ttl": "1h"},
}
_THINKING_PARTS = frozenset({"thinking", "redacted_thinking"})
_ACCEPTED_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
#: Stand at the ends of a conversation that does not begin or end with the user, which the API demands.
_OPENING = "(The conversation begins with your message.)"
_CLOSING = "(Go on.)"


@frozen(kw_only=True)
class Dialect:
    """What a server accepts of the optional parameters; starts with budgets of tokens and shrinks on refusal."""

    thinking: Literal["budget", "adaptive", "none"] = "budget"
    prompt_cache: bool = True


def adapted(dialect: Dialect, refusal: str) -> Dialect | None:
    """The dialect to try after a refusal whose text names a parameter, or None if nothing can be left out."""
    if dialect.prompt_cache and "cache_control" in refusal:
        return evolve(dialect, prompt_cache=False)
    if dialect.thinking == "budget" and "adaptive" in refusal:
        return evolve(dialect, thinking="adaptive")
    if dialect.thinking != "none" and ("thinking" in refusal or "output_config" in refusal):
        return evolve(dialect, thinking="none")
    return None


def request_payload(
    request: ChatRequest,
    *,
    provider: str,
    model: str,
    dialect: Dialect,
    stream: bool,
    max_tokens: int | None,
    prompt_cache: PromptCache,
    fast_body: Mapping[str, Any],
) -> dict[str, Any]:
    """The JSON body of a request; ``max_tokens`` limits the answer where the request sets no lower limit.

    :param fast_body: what fast mode adds, in place of what would stand there.
    """
    limit, thinking = _limit_and_thinking(request, dialect, max_tokens)
    messages = conversation(request.messages, thinking_of=(provider, model) if thinking else None)
    if thinking and _goes_on_without_thinking(messages):
        # The API refuses to begin to think in the middle of a round of tool calls.
        thinking = {}
        messages = conversation(request.messages, thinking_of=None)
    cache = _CACHE_CONTROLS[prompt_cache] if dialect.prompt_cache else {}
    payload: dict[str, Any] = {
        "model": model,
        "max_tokens": limit,
        "messages": _with_cache(messages, cache),
        "stream": stream,
        **thinking,
    }
    if request.system.strip():
        payload["system"] = [_cached({"type": "text", "text": scrub_text(request.system)}, cache)]
    if request.tools:
        payload["tools"] = [_tool(tool) for tool in request.tools]
    if request.fast:
        payload |= fast_body
    return payload


def _limit_and_thinking(
    request: ChatRequest, dialect: Dialect, max_tokens: int | None
) -> tuple[int, Mapping[str, Any]]:
    """The limit of the answer, which includes the thinking, and the fields that ask for thinking.

    At most half of the limit goes into thinking, so that an answer is left.
    """
    level = request.thinking or "off"
    thinks = level in _THINKING_TOKENS and dialect.thinking != "none"
    limits = [limit for limit in (request.max_tokens, max_tokens) if limit is not None]
    limit = min(limits, default=DEFAULT_MAX_TOKENS_THINKING if thinks else DEFAULT_MAX_TOKENS)
    budget = min(_THINKING_TOKENS[level], limit // 2) if thinks else 0
    if budget < _SMALLEST_THINKING:
        return limit, {}
    if dialect.thinking == "adaptive":
        effort = {"effort": _EFFORTS.get(level, level)}
        return limit, {"thinking": {"type": "adaptive"}, "output_config": effort}
    return limit, {"thinking": {"type": "enabled", "budget_tokens": budget}}


def conversation(
    messages: Sequence[Message], *, thinking_of: tuple[str, str] | None
) -> list[dict[str, Any]]:
    """The messages as the API accepts them: it begins and ends with the user, roles alternate, ids and names are plain.

    :param thinking_of: the provider and model whose thinking is sent back; nobody else can use its signatures.
    """

    def keep_thinking(message: Message) -> bool:
        return (message.get("provider"), message.get("model")) == thinking_of

    converted = to_anthropic(messages, keep_thinking=keep_thinking)
    for message in converted:
        message["content"] = [_accepted(part) for part in message["content"]]
    if not converted or converted[0]["role"] != "user":
        converted.insert(0, _user_text(_OPENING))
    if converted[-1]["role"] != "user":
        converted.append(_user_text(_CLOSING))
    return converted


def _user_text(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def _accepted(part: Mapping[str, Any]) -> dict[str, Any]:
    """The part with ids and names that the API accepts; those of other providers may hold any character."""
    if part["type"] == "tool_use":
        name = _NOT_IN_NAMES.sub("_", part["name"])[:128] or "unknown"
        return {**part, "id": _accepted_id(part["id"]), "name": name}
    if part["type"] == "tool_result":
        return {**part, "tool_use_id": _accepted_id(part["tool_use_id"])}
    return {**part}


def _accepted_id(call_id: str) -> str:
    if _ACCEPTED_ID.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(scrub_text(call_id).encode()).hexdigest()[:24]}"


def _goes_on_without_thinking(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the messages end in rounds of tool calls whose first answer has no thinking."""
    start = len(messages)
    while start >= 2 and messages[start - 1]["content"][0]["type"] == "tool_result":
        start -= 2
    return start < len(messages) and messages[start]["content"][0]["type"] not in _THINKING_PARTS


def _with_cache(messages: list[dict[str, Any]], cache: Mapping[str, str]) -> list[dict[str, Any]]:
    """Mark the end of the conversation, which is the user's, as the end of what the provider is to remember."""
    last = messages[-1]
    *before, final = last["content"]
    return [*messages[:-1], {**last, "content": [*before, _cached(final, cache)]}]


def _cached(part: dict[str, Any], cache: Mapping[str, str]) -> dict[str, Any]:
    return {**part, "cache_control": dict(cache)} if cache else part


def _tool(tool: ToolSchema) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": {"type": "object", **tool.parameters},
    }
