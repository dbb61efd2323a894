"""Sessions: keys, entries and transcripts on disk."""

from __future__ import annotations

from hermitcrab.sessions.entries import SessionEntry
from hermitcrab.sessions.inbound import InboundMessage
from hermitcrab.sessions.rewrite import Replacement, RewriteResult

__all__ = ["InboundMessage", "Replacement", "RewriteResult", "SessionEntry"]
