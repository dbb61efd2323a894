"""The daily notes that a new private conversation begins with (memory 1.4)."""

from __future__ import annotations

import asyncio
from datetime import datetime

from hermitcrab.agent.session import SessionContext
from hermitcrab.config.schema.startup import StartupContextConfig
from hermitcrab.memory.startup import compose_notes, day_stamps
from hermitcrab.memory.startup_reading import read_startup_notes
from hermitcrab.sessions.keys import is_private


async def startup_notes(session: SessionContext, now: datetime) -> str | None:
    """What goes before the user's words in the first turn after a ``new`` or ``reset``; ``None`` in other turns."""
    settings = session.parts.settings.startup_context
    if not is_private(session.log.key) or session.log.items() or not _applies(settings, session):
        return None
    notes, is_partial = await asyncio.to_thread(
        read_startup_notes,
        session.parts.workspace,
        day_stamps(now, session.parts.zone, settings.daily_memory_days),
        file_bytes=settings.max_file_bytes,
    )
    return compose_notes(
        notes,
        file_characters=settings.max_file_chars,
        total_characters=settings.max_total_chars,
        is_partial=is_partial,
    )


def _applies(settings: StartupContextConfig, session: SessionContext) -> bool:
    if not settings.enabled:
        return False
    if session.begun_by is None:
        # Another process may have begun it; it does not say how, only that there was a session before.
        return bool(session.log.entry.previous_session_ids)
    began = "new" if session.begun_by == "new" else "reset"
    return not settings.apply_on or began in settings.apply_on
