"""What a chat model is: it answers a request, whole or as a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen

from hermitcrab.messages.text import text_of
from hermitcrab.messages.types import Message

#: Why the model is asked: a turn of the conversation, a summary, a merge of summaries, or the memory flush.
Purpose = Literal["turn", "summarise", "merge", "flush"]


@frozen
class ToolSchema:
    """A tool as the model sees it; ``parameters`` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@frozen(kw_only=True)
class ChatRequest:
    """One request to a model.

    ``max_tokens`` limits the answer, in tokens. ``messages`` never contains the system prompt. ``thinking`` is how much
    the model should think, a level of sessions 5.2 such as ``low``, and never one that config says it does not know;
    ``None`` leaves it to the model. ``fast`` asks for the provider's fast mode, ``stream_thinking`` for the model's
    thinking as it arrives.
    """

    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[ToolSchema] = ()
    purpose: Purpose = "turn"
    max_tokens: int | None = None
    thinking: str | None = None
    fast: bool = False
    stream_thinking: bool = False


@frozen
class TokenUsage:
    """Tokens that a provider reports for one or several calls; all zero where it reports nothing."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


@frozen
class TextDelta:
    """A piece of the answer's text, as it arrives."""

    text: str


@frozen
class ThinkingDelta:
    """A piece of the model's thinking, as it arrives; only where the request asks for it."""

    text: str


@frozen(kw_only=True)
class ChatReply:
    """The whole answer: an assistant message in wire shape, and what it cost."""

    message: Message
    usage: TokenUsage = field(factory=TokenUsage)

    @property
    def text(self) -> str:
        return text_of(self.message)


class ChatModel(ABC):
    """A chat model.

    Implementations raise the :class:`~hermitcrab.errors.ModelError` family. Cancelling the task that awaits a call
    cancels the request; ``CancelledError`` propagates.
    """

    #: ``provider/name``, as it stands in config and in transcripts.
    id: str = "unknown/unknown"
    #: The levels that ``ChatRequest.thinking`` may have; none means that the model is never told how much to think.
    thinking_levels: Sequence[str] = ()
    #: Whether ``ChatRequest.fast`` changes anything.
    has_fast_mode: bool = False

    @abstractmethod
    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request`` as a whole."""

    async def stream(
        self, request: ChatRequest
    ) -> AsyncIterator[TextDelta | ThinkingDelta | ChatReply]:
        """Answer piece by piece: any number of deltas, then exactly one :class:`ChatReply`."""
        reply = await self.complete(request)
        if reply.text:
            yield TextDelta(reply.text)
        yield reply

    async def context_window(self) -> int | None:
        """The model's context window in tokens, where the model or its server knows it."""
        return None

    async def close(self) -> None:
        """Release connections; called once when the host closes."""
        return
