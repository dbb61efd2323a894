"""Sessions: keys, entries and transcripts on disk."""

from __future__ import annotations

from hermitcrab.sessions.entries import SessionEntry
from hermitcrab.sessions.inbound import InboundMessage

__all__ = ["InboundMessage", "SessionEntry"]
