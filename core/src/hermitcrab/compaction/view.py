"""What the model sees of a list of messages: empty ones left out, pairs repaired, large groups cut.

Nothing here touches the transcript.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from hermitcrab.compaction.budget import Budget
from hermitcrab.messages.caps import GroupCapper
from hermitcrab.messages.pairing import is_empty, iterate_groups, repair_pairing
from hermitcrab.messages.provenance import framed
from hermitcrab.messages.text import blocks_of
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

#: Groups are not cut below this many tokens, whatever the window.
_SMALLEST_GROUP = 64
IMAGE_LEFT_OUT = "[An image was left out because the context was full.]"


@frozen(kw_only=True)
class View:
    """The messages of one request and their size in tokens."""

    messages: Sequence[Message]
    tokens: int


class ViewBuilder:
    """Builds views; what it cut once it remembers.

    Views of long conversations are built in worker threads, several at once too: what is remembered is looked up, set
    and dropped in single operations, and is the same whoever made it.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._capper = GroupCapper(counter)
        self._framed: dict[int, tuple[Message, Message]] = {}

    def build(self, messages: Sequence[Message], budget: Budget) -> View:
        """The view of ``messages``, whatever its size in total."""
        return self._capped(self._legal(messages), budget.group)

    def build_within(self, messages: Sequence[Message], budget: Budget) -> View:
        """The view of ``messages``, with groups cut further and further until it fits.

        The last resort where a compaction has left more than fits: images go first, those of the last user message
        last. With very many messages it may still not fit.
        """
        legal = self._legal(messages)
        view = self._capped(legal, budget.group)
        last = max((i for i, one in enumerate(legal) if one.get("role") == "user"), default=-1)
        for spared in (last, -1):
            if view.tokens > budget.usable:
                shown = [one if i == spared else without_images(one) for i, one in enumerate(legal)]
                view = self._cut_until_it_fits(shown, view, budget)
        return view

    def _cut_until_it_fits(self, messages: Sequence[Message], view: View, budget: Budget) -> View:
        """Halve what groups may take until the view fits; limits at which it surely does not are left out."""
        sizes = [
            self._counter.messages([messages[index] for index in group])
            for group in iterate_groups(messages)
        ]
        limit = budget.group
        while view.tokens > budget.usable and limit > _SMALLEST_GROUP:
            half = limit // 2
            wanted = budget.usable if half > _SMALLEST_GROUP else budget.window
            if sum(min(size, half) for size in sizes) <= wanted:
                view = self._capped(messages, limit)
            limit = half
        return view

    def measure(self, messages: Sequence[Message], budget: Budget) -> int:
        """Tokens of the view."""
        return self.build(messages, budget).tokens

    def _legal(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Messages that say something, others' than the user's in an envelope, every call with its result behind it."""
        kept = [self._shown(message) for message in messages if not is_empty(message)]
        return repair_pairing(kept).messages

    def _shown(self, message: Message) -> Message:
        """The message in its envelope, the same object each time, so that it is counted and cut once."""
        if message.get("role") != "user":
            return message
        known = self._framed.get(id(message))
        if known is None or known[0] is not message:
            known = self._framed[id(message)] = (message, framed(message))
        return known[1]

    def _capped(self, messages: Sequence[Message], limit: int) -> View:
        capped = self._capper.cap(messages, limit)
        return View(messages=capped, tokens=self._counter.messages(capped))


def without_images(message: Message) -> Message:
    """The message with a note in place of each image; the same object if it has none."""
    blocks = blocks_of(message)
    if not any(block["type"] == "image" for block in blocks):
        return message
    changed = message.copy()
    changed["content"] = [
        {"type": "text", "text": IMAGE_LEFT_OUT} if block["type"] == "image" else block
        for block in blocks
    ]
    return changed
