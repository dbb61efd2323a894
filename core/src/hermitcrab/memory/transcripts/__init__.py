"""Session transcripts as a source of memory: what is indexed of them, and who may see it (memory 3.9, 4.10).

A backend gets a :class:`TranscriptSource` in its :class:`~hermitcrab.memory.MemoryContext` where the agent's settings
make sessions part of its memory. It lists the transcripts, gives each as text with the lines of the file, and says
when one has grown enough to be indexed again. The host shows nobody a session hit that is not theirs to see.
"""

from __future__ import annotations

from hermitcrab.memory.transcripts.folder import (
    PREFIX,
    Listing,
    TranscriptFile,
    TranscriptFolder,
)
from hermitcrab.memory.transcripts.growth import Growth, Thresholds, grown, is_due, measured
from hermitcrab.memory.transcripts.guard import GuardedMemory
from hermitcrab.memory.transcripts.rendering import RENDERING_VERSION, WIDTH, Rendered, render
from hermitcrab.memory.transcripts.source import (
    Seen,
    TranscriptSource,
    effective_sources,
    is_transcript_path,
    transcripts_of,
)
from hermitcrab.memory.transcripts.visibility import may_see, may_see_any

__all__ = [
    "PREFIX",
    "RENDERING_VERSION",
    "WIDTH",
    "Growth",
    "GuardedMemory",
    "Listing",
    "Rendered",
    "Seen",
    "Thresholds",
    "TranscriptFile",
    "TranscriptFolder",
    "TranscriptSource",
    "effective_sources",
    "grown",
    "is_due",
    "is_transcript_path",
    "may_see",
    "may_see_any",
    "measured",
    "render",
    "transcripts_of",
]
