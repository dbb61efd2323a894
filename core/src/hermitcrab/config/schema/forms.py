"""Forms of text that several sections share."""

from __future__ import annotations

from typing import Literal

from hermitcrab.config.rules import Pattern

__all__ = [
    "AGENT_ID",
    "MODEL",
    "NAME",
    "PROVIDER_ID",
    "ReasoningLevel",
    "SummaryThinking",
    "ThinkingLevel",
    "VerboseLevel",
]

#: sessions 5.2
ThinkingLevel = Literal[
    "off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max", "ultra"
]
#: context 8: a level, or that of the session
SummaryThinking = Literal[
    "inherit", "off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max", "ultra"
]
VerboseLevel = Literal["off", "on", "full"]
ReasoningLevel = Literal["off", "on", "stream"]

#: sessions 1.1
AGENT_ID = Pattern(
    r"[a-z0-9][a-z0-9_-]{0,63}", "1 to 64 of a-z 0-9 _ -, the first a letter or digit"
)
MODEL = Pattern(r"[^\s/]+/\S+", "provider/name")
NAME = Pattern(r"[\s\S]*\S[\s\S]*", "not empty")
PROVIDER_ID = Pattern(r"[^\s/]+", "no spaces, no slash")
