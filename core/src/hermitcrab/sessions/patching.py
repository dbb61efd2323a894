"""Patches of session entries: absent leaves a field, null deletes it, a valid value sets it (sessions 5.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hermitcrab.config.problems import nearest_name
from hermitcrab.errors import ConfigError, SessionError
from hermitcrab.models.resolve import ModelSpec, parse_model
from hermitcrab.sessions import levels
from hermitcrab.sessions.entry import FIELD_NAMES, SessionEntry
from hermitcrab.sessions.keys import fold, is_subagent
from hermitcrab.sessions.model_override import OverrideSource, selection

_LABEL_CHARACTERS = 512
_STATES = ("running", "done", "failed", "killed", "timeout")
_SEND_POLICIES = {"allow": "allow", "on": "allow", "deny": "deny", "off": "deny"}
_MODEL_FIELDS = frozenset({"model", "modelOverride", "providerOverride"})
_CHAT_TYPES = {"direct": "direct", "dm": "direct", "group": "group", "channel": "channel"}


class _InvalidError(Exception):
    """What a field takes instead of the value that it was given."""


def parse_patch(
    entry: SessionEntry, patch: Mapping[str, Any], *, default_model: ModelSpec | None = None
) -> dict[str, Any]:
    """The changes of fields, by their Python names, that a patch with JSON names asks for.

    ``model`` stands for a model override as a whole, ``provider/name``.

    :param default_model: the configured model, which is no override; ``None`` if the caller does not know it.
    :raises SessionError: for an unknown field, one that cannot be set, or a value that the field does not take.
    """
    changes: dict[str, Any] = {}
    for name, value in patch.items():
        if name == "model":
            continue
        parse = _FIELDS.get(name)
        if parse is None:
            raise _no_such_field(name)
        try:
            changes[FIELD_NAMES[name]] = None if value is None else parse(value)
        except _InvalidError as error:
            raise SessionError(
                f"{name} cannot be {value!r}: {error}", hint="Nothing was changed."
            ) from None
        _check_lineage(entry, name, changes[FIELD_NAMES[name]])
    if not _MODEL_FIELDS.isdisjoint(patch):
        changes |= _model_changes(entry, patch, changes, default_model)
    return changes


def _model_changes(
    entry: SessionEntry,
    patch: Mapping[str, Any],
    changes: Mapping[str, Any],
    default: ModelSpec | None,
) -> dict[str, Any]:
    """The changes that choosing a model comes to, whichever of the fields for it were patched."""
    source: OverrideSource = "auto" if changes.get("model_override_source") == "auto" else "user"
    if "model" in patch:
        return selection(entry, _model(patch["model"]), default=default, source=source)
    name = changes.get("model_override", entry.model_override)
    # The provider of another model says nothing of this one (sessions 2.3).
    kept = entry.provider_override if name == entry.model_override else None
    provider = changes.get("provider_override", kept)
    if name and provider:
        return selection(entry, ModelSpec(provider, name), default=default, source=source)
    if name is None and "modelOverride" in patch:
        provider = None
    return {**selection(entry, None), "provider_override": provider, "model_override": name}


def _model(value: Any) -> ModelSpec | None:
    """The model that a value names; nothing, and the words that take an override away, name the configured one."""
    if value is None or (isinstance(value, str) and fold(value) in levels.REMOVING_WORDS):
        return None
    try:
        return parse_model(value if isinstance(value, str) else "")
    except ConfigError:
        raise SessionError(
            f"model cannot be {value!r}: it takes provider/name, offline, or default",
            hint="Nothing was changed.",
        ) from None


def parse_record(data: Mapping[str, Any]) -> dict[str, Any]:
    """The changes that a ``hermitcrab.entry`` records; values that no field takes are passed over."""
    changes: dict[str, Any] = {}
    for name, value in data.items():
        field = FIELD_NAMES.get(name)
        if field is None or field in {"session_id", "updated_at", "message_count"}:
            continue
        if value is None and field not in _REQUIRED:
            changes[field] = None
            continue
        parse = _RECORDED.get(name) or _FIELDS.get(name)
        if parse is None:
            continue
        try:
            changes[field] = parse(value)
        except _InvalidError:
            continue
    return changes


def _no_such_field(name: str) -> SessionError:
    if name in FIELD_NAMES:
        return SessionError(
            f"{name} cannot be set by hand",
            hint=f"These can be set: {', '.join(_SETTABLE)}.",
        )
    near = nearest_name(name, _SETTABLE)
    return SessionError(
        f"a session has no field {name!r}",
        hint=f"Did you mean {near}?" if near else f"These can be set: {', '.join(_SETTABLE)}.",
    )


def _check_lineage(entry: SessionEntry, name: str, value: Any) -> None:
    """A parent is stated for sessions that another one has started, and never changed (sessions 2.10)."""
    if name not in {"spawnedBy", "spawnDepth"}:
        return
    standing = getattr(entry, FIELD_NAMES[name])
    if standing is not None and standing != value:
        raise SessionError(f"{name} of {entry.key!r} is {standing!r} and cannot be changed")
    if not is_subagent(entry.key) and ":acp:" not in entry.key:
        raise SessionError(
            f"{name} cannot be set for {entry.key!r}", hint="Only a subagent's session has it."
        )


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _InvalidError("it takes a text with something in it")
    return value.strip()


def _text_or_nothing(value: Any) -> str | None:
    """A blank model or provider is none (sessions 2.3)."""
    if not isinstance(value, str):
        raise _InvalidError("it takes a text")
    return value.strip() or None


def _as_it_is(value: Any) -> str:
    if not isinstance(value, str):
        raise _InvalidError("it takes a text")
    return value


def _label(value: Any) -> str:
    text = _text(value)
    if len(text) > _LABEL_CHARACTERS:
        raise _InvalidError(f"it takes at most {_LABEL_CHARACTERS} characters")
    return text


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _InvalidError("it takes true or false")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _InvalidError("it takes a whole number of 0 or more")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _InvalidError("it takes an object")
    return dict(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise _InvalidError("it takes a list of texts")
    return tuple(value)


def _one_of(names: Mapping[str, str], valid: str | None = None) -> Callable[[Any], str]:
    """One of these words; ``valid`` says which, where that is not simply what they stand for."""

    def parse(value: Any) -> str:
        found = names.get(fold(value)) if isinstance(value, str) else None
        if found is None:
            raise _InvalidError(f"it takes {valid or ', '.join(dict.fromkeys(names.values()))}")
        return found

    return parse


def _named(*names: str) -> Callable[[Any], str]:
    return _one_of({name: name for name in names})


def _level(read: Callable[[str], Any], valid: str) -> Callable[[Any], Any]:
    """A level, in any of its spellings; true and false are words for it, and so is taking it away."""

    def parse(value: Any) -> Any:
        text = str(value) if isinstance(value, str | bool) else ""
        if fold(text) in levels.REMOVING_WORDS:
            return None
        found = read(text)
        if found is None:
            raise _InvalidError(f"it takes {valid}")
        return found

    return parse


def _unless_removed(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, but for words that take the value away."""

    def parse_or_remove(value: Any) -> Any:
        removed = isinstance(value, str) and fold(value) in levels.REMOVING_WORDS
        return None if removed else parse(value)

    return parse_or_remove


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "label": _label,
    "displayName": _text,
    "chatType": _one_of(_CHAT_TYPES),
    "channel": _text,
    "origin": _mapping,
    "providerOverride": _text_or_nothing,
    "modelOverride": _text_or_nothing,
    "thinkingLevel": _level(levels.thinking_level, ", ".join(levels.THINKING_LEVELS)),
    "fastMode": _level(levels.fast_mode, "on, off, auto"),
    "verboseLevel": _level(levels.verbose_level, ", ".join(levels.VERBOSE_LEVELS)),
    "reasoningLevel": _level(levels.reasoning_level, ", ".join(levels.REASONING_LEVELS)),
    "modelOverrideSource": _named("auto", "user"),
    "sendPolicy": _unless_removed(_one_of(_SEND_POLICIES, "on (allow), off (deny)")),
    "groupActivation": _unless_removed(_named("mention", "always")),
    "spawnedBy": _text,
    "spawnDepth": _count,
    "archivedAt": _count,
    "pinnedAt": _count,
    "status": _named(*_STATES),
    "abortedLastRun": _flag,
    "inputTokens": _count,
    "outputTokens": _count,
}
_SETTABLE = sorted([*_FIELDS, "model"])
#: How fields that are set by the program are read back from a transcript: as they were written.
_RECORDED: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("label", "displayName", "channel", "providerOverride", "modelOverride"), _as_it_is
    ),
    "sessionStartedAt": _count,
    "lastInteractionAt": _count,
    "compactionCount": _count,
    "flushedCycle": _count,
    "flushedAt": _count,
    "flushedEntryId": _text,
    "flushFailures": _count,
    "flushError": _as_it_is,
    "lastCompaction": _mapping,
    "contextTokens": _count,
    "totalTokens": _count,
    "previousSessionIds": _texts,
}
_REQUIRED = {"session_started_at", "compaction_count", "flush_failures", "previous_session_ids"}
