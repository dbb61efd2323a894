"""Answers of the Anthropic Messages API as values: what a whole one and the events of a stream mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hermitcrab.messages.convert_anthropic import assistant_blocks
from hermitcrab.models.contract import ChatReply, TokenUsage
from hermitcrab.models.replies import (
    Delta,
    ProviderReportedError,
    deltas,
    finished_reply,
    token_count,
)

_STOP_REASONS = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
}


def reply_of_message(payload: Any, *, provider: str, model: str) -> ChatReply:
    """The reply in a whole answer.

    :raises ProviderReportedError: for an error object in its place.
    :raises ValueError: for anything else that is not an answer.
    """
    if isinstance(payload, dict) and payload.get("error"):
        raise ProviderReportedError(payload["error"])
    parts = payload.get("content") if isinstance(payload, dict) else None
    if not isinstance(payload, dict) or not isinstance(parts, list):
        raise ValueError("it has no content")
    parts = [part for part in parts if isinstance(part, dict) and "type" in part]
    return _reply(parts, payload.get("stop_reason"), payload.get("usage"), provider, model)


def _reply(
    parts: Sequence[Mapping[str, Any]], stop_reason: Any, usage: Any, provider: str, model: str
) -> ChatReply:
    return finished_reply(
        assistant_blocks(parts),
        reason=_STOP_REASONS.get(str(stop_reason), "stop"),
        cost=usage_of(usage),
        provider=provider,
        model=model,
        error="the model refused to answer" if stop_reason == "refusal" else None,
    )


def usage_of(usage: Any) -> TokenUsage:
    """Token counts of an answer; what went into or came out of the cache is not counted as input again."""
    if not isinstance(usage, dict):
        return TokenUsage()
    return TokenUsage(
        input=token_count(usage, "input_tokens"),
        output=token_count(usage, "output_tokens"),
        cache_read=token_count(usage, "cache_read_input_tokens"),
        cache_write=token_count(usage, "cache_creation_input_tokens"),
    )


class MessageAssembler:
    """Puts the events of a streamed answer together."""

    def __init__(self) -> None:
        self._parts: dict[Any, _Part] = {}
        self._stop_reason: str | None = None
        self._usage: dict[str, Any] = {}

    @property
    def finished(self) -> bool:
        """Whether the server said why it stopped, so that nothing of the answer is missing."""
        return self._stop_reason is not None

    def add(self, data: str) -> Sequence[Delta]:
        """Take the data of one event and give the thinking and the text that it adds; unknown events add nothing.

        :raises ProviderReportedError: for an error event.
        :raises ValueError: for data that is not an event.
        """
        event = json.loads(data)
        if not isinstance(event, dict):
            raise ValueError("an event is not an object")
        kind = event.get("type")
        if kind == "error" or (kind is None and event.get("error")):
            raise ProviderReportedError(event.get("error") or event)
        if kind == "message_start":
            self._count(_object(event, "message").get("usage"))
        elif kind == "message_delta":
            self._stop_reason = _object(event, "delta").get("stop_reason") or self._stop_reason
            self._count(event.get("usage"))
        elif kind == "content_block_start":
            part = self._parts[event.get("index")] = _Part(_object(event, "content_block"))
            return part.opening()
        elif kind == "content_block_delta":
            if event.get("index") not in self._parts:
                raise ValueError("a delta has no content block")
            return self._parts[event.get("index")].add(_object(event, "delta"))
        return ()

    def _count(self, usage: Any) -> None:
        # Counts are running totals, and only those that changed need to be repeated.
        if isinstance(usage, dict):
            self._usage |= {name: count for name, count in usage.items() if count is not None}

    def reply(self, *, provider: str, model: str) -> ChatReply:
        """The whole answer, once the stream has ended."""
        parts = [part.whole() for part in self._parts.values()]
        return _reply(parts, self._stop_reason, self._usage, provider, model)


def _object(event: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


#: The deltas of a content block: the field that each adds to.
_FIELDS_OF_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class _Part:
    """One content block while it arrives."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        self._start = {"type": "text", **start}
        self._pieces: dict[str, list[str]] = {}

    def opening(self) -> Sequence[Delta]:
        """What a block holds already as it opens, usually nothing."""
        found = {name: str(self._start.get(name) or "") for name in ("thinking", "text")}
        return deltas(thinking=found["thinking"], text=found["text"])

    def add(self, delta: Mapping[str, Any]) -> Sequence[Delta]:
        name = _FIELDS_OF_DELTAS.get(str(delta.get("type")))
        piece = delta.get(name) if name else None
        if name is None or not isinstance(piece, str):
            return ()
        self._pieces.setdefault(name, []).append(piece)
        return deltas(
            thinking=piece if name == "thinking" else "", text=piece if name == "text" else ""
        )

    def whole(self) -> dict[str, Any]:
        part = self._start
        for name, pieces in self._pieces.items():
            part = {**part, name: f"{part.get(name) or ''}{''.join(pieces)}"}
        arguments = part.pop("partial_json", None)
        return {**part, "input": arguments} if arguments else part
