"""Cutting what one group of messages may take in the view.

The transcript keeps every original; only what the model sees is cut, with a marker that says how much is missing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from hermitcrab.messages.pairing import group_messages
from hermitcrab.messages.text import blocks_of
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Block, Message

#: The share of what is kept that goes to the head of a cut text; the rest is its tail.
HEAD_SHARE = 0.7
#: Texts shorter than this, in characters, are never cut: the marker would take more than it saves.
MINIMUM_TEXT = 200

#: Whether a text of the given kind (``text``, ``thinking``, ``argument``) in a message may be cut.
Candidate = Callable[[Message, str], bool]


def cut_text(text: str, keep: int, what: str = "text") -> str:
    """Keep ``keep`` characters of a text, head and tail, with a marker that counts what left.

    The tail stays because that is where logs and tests say what went wrong (context 6.3).
    """
    keep = max(keep, 0)
    if len(text) <= keep or len(text) <= MINIMUM_TEXT:
        return text
    head = int(keep * HEAD_SHARE)
    tail = keep - head
    removed = len(text) - keep
    marker = f"\n[… {removed} of {len(text)} characters of this {what} left out …]\n"
    return text[:head] + marker + (text[-tail:] if tail else "")


class GroupCapper:
    """Cuts groups of messages, remembering what it cut: a group is cut once, not at every model call."""

    def __init__(self, counter: TokenCounter, *, remembered: int = 512) -> None:
        self._counter = counter
        self._remembered = remembered
        self._cut: OrderedDict[tuple[int, ...], tuple[list[Message], list[Message]]] = OrderedDict()

    def cap(self, messages: Sequence[Message], limit: int) -> Sequence[Message]:
        """Cut so that no group of a call and its results takes more than ``limit`` tokens (design 7).

        Results are cut first, then string arguments, then text. Messages that fit are the same objects, and so is
        the list if all of them fit.
        """
        capped = list(messages)
        changed = False
        for group in group_messages(messages):
            members = [messages[index] for index in group]
            if self._counter.messages(members) <= limit:
                continue
            for index, message in zip(group, self._cap_group(members, limit), strict=True):
                changed = changed or message is not capped[index]
                capped[index] = message
        return capped if changed else messages

    def _cap_group(self, members: list[Message], limit: int) -> list[Message]:
        key = (limit, *map(id, members))
        known = self._cut.get(key)
        if known is not None and all(a is b for a, b in zip(known[0], members, strict=True)):
            return known[1]
        kept = cap_group(members, limit, self._counter)
        self._cut[key] = (members, kept)
        if len(self._cut) > self._remembered:
            self._cut.popitem(last=False)
        return kept


def cap_group(members: Sequence[Message], limit: int, counter: TokenCounter) -> list[Message]:
    """One group, cut to ``limit`` tokens as far as its texts allow."""
    kept = list(members)
    for is_candidate in (_is_result_text, _is_argument, _is_any_text):
        if sum(map(counter.count, kept)) <= limit:
            break
        kept = _shrink(kept, limit, counter, is_candidate)
    return kept


def _is_result_text(message: Message, kind: str) -> bool:
    return message.get("role") == "toolResult" and kind == "text"


def _is_argument(message: Message, kind: str) -> bool:
    return kind == "argument"


def _is_any_text(message: Message, kind: str) -> bool:
    return True


def _shrink(
    members: list[Message], limit: int, counter: TokenCounter, is_candidate: Candidate
) -> list[Message]:
    """Cut every candidate text to the greatest common length at which the group fits; to nothing if none does."""
    lengths = [
        len(text)
        for message in members
        for kind, text in _texts(message)
        if is_candidate(message, kind)
    ]
    low, high = 0, max(lengths, default=0)
    best = [_cut_message(message, 0, is_candidate) for message in members]
    while high - low > max(8, high // 64):
        middle = (low + high) // 2
        trial = [_cut_message(message, middle, is_candidate) for message in members]
        if sum(map(counter.count, trial)) <= limit:
            low, best = middle, trial
        else:
            high = middle
    return best


def _texts(message: Message) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for block in blocks_of(message):
        if block["type"] == "text":
            found.append(("text", str(block.get("text", ""))))
        elif block["type"] == "thinking" and not {**block}.get("signature"):
            found.append(("thinking", str(block.get("thinking", ""))))
        else:
            found += [("argument", value) for value in _strings(block.get("arguments"))]
    return found


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return []


def _cut_message(message: Message, keep: int, is_candidate: Candidate) -> Message:
    cut = message.copy()
    cut["content"] = [
        _cut_block(message, block, keep, is_candidate) for block in blocks_of(message)
    ]
    return cut


def _cut_block(message: Message, block: Block, keep: int, is_candidate: Candidate) -> Block:
    kind = block["type"]
    changed = block.copy()
    if kind == "text" and is_candidate(message, "text"):
        what = "tool result" if message.get("role") == "toolResult" else "text"
        changed["text"] = cut_text(str(block.get("text", "")), keep, what)
    elif (
        kind == "thinking" and is_candidate(message, "thinking") and not {**block}.get("signature")
    ):
        changed["thinking"] = cut_text(str(block.get("thinking", "")), keep, "thinking")
    elif "arguments" in block and is_candidate(message, "argument"):
        changed["arguments"] = _cut_value(block["arguments"], keep)
    return changed


def _cut_value(value: Any, keep: int) -> Any:
    if isinstance(value, str):
        return cut_text(value, keep, "argument")
    if isinstance(value, dict):
        return {key: _cut_value(item, keep) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut_value(item, keep) for item in value]
    return value
