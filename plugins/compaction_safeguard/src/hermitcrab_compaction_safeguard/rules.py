"""The workspace's own rules, from chosen sections of its ``AGENTS.md`` (context 5.9)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from hermitcrab.compaction import cut_graphemes
from hermitcrab.memory.files import RULES_FILE, rules_sections

logger = logging.getLogger("hermitcrab.plugins.compaction-safeguard")

RULES_CHARACTERS = 2_000
TRUNCATED = "...[truncated]..."


def workspace_rules(workspace: Path | None, names: Sequence[str]) -> str:
    """The sections of these names between tags; empty where there are none, or the file cannot be read."""
    if workspace is None or not names:
        return ""
    try:
        found = rules_sections(workspace, names)
    except OSError as error:
        logger.warning("the rules of %s are left out: %s", workspace / RULES_FILE, error)
        return ""
    if not found:
        return ""
    rules = "\n\n".join(found)
    if len(rules) > RULES_CHARACTERS:
        rules = f"{cut_graphemes(rules, RULES_CHARACTERS).rstrip()}\n{TRUNCATED}"
    return f"<workspace-critical-rules>\n{rules}\n</workspace-critical-rules>"
