"""Chat completions as values: what a request looks like, what an answer and the pieces of a stream mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import evolve, frozen

from hermitcrab.messages.convert_openai import assistant_blocks, to_openai
from hermitcrab.models.contract import ChatReply, ChatRequest, TokenUsage, ToolSchema
from hermitcrab.models.replies import (
    Delta,
    ProviderReportedError,
    deltas,
    finished_reply,
    token_count,
)

#: How the protocol spells levels for which it has words of its own.
_EFFORTS = {"off": "none", "adaptive": "medium"}
_STOP_REASONS = {
    "stop": "stop",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
    "length": "length",
}


@frozen(kw_only=True)
class Dialect:
    """What a server accepts of the optional parameters; starts as the protocol says and shrinks on refusal."""

    stream_usage: bool = True
    reasoning_effort: bool = True
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


def adapted(dialect: Dialect, refusal: str) -> Dialect | None:
    """The dialect to try after a refusal whose text names a parameter, or None if nothing can be left out."""
    if dialect.stream_usage and ("stream_options" in refusal or "include_usage" in refusal):
        return evolve(dialect, stream_usage=False)
    if dialect.limit_field == "max_tokens" and "max_completion_tokens" in refusal:
        return evolve(dialect, limit_field="max_completion_tokens")
    if dialect.reasoning_effort and "reasoning_effort" in refusal:
        return evolve(dialect, reasoning_effort=False)
    return None


def request_payload(
    request: ChatRequest,
    *,
    model: str,
    dialect: Dialect,
    stream: bool,
    max_tokens: int | None,
    fast_body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The JSON body of a request; ``max_tokens`` limits the answer where the request itself does not.

    :param fast_body: what fast mode adds, in place of what would stand there.
    """
    payload: dict[str, Any] = {
        "model": model,
        "messages": to_openai(request.messages, request.system),
        "stream": stream,
    }
    if stream and dialect.stream_usage:
        payload["stream_options"] = {"include_usage": True}
    if request.tools:
        payload["tools"] = [_tool(tool) for tool in request.tools]
    limits = [limit for limit in (request.max_tokens, max_tokens) if limit is not None]
    if limits:
        payload[dialect.limit_field] = min(limits)
    if request.thinking is not None and dialect.reasoning_effort:
        payload["reasoning_effort"] = _EFFORTS.get(request.thinking, request.thinking)
    if request.fast and fast_body:
        payload.update(fast_body)
    return payload


def _tool(tool: ToolSchema) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }


def reply_of_completion(payload: Any, *, provider: str, model: str) -> ChatReply:
    """The reply in a whole answer.

    :raises ProviderReportedError: for an error object in its place.
    :raises ValueError: for anything else that is not an answer.
    """
    if isinstance(payload, dict) and payload.get("error"):
        raise ProviderReportedError(payload["error"])
    choices = payload.get("choices") if isinstance(payload, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ValueError("it has no choices")
    return _reply(message, choice.get("finish_reason"), payload.get("usage"), provider, model)


def _reply(
    message: Mapping[str, Any], finish_reason: Any, usage: Any, provider: str, model: str
) -> ChatReply:
    refused = finish_reason == "content_filter"
    return finished_reply(
        assistant_blocks(message),
        reason=_STOP_REASONS.get(str(finish_reason), "stop"),
        cost=usage_of(usage),
        provider=provider,
        model=model,
        error="the provider's content filter stopped the answer" if refused else None,
    )


def usage_of(usage: Any) -> TokenUsage:
    """Token counts of an answer; tokens read from a cache are not counted as input again."""
    if not isinstance(usage, dict):
        return TokenUsage()
    details = usage.get("prompt_tokens_details")
    cached = token_count(details, "cached_tokens") if isinstance(details, dict) else 0
    prompt = token_count(usage, "prompt_tokens")
    return TokenUsage(
        input=max(0, prompt - cached),
        output=token_count(usage, "completion_tokens"),
        cache_read=min(cached, prompt),
    )


class CompletionAssembler:
    """Puts the pieces of a streamed answer together."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_CallPieces] = []
        self._finish_reason: str | None = None
        self._usage: Any = None

    @property
    def finished(self) -> bool:
        """Whether the server said why it stopped, so that nothing of the answer is missing."""
        return self._finish_reason is not None

    def add(self, data: str) -> Sequence[Delta]:
        """Take the data of one event and give the thinking and the text that it adds.

        :raises ProviderReportedError: for an error object in the stream.
        :raises ValueError: for data that is not a piece of an answer.
        """
        piece = json.loads(data)
        if not isinstance(piece, dict):
            raise ValueError("an event is not an object")
        if piece.get("error"):
            raise ProviderReportedError(piece["error"])
        if piece.get("usage"):
            self._usage = piece["usage"]
        choices = piece.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        return self._add_choice(choice) if isinstance(choice, dict) else ()

    def _add_choice(self, choice: Mapping[str, Any]) -> Sequence[Delta]:
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return ()
        thinking = _text(delta.get("reasoning_content") or delta.get("reasoning"))
        self._thinking.append(thinking)
        calls = delta.get("tool_calls")
        for piece in calls if isinstance(calls, list) else []:
            if isinstance(piece, dict):
                self._add_call(piece)
        text = _text(delta.get("content"))
        self._text.append(text)
        return deltas(thinking=thinking, text=text)

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function")
        fields: Mapping[str, Any] = function if isinstance(function, dict) else {}
        call = self._call_for(piece.get("index"), str(piece.get("id") or ""))
        call.name = call.name or str(fields.get("name") or "")
        arguments = fields.get("arguments")
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)
        call.arguments.append(arguments if isinstance(arguments, str) else "")

    def _call_for(self, index: Any, call_id: str) -> _CallPieces:
        # Servers differ: some leave the index out, some give every call the index 0 and tell them apart by id.
        for call in reversed(self._calls):
            same_place = index is None or call.index == index
            if same_place and (not call_id or call.id in ("", call_id)):
                call.id = call.id or call_id
                return call
        self._calls.append(_CallPieces(index, call_id))
        return self._calls[-1]

    def reply(self, *, provider: str, model: str) -> ChatReply:
        """The whole answer, once the stream has ended."""
        message = {
            "reasoning_content": "".join(self._thinking) or None,
            "content": "".join(self._text),
            "tool_calls": [call.whole() for call in self._calls],
        }
        return _reply(message, self._finish_reason, self._usage, provider, model)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class _CallPieces:
    def __init__(self, index: Any, call_id: str) -> None:
        self.index = index
        self.id = call_id
        self.name = ""
        self.arguments: list[str] = []

    def whole(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, "function": function}
