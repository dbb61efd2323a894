"""What stands in a transcript and was said by nobody: prompts of jobs, silent replies, events (memory 3.9, step 3)."""

from __future__ import annotations

import re

from hermitcrab.memory.silent import is_silent

# The openings of texts that programs send in the role of the user; all are anchored, so a mention of one is no match.
_GENERATED = re.compile(
    r"System(?: \([^)\n]{1,40}\))?:\s*\[[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"|\[cron:[^\]\n]{1,200}\]"
    r"|Read HEARTBEAT\.md\b"
    r"|Exec (?:completed|finished|failed) \("
    r"|An async command you ran earlier has (?:completed|failed)\b",
    re.IGNORECASE,
)
_HEARTBEAT_OK = re.compile(r"[\s*_`]*HEARTBEAT_OK[\s*_`.!]*")


def is_machinery(role: str, text: str) -> bool:
    """Whether a message is none of the conversation; each is judged by itself alone.

    An answer is never dropped because of what stands before it: a user can write what looks like machinery.
    """
    if is_silent(text):
        return True
    if role == "assistant":
        return _HEARTBEAT_OK.fullmatch(text) is not None
    return _GENERATED.match(text.lstrip()) is not None
