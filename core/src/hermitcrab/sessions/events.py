"""Telling listeners what becomes of sessions and transcripts, once it is on disk (sessions 4)."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from attrs import frozen

from hermitcrab.config.names import camel_case
from hermitcrab.messages.types import Message
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.format import Entry

logger = logging.getLogger("hermitcrab.sessions")

SessionChangeKind = Literal[
    "created", "spawned", "patched", "renamed", "replaced", "ended", "archived", "deleted"
]

#: Fields that somebody chooses. A change of any other one is bookkeeping, which nobody is told of.
_CHOSEN = (
    "label",
    "display_name",
    "provider_override",
    "model_override",
    "thinking_level",
    "fast_mode",
    "verbose_level",
    "reasoning_level",
    "send_policy",
    "group_activation",
    "archived_at",
    "pinned_at",
)
_NAMES = frozenset({"label", "display_name"})


@frozen(kw_only=True)
class SessionChanged:
    """Something has become of a session.

    ``reason`` says why a session was replaced, ended, archived or deleted: ``new``, ``reset``, ``daily``, ``idle``,
    ``shutdown``, …. ``previous_session_id`` is the one that a replaced key named before; ``fields`` are those that
    were patched or renamed, by their names in JSON.
    """

    kind: SessionChangeKind
    session_key: str
    session_id: str
    reason: str | None = None
    parent_session_key: str | None = None
    label: str | None = None
    display_name: str | None = None
    previous_session_id: str | None = None
    fields: tuple[str, ...] = ()


@frozen(kw_only=True)
class TranscriptUpdated:
    """An entry stands in a transcript; ``message`` where it is one."""

    session_file: Path
    session_key: str
    session_id: str
    entry_id: str
    entry_type: str
    message: Message | None = None


class AppendedTo(Protocol):
    """Which transcript something was appended to."""

    @property
    def file(self) -> Path: ...
    @property
    def key(self) -> str: ...
    @property
    def session_id(self) -> str: ...


SessionEvent = SessionChanged | TranscriptUpdated
#: Called at once, in the event loop: must not block. Events are shared; do not change their messages.
SessionListener = Callable[[SessionEvent], object]
#: The listeners of plugins as they are now, each with its plugin's id.
PluginListeners = Callable[[], Iterable[tuple[str, SessionListener]]]
#: Told of a plugin's listener that failed: the plugin's id, the error, and how many seconds the listener took.
FailureReport = Callable[[str, BaseException, float], None]


def change_of(kind: SessionChangeKind, entry: SessionEntry, **more: Any) -> SessionChanged:
    """The event that something has become of the session of an entry."""
    return SessionChanged(
        kind=kind,
        session_key=entry.key,
        session_id=more.pop("session_id", entry.session_id),
        parent_session_key=entry.spawned_by,
        label=entry.label,
        display_name=entry.display_name,
        **more,
    )


def patch_of(before: SessionEntry, after: SessionEntry) -> SessionChanged | None:
    """The event that fields of an entry were chosen anew; ``None`` if only bookkeeping changed."""
    changed = [name for name in _CHOSEN if getattr(before, name) != getattr(after, name)]
    if not changed:
        return None
    kind: SessionChangeKind = "renamed" if _NAMES.issuperset(changed) else "patched"
    return change_of(kind, after, fields=tuple(map(camel_case, changed)))


class SessionEvents:
    """The listeners of one host: those of plugins, then those of code, each in the order of registration.

    A listener that fails is reported with its plugin and harms nobody. There is no replay.
    """

    def __init__(
        self,
        plugin_listeners: PluginListeners = tuple,
        report_failure: FailureReport = lambda plugin_id, error, seconds: None,
    ) -> None:
        self._plugin_listeners = plugin_listeners
        self._report_failure = report_failure
        self._own: dict[object, SessionListener] = {}

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """Tell ``listener`` of every event from now on.

        :return: ends it; may be called twice, and inside a listener.
        """
        handle = object()
        self._own[handle] = listener

        def unsubscribe() -> None:
            self._own.pop(handle, None)

        return unsubscribe

    def emit(self, event: SessionEvent | None) -> None:
        """Tell all listeners; ``None`` is nothing to tell."""
        if event is None:
            return
        for plugin_id, listener in tuple(self._plugin_listeners()):
            self._call(listener, event, plugin_id)
        for handle, listener in tuple(self._own.items()):
            if handle in self._own:  # an earlier listener may have ended it
                self._call(listener, event, None)

    def emit_appended(self, log: AppendedTo, entries: Sequence[Entry]) -> None:
        """Tell of entries that now stand in a transcript."""
        if not entries or not (self._own or tuple(self._plugin_listeners())):
            return
        for entry in entries:
            self.emit(
                TranscriptUpdated(
                    session_file=log.file,
                    session_key=log.key,
                    session_id=log.session_id,
                    entry_id=entry["id"],
                    entry_type=entry["type"],
                    message=entry.get("message") if entry["type"] == "message" else None,
                )
            )

    def close(self) -> None:
        """Forget the listeners of code."""
        self._own.clear()

    def _call(self, listener: SessionListener, event: SessionEvent, plugin_id: str | None) -> None:
        started = time.monotonic()
        try:
            answer = listener(event)
            if inspect.iscoroutine(answer):
                answer.close()
                raise TypeError("a session listener must be a plain function, not a coroutine")
        except (Exception, SystemExit) as error:
            logger.warning(
                "a session listener of %s failed: %s: %s",
                f"plugin {plugin_id}" if plugin_id else "the program",
                type(error).__name__,
                error,
                exc_info=error,
                extra={"plugin_id": plugin_id, "session_key": event.session_key},
            )
            if plugin_id is not None:
                self._report_failure(plugin_id, error, time.monotonic() - started)
