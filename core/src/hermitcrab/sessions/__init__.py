"""Sessions: keys, entries and transcripts on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermitcrab._lazy import lazy_names
from hermitcrab.sessions.entries import SessionEntry
from hermitcrab.sessions.events import SessionChanged, TranscriptUpdated
from hermitcrab.sessions.inbound import InboundMessage
from hermitcrab.sessions.rewrite import Replacement, RewriteResult

if TYPE_CHECKING:
    from hermitcrab.sessions.exporting.exporting import export_session
    from hermitcrab.sessions.importing.importing import (
        ImportedSession,
        ImportReport,
        import_sessions,
    )
    from hermitcrab.sessions.importing.sources import LeftOut

__all__ = [
    "ImportReport",
    "ImportedSession",
    "InboundMessage",
    "LeftOut",
    "Replacement",
    "RewriteResult",
    "SessionChanged",
    "SessionEntry",
    "TranscriptUpdated",
    "export_session",
    "import_sessions",
]

#: What few programs use, and what takes a while to load.
_HOMES = {
    "ImportReport": "hermitcrab.sessions.importing.importing",
    "ImportedSession": "hermitcrab.sessions.importing.importing",
    "LeftOut": "hermitcrab.sessions.importing.sources",
    "export_session": "hermitcrab.sessions.exporting.exporting",
    "import_sessions": "hermitcrab.sessions.importing.importing",
}

__getattr__, _ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
