"""From what a provider answered to a reply, whatever its protocol."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from hermitcrab.messages.build import assistant
from hermitcrab.messages.types import Block, Usage
from hermitcrab.models.contract import ChatReply, TextDelta, ThinkingDelta, TokenUsage

#: A piece of an answer, never empty.
Delta = TextDelta | ThinkingDelta

_CALL_TYPE = "toolCall"


class ProviderReportedError(Exception):
    """An answer that arrived with status 200 and holds an error object."""

    def __init__(self, payload: Any) -> None:
        super().__init__("the answer holds an error")
        self.payload = payload


class StreamAssembler(Protocol):
    """Puts the pieces of a streamed answer together."""

    @property
    def finished(self) -> bool:
        """Whether the server said why it stopped, so that nothing of the answer is missing."""
        ...

    def add(self, data: str) -> Sequence[Delta]:
        """Take the data of one event and give the thinking and the text that it adds.

        :raises ProviderReportedError: for an error object in the stream.
        :raises ValueError: for data that is not a piece of an answer.
        """
        ...

    def reply(self, *, provider: str, model: str) -> ChatReply:
        """The whole answer, once the stream has ended."""
        ...


def finished_reply(
    blocks: Iterable[Block],
    *,
    reason: str,
    cost: TokenUsage,
    provider: str,
    model: str,
    error: str | None = None,
) -> ChatReply:
    """The reply of these blocks.

    Tool calls without an id get one. Whether there are calls decides between the stop reasons ``stop`` and
    ``toolUse``, because servers differ in what they say.

    :param error: why the answer is worth nothing; its stop reason is ``error`` then.
    """
    content = [_with_id(block) for block in blocks]
    if reason in ("stop", "toolUse"):
        has_calls = any(block["type"] == _CALL_TYPE for block in content)
        reason = "toolUse" if has_calls else "stop"
    message = assistant(
        content,
        stop_reason="error" if error else reason,
        usage=_wire_usage(cost),
        provider=provider,
        model=model,
    )
    if error:
        message["errorMessage"] = error
    return ChatReply(message=message, usage=cost)


def _with_id(block: Block) -> Block:
    if block["type"] != _CALL_TYPE or block.get("id"):
        return block
    identified = block.copy()
    identified["id"] = f"call_{uuid.uuid4().hex[:24]}"
    return identified


def _wire_usage(usage: TokenUsage) -> Usage:
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": usage.total,
    }


def deltas(*, thinking: str = "", text: str = "") -> list[Delta]:
    """The deltas of these texts, without empty ones."""
    found: list[Delta] = [ThinkingDelta(thinking)] if thinking else []
    return [*found, TextDelta(text)] if text else found


def token_count(counts: Mapping[str, Any], name: str) -> int:
    """A count of tokens in a provider's answer; 0 where it is missing or no count."""
    value = counts.get(name)
    return value if isinstance(value, int) and value > 0 else 0
