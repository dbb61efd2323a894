"""What the methods of a context engine return, and reading such results from foreign shapes.

Engines may return these classes, or mappings and objects with the same fields in snake_case or camelCase; unknown
fields are ignored. A missing or mistyped field is a :class:`~hermitcrab.errors.ContextEngineError` that names the
engine, the method and the field (context 1.2).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import attrs
from attrs import field, frozen
from attrs.validators import ge, in_, instance_of, is_callable, optional

from hermitcrab.config.names import camel_case
from hermitcrab.errors import ContextEngineError
from hermitcrab.messages.types import Message

#: Whether the host may trust the assembled messages when it checks the budget (context 1.2).
PromptAuthority = Literal["assembled", "preassembly_may_overflow"]

_FLAG = instance_of(bool)
_TEXT = optional(instance_of(str))
_COUNT = [instance_of(int), ge(0)]


def _as_list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _check_mapping(_instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"'{attribute.name}' must be a mapping, got {_kind(value)}")


def _check_messages(_instance: object, attribute: Any, value: object) -> None:
    if not isinstance(value, list):
        raise TypeError(f"'{attribute.name}' must be a list of messages, got {_kind(value)}")
    for index, message in enumerate(value):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise TypeError(f"'{attribute.name}[{index}]' must be a message with a role")


@frozen
class BootstrapResult:
    """Whether the engine's state for a session is ready; ``imported_messages`` counts history taken in."""

    bootstrapped: bool = field(validator=_FLAG)
    imported_messages: int | None = field(default=None, validator=optional(_COUNT))
    reason: str | None = field(default=None, validator=_TEXT)


@frozen
class IngestResult:
    """Whether the message was stored; false for a duplicate or where there is nothing to store."""

    ingested: bool = field(validator=_FLAG)


@frozen
class IngestBatchResult:
    """How many messages of the batch were stored."""

    ingested_count: int = field(validator=_COUNT)


@frozen
class AssembleResult:
    """What the model sees: the messages in order, and text put before the system prompt.

    ``estimated_tokens`` is the engine's own estimate in tokens, 0 where it has none; the host measures for itself.
    """

    messages: list[Message] = field(converter=_as_list, validator=_check_messages)
    estimated_tokens: int = field(default=0, validator=_COUNT)
    prompt_authority: PromptAuthority = field(
        default="assembled", validator=in_(("assembled", "preassembly_may_overflow"))
    )
    system_prompt_addition: str | None = field(default=None, validator=_TEXT)


@frozen
class CompactionDetails:
    """What a compaction did. Token counts are in tokens; ``details`` is kept with the transcript entry."""

    summary: str | None = field(default=None, validator=_TEXT)
    first_kept_entry_id: str | None = field(default=None, validator=_TEXT)
    tokens_before: int = field(default=0, validator=_COUNT)
    tokens_after: int | None = field(default=None, validator=optional(_COUNT))
    details: Mapping[str, Any] | None = field(default=None, validator=optional(_check_mapping))


@frozen
class CompactResult:
    """The outcome of a compaction.

    ``ok and compacted`` is done, ``ok and not compacted`` had nothing to do, ``not ok`` failed for ``reason``.
    """

    ok: bool = field(validator=_FLAG)
    compacted: bool = field(validator=_FLAG)
    reason: str | None = field(default=None, validator=_TEXT)
    result: CompactionDetails | None = field(
        default=None, validator=optional(instance_of(CompactionDetails))
    )


@frozen
class MaintainResult:
    """What transcript maintenance changed; ``bytes_freed`` is in bytes."""

    changed: bool = field(default=False, validator=_FLAG)
    bytes_freed: int = field(default=0, validator=_COUNT)
    rewritten_entries: int = field(default=0, validator=_COUNT)
    reason: str | None = field(default=None, validator=_TEXT)


@frozen
class SubagentPreparation:
    """State prepared for a child session; ``rollback`` undoes it if the child never starts."""

    rollback: Callable[[], Awaitable[None] | None] = field(validator=is_callable())


_RESULT_CLASSES: dict[str, type] = {
    "bootstrap": BootstrapResult,
    "maintain": MaintainResult,
    "ingest": IngestResult,
    "ingest_batch": IngestBatchResult,
    "assemble": AssembleResult,
    "compact": CompactResult,
    "prepare_subagent_spawn": SubagentPreparation,
}
_MAY_RETURN_NOTHING = frozenset({"prepare_subagent_spawn"})
_ABSENT = object()


def neutral_result(method: str, reason: str | None = None) -> Any:
    """What stands in for an optional method that an engine does not have (context 2.4)."""
    neutral: dict[str, Any] = {
        "bootstrap": BootstrapResult(bootstrapped=False, reason=reason),
        "maintain": MaintainResult(reason=reason),
        "ingest": IngestResult(ingested=False),
        "ingest_batch": IngestBatchResult(ingested_count=0),
    }
    return neutral.get(method)


def convert_result(method: str, value: object, *, engine_id: str) -> Any:
    """The value that an engine's ``method`` returned, as the class of that method's results.

    :raises ContextEngineError: a field is missing or has the wrong type.
    """
    result_class = _RESULT_CLASSES.get(method)
    if result_class is None or (value is None and method in _MAY_RETURN_NOTHING):
        return None
    if isinstance(value, result_class):
        return value
    where = f"context engine '{engine_id}', {method}"
    if value is None:
        raise ContextEngineError(
            "nothing was returned", where=where, hint=f"Return {_shape(result_class)}"
        )
    return _build(result_class, value, where=where)


def _build(result_class: type, source: object, *, where: str) -> Any:
    values: dict[str, Any] = {}
    for attribute in attrs.fields(result_class):
        value = read_field(source, attribute.name)
        if value is None and attribute.default is not attrs.NOTHING:
            continue
        if value is None:
            raise ContextEngineError(
                f"'{attribute.name}' is missing from the result ({_kind(source)})",
                where=where,
                hint=f"Return {_shape(result_class)}",
            )
        values[attribute.name] = value
    if result_class is CompactResult and not isinstance(
        values.get("result"), CompactionDetails | None
    ):
        values["result"] = _build(CompactionDetails, values["result"], where=f"{where}, result")
    try:
        return result_class(**values)
    except (TypeError, ValueError) as error:
        hint = f"Return {_shape(result_class)}"
        raise ContextEngineError(str(error.args[0]), where=where, hint=hint) from error


def read_field(source: object, name: str) -> Any:
    """A field of a mapping or an object under its snake_case or camelCase name, or None."""
    for spelling in (name, camel_case(name)):
        value = (
            source.get(spelling, _ABSENT)
            if isinstance(source, Mapping)
            else getattr(source, spelling, _ABSENT)
        )
        if value is not _ABSENT:
            return value
    return None


def _shape(result_class: type) -> str:
    names = (
        attribute.name if attribute.default is attrs.NOTHING else f"{attribute.name}=…"
        for attribute in attrs.fields(result_class)
    )
    return f"{result_class.__name__}({', '.join(names)})"


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
