"""Cutting what one group of messages may take in the view.

The transcript keeps every original; only what the model sees is cut, with a marker that says how much is missing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermitcrab.messages.pairing import group_messages
from hermitcrab.messages.text import blocks_of, is_block
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

#: The share of what is kept that goes to the head of a cut text; the rest is its tail.
HEAD_SHARE = 0.7
#: Texts shorter than this, in characters, are never cut: the marker would take more than it saves.
MINIMUM_TEXT = 200

#: Fields of a block that hold the arguments of a tool call.
_ARGUMENT_FIELDS = frozenset({"arguments", "input"})
#: The texts that stand beside the content of a message, and what kind of text they are.
_FIELDS = {"output": "output", "command": "argument", "summary": "text"}

#: Texts of a message that stand outside of its content.
_TEXT_FIELDS = ("command", "output", "summary")

#: Whether a text of the given kind (``text``, ``thinking``, ``argument``, ``output``) in a message may be cut.
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
    if len(marker) >= removed:
        return text
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
    return kind == "output" or (message.get("role") == "toolResult" and kind == "text")


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
        for kind, text in _cuttable_texts(message)
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


def _cuttable_texts(message: Message) -> list[tuple[str, str]]:
    """The texts of a message with their kinds. Thinking that carries a signature is not among them (C49)."""
    fields: dict[str, Any] = {**message}
    found = [
        (kind, fields[name]) for name, kind in _FIELDS.items() if isinstance(fields.get(name), str)
    ]
    for block in blocks_of(message):
        found += [(kind, text) for name in block for kind, text in _texts_of(block, name)]
    return found


def _texts_of(block: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    kind = _kind_of(block, name)
    return [] if kind is None else [(kind, text) for text in _strings(block[name])]


def _kind_of(block: Mapping[str, Any], name: str) -> str | None:
    """What kind of text a field of a block holds; ``None`` if it is not to be cut."""
    if name == block["type"] == "text":
        return "text"
    if name == block["type"] == "thinking":
        signed = block.get("thinkingSignature") or block.get("signature")
        return None if signed else "thinking"
    return "argument" if name in _ARGUMENT_FIELDS else None


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return []


def _cut_message(message: Message, keep: int, is_candidate: Candidate) -> Message:
    """The message with its candidate texts cut; the same object if none was too long."""
    fields: dict[str, Any] = {**message}
    changes: dict[str, Any] = {
        name: _cut_value(fields[name], keep, kind)
        for name, kind in _FIELDS.items()
        if name in fields and is_candidate(message, kind)
    }
    content = fields.get("content")
    what = "tool result" if message.get("role") == "toolResult" else "text"
    if isinstance(content, str) and is_candidate(message, "text"):
        changes["content"] = cut_text(content, keep, what)
    elif isinstance(content, list):
        changes["content"] = _same_or(
            content, [_cut_block(message, part, keep, is_candidate, what) for part in content]
        )
    cut: Any = _changed(message, changes)
    shown: Message = cut
    return shown


def _cut_block(message: Message, part: Any, keep: int, is_candidate: Candidate, what: str) -> Any:
    if not is_block(part):
        return part
    changes: dict[str, Any] = {}
    for name, value in part.items():
        kind = _kind_of(part, name)
        if kind is not None and is_candidate(message, kind):
            changes[name] = _cut_value(value, keep, what if kind == "text" else kind)
    return _changed(part, changes)


def _changed(value: Any, changes: Mapping[str, Any]) -> Any:
    """A copy with these fields changed, or the very value if they are what it holds."""
    if all(value[name] is change for name, change in changes.items()):
        return value
    return {**value, **changes}


def _same_or(value: list[Any], changed: list[Any]) -> list[Any]:
    return value if all(a is b for a, b in zip(value, changed, strict=True)) else changed


def _cut_value(value: Any, keep: int, what: str) -> Any:
    if isinstance(value, str):
        return cut_text(value, keep, what)
    if isinstance(value, dict):
        return _changed(value, {key: _cut_value(item, keep, what) for key, item in value.items()})
    if isinstance(value, list):
        return _same_or(value, [_cut_value(item, keep, what) for item in value])
    return value
