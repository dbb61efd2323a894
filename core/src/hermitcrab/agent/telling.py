"""Telling plugins and listeners that sessions begin and end (sessions 2.10, 4)."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from hermitcrab.agent.services import Services
from hermitcrab.agent.session import SessionContext
from hermitcrab.hooks import BeforeReset, SessionEnd, SessionStart
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.events import SessionChanged, change_of


def tell_started(context: SessionContext, resumed_from: str | None = None) -> None:
    """A session has begun, in place of the session id ``resumed_from`` if there is one."""
    context.fire_background(
        SessionStart(
            session_id=context.log.session_id,
            session_key=context.log.key,
            resumed_from=resumed_from,
        )
    )


def tell_before_reset(old: SessionContext, reason: str) -> None:
    """A session is about to be replaced: the last moment at which its messages are at hand (sessions 9.6)."""
    old.fire_background(
        BeforeReset(
            session_file=str(old.log.file),
            messages=[item.message for item in old.log.items()],
            reason=reason,
        )
    )


def tell_replaced(
    services: Services,
    new: SessionContext,
    session_id: str,
    file: Path,
    reason: str,
    *,
    entry: SessionEntry | None = None,
) -> None:
    """A session id is over and another one has its key.

    :param entry: what is known of the one that is over; ``None`` if it cannot be read.
    """
    duration = None
    if entry is not None:
        duration = max(0, services.now_ms() - entry.session_started_at)
    services.hooks.fire_background(
        SessionEnd(
            session_id=session_id,
            session_key=new.log.key,
            message_count=0 if entry is None else entry.message_count,
            duration_ms=duration,
            reason=reason,
            session_file=str(file),
            next_session_id=new.log.session_id,
            next_session_key=new.log.key,
        ),
        evolve(new.hook_context, session_id=session_id),
    )
    events, known = services.session_events, entry or new.log.entry
    events.emit(change_of("ended", known, session_id=session_id, reason=reason))
    events.emit(change_of("archived", known, session_id=session_id, reason=reason))
    events.emit(replacement(new, session_id, reason))


def tell_over(services: Services, context: SessionContext, reason: str) -> None:
    """A session is over and no other one follows."""
    session_id, entry = context.log.session_id, context.log.entry
    context.fire_background(
        SessionEnd(
            session_id=session_id,
            session_key=entry.key,
            message_count=entry.message_count,
            duration_ms=max(0, services.now_ms() - entry.session_started_at),
            reason=reason,
            session_file=str(context.log.file),
        )
    )
    services.session_events.emit(change_of("ended", entry, session_id=session_id, reason=reason))


def replacement(new: SessionContext, previous: str, reason: str) -> SessionChanged:
    """The event that a key names another session id now."""
    return change_of("replaced", new.log.entry, reason=reason, previous_session_id=previous)
