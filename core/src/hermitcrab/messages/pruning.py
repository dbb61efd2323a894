"""Shortening old tool results in what the model sees (context 7; design 7, row "pruning"). Pure.

What has been decided of a result stays: it is shown in the same words in every later request, or the provider's
prompt cache would be worth nothing (P18). A trimmed result may be cleared later, and none is ever restored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Literal, Protocol

from attrs import frozen

from hermitcrab.messages.text import blocks_of, result_call_id, text_of
from hermitcrab.messages.types import Message

#: What happened to a tool result: its middle is gone, or all of it.
Pruning = Literal["trimmed", "cleared"]

#: What stands in place of an image in a pruned result.
IMAGE_REMOVED = "[image removed during context pruning]"
#: User turns whose images stay (context 7).
IMAGE_TURNS = 3
_KEY_CHARACTERS = 16
#: Results whose keys and shown forms are remembered.
_REMEMBERED = 4_096


class _SoftTrim(Protocol):
    @property
    def max_chars(self) -> int: ...
    @property
    def head_chars(self) -> int: ...
    @property
    def tail_chars(self) -> int: ...


class _HardClear(Protocol):
    @property
    def enabled(self) -> bool: ...
    @property
    def placeholder(self) -> str: ...


class _Tools(Protocol):
    @property
    def allow(self) -> Sequence[str]: ...
    @property
    def deny(self) -> Sequence[str]: ...


class PruningRules(Protocol):
    """The part of ``agents.defaults.contextPruning`` that says what is pruned. Ratios are shares of the window."""

    @property
    def keep_last_assistants(self) -> int: ...
    @property
    def keep_turns(self) -> int: ...
    @property
    def soft_trim_ratio(self) -> float: ...
    @property
    def hard_clear_ratio(self) -> float: ...
    @property
    def min_prunable_tool_chars(self) -> int: ...
    @property
    def soft_trim(self) -> _SoftTrim: ...
    @property
    def hard_clear(self) -> _HardClear: ...
    @property
    def tools(self) -> _Tools: ...


@frozen
class _Result:
    """A tool result that may be pruned: where it stands, its key, and its text in characters."""

    index: int
    key: str
    characters: int


def result_key(message: Message) -> str:
    """What a tool result is known by, in this process and in the next: its call and its text."""
    text = f"{result_call_id(message)}\0{text_of(message)}"
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_CHARACTERS]


class ToolResultPruner:
    """Prunes by one set of rules; the same message always gives the same object, so that it is counted once."""

    def __init__(self, rules: PruningRules) -> None:
        self._rules = rules
        self._keys: dict[int, tuple[Message, str]] = {}
        self._shown: dict[tuple[int, str], tuple[Message, Message]] = {}

    def show(
        self, messages: Sequence[Message], decided: Mapping[str, Pruning]
    ) -> Sequence[Message]:
        """Messages with what has been decided of their tool results; the very list if that is nothing."""
        if not decided:
            return messages
        shown = [
            self._pruned(message, decided.get(self._key(message)))
            if message.get("role") == "toolResult"
            else message
            for message in messages
        ]
        return messages if all(map(_same, shown, messages)) else shown

    def decide(
        self,
        messages: Sequence[Message],
        decided: Mapping[str, Pruning],
        *,
        window: int,
        measure: Callable[[Sequence[Message]], int],
    ) -> dict[str, Pruning]:
        """What one more round prunes (context 7, steps 3 to 7).

        :param window: the context window in tokens.
        :param measure: tokens that messages take.
        """
        rules = self._rules
        results = [
            result for result in self._prunable(messages) if decided.get(result.key) != "cleared"
        ]
        total = measure(self.show(messages, decided))
        fresh: dict[str, Pruning] = {}
        if not results or total < window * rules.soft_trim_ratio:
            return fresh
        for result in results:
            if result.key not in decided and self._is_long(result):
                fresh[result.key] = "trimmed"
        known = {**decided, **fresh}
        total = measure(self.show(messages, known))
        characters = sum(result.characters for result in results)
        if not rules.hard_clear.enabled or characters < rules.min_prunable_tool_chars:
            return fresh
        for result in results:
            if total < window * rules.hard_clear_ratio:
                break
            before = self._pruned(messages[result.index], known.get(result.key))
            after = self._pruned(messages[result.index], "cleared")
            fresh[result.key] = "cleared"
            total -= measure([before]) - measure([after])
        return fresh

    def older_than_turns(self, messages: Sequence[Message]) -> dict[str, Pruning]:
        """The results before the last ``keep_turns`` user messages, to be cleared (design 7, mode ``age``)."""
        cutoff = _turn_start(messages, self._rules.keep_turns)
        return {
            self._key(message): "cleared"
            for message in messages[:cutoff]
            if message.get("role") == "toolResult" and self._is_pruned(_tool_name(message))
        }

    def _prunable(self, messages: Sequence[Message]) -> list[_Result]:
        """The tool results between the first user message and the last answers."""
        start = next((i for i, one in enumerate(messages) if one.get("role") == "user"), None)
        cutoff = _answers_start(messages, self._rules.keep_last_assistants)
        if start is None or cutoff is None:
            return []
        return [
            _Result(index, self._key(messages[index]), len(text_of(messages[index])))
            for index in range(start, cutoff)
            if messages[index].get("role") == "toolResult"
            and self._is_pruned(_tool_name(messages[index]))
        ]

    def _is_pruned(self, tool: str) -> bool:
        tools = self._rules.tools
        if _matches(tool, tools.deny):
            return False
        return not tools.allow or _matches(tool, tools.allow)

    def _is_long(self, result: _Result) -> bool:
        trim = self._rules.soft_trim
        kept = trim.head_chars + trim.tail_chars
        return result.characters > trim.max_chars and kept < result.characters

    def _key(self, message: Message) -> str:
        known = self._keys.get(id(message))
        if known is None or known[0] is not message:
            if len(self._keys) >= _REMEMBERED:
                self._keys.clear()
            known = self._keys[id(message)] = (message, result_key(message))
        return known[1]

    def _pruned(self, message: Message, pruning: Pruning | None) -> Message:
        if pruning is None:
            return message
        known = self._shown.get((id(message), pruning))
        if known is None or known[0] is not message:
            if len(self._shown) >= _REMEMBERED:
                self._shown.clear()
            known = (message, _with_texts(message, self._texts(message, pruning)))
            self._shown[id(message), pruning] = known
        return known[1]

    def _texts(self, message: Message, pruning: Pruning) -> list[str]:
        if pruning == "cleared":
            return [self._rules.hard_clear.placeholder]
        return [self._trimmed(text_of(message)), *([IMAGE_REMOVED] * _has_image(message))]

    def _trimmed(self, text: str) -> str:
        trim = self._rules.soft_trim
        tail = text[len(text) - trim.tail_chars :]
        return (
            f"{text[: trim.head_chars]}\n...\n{tail}\n\n"
            f"[Shortened: the first {trim.head_chars} and the last {trim.tail_chars} of {len(text)} characters.]"
        )


def without_old_images(messages: Sequence[Message]) -> Sequence[Message]:
    """Messages with a note in place of the images before the last user turns (context 7)."""
    cutoff = _turn_start(messages, IMAGE_TURNS)
    if not any(_has_image(message) for message in messages[:cutoff]):
        return messages
    return [
        _without_images(message) if index < cutoff and _has_image(message) else message
        for index, message in enumerate(messages)
    ]


def _turn_start(messages: Sequence[Message], turns: int) -> int:
    """Where the last ``turns`` user turns begin; 0 if there are not more of them."""
    asked = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    return asked[-turns] if len(asked) > turns else 0


def _answers_start(messages: Sequence[Message], count: int) -> int | None:
    """Where the last ``count`` answers begin; ``None`` if there are fewer."""
    if count == 0:
        return len(messages)
    answers = [i for i, message in enumerate(messages) if message.get("role") == "assistant"]
    return answers[-count] if len(answers) >= count else None


def _tool_name(message: Message) -> str:
    return str(message.get("toolName") or "")


def _matches(tool: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(tool.lower(), pattern.lower()) for pattern in patterns)


def _same(first: Message, second: Message) -> bool:
    return first is second


def _has_image(message: Message) -> bool:
    return any(block["type"] == "image" for block in blocks_of(message))


def _with_texts(message: Message, texts: Sequence[str]) -> Message:
    changed: Any = message.copy()
    changed["content"] = [{"type": "text", "text": text} for text in texts]
    pruned: Message = changed
    return pruned


def _without_images(message: Message) -> Message:
    changed: Any = message.copy()
    changed["content"] = [
        {"type": "text", "text": IMAGE_REMOVED} if block["type"] == "image" else block
        for block in blocks_of(message)
    ]
    pruned: Message = changed
    return pruned
