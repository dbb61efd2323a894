"""What the model is reminded of after a compaction: chosen sections of ``AGENTS.md`` (context 6.9)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from hermitcrab.compaction.structure import cut_graphemes
from hermitcrab.memory.files.sections import RULES_FILE, rules_sections

logger = logging.getLogger("hermitcrab.agent")

#: The sections take at most this many characters.
REFRESH_CHARACTERS = 1_800
_TRUNCATED = "…[cut]"
_LEAD_IN = (
    "The older part of this conversation has just been replaced by a summary. "
    f"These rules of {RULES_FILE} still hold:"
)


def read_refresh(workspace: Path, names: Sequence[str], now: datetime) -> str:
    """The sections of these names with the day and the time of ``now``; empty where there are none. Blocks."""
    try:
        found = rules_sections(workspace, names)
    except OSError as error:
        logger.warning("the sections of %s are left out: %s", workspace / RULES_FILE, error)
        return ""
    if not found:
        return ""
    text = "\n\n".join(found).replace("YYYY-MM-DD", f"{now:%Y-%m-%d}")
    if len(text) > REFRESH_CHARACTERS:
        kept = cut_graphemes(text, REFRESH_CHARACTERS - len(_TRUNCATED) - 1).rstrip()
        text = f"{kept}\n{_TRUNCATED}"
    return f"{_LEAD_IN}\n\n{text}\n\nThe current time is {now:%Y-%m-%d %H:%M} ({now.tzname()})."
