"""Messages as the summariser reads them, each written out and counted once for a whole compaction."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from hermitcrab.compaction.serialise import join_messages, serialise_message
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

#: What separates a message from the next one takes at most, in tokens.
_SEPARATION = 2


@frozen
class _Reading:
    message: Message
    text: str
    tokens: int


class MessageReader:
    """Remembers what it has read; made for one compaction, and used by one thread at a time."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._known: dict[int, _Reading] = {}

    def text(self, message: Message) -> str:
        """One message as labelled text; empty if it says nothing."""
        return self._read(message).text

    def tokens(self, message: Message) -> int:
        """Tokens of a message as labelled text, with what separates it from the next one."""
        return self._read(message).tokens

    def record(self, messages: Sequence[Message]) -> str:
        """The messages as labelled text, oldest first."""
        return join_messages(messages, self.text)

    def total(self, messages: Sequence[Message]) -> int:
        """Tokens of the record of these messages, never fewer than it takes."""
        return sum(map(self.tokens, messages))

    def _read(self, message: Message) -> _Reading:
        known = self._known.get(id(message))
        if known is None or known.message is not message:
            text = serialise_message(message)
            known = _Reading(message, text, self._counter.text(text) + _SEPARATION)
            self._known[id(message)] = known
        return known
