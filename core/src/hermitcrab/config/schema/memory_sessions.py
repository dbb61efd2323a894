"""How session transcripts are part of memory: ``sources``, ``experimental``, ``sync.sessions`` (memory 3.9, 9.1)."""

from __future__ import annotations

from typing import Annotated

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import Range

__all__ = ["ExperimentalMemoryConfig", "SessionSyncConfig"]

_Count = Annotated[int, Range(minimum=0)]


@frozen(kw_only=True)
class ExperimentalMemoryConfig:
    """What may still change."""

    session_memory: bool = field(
        default=False,
        metadata=about(
            "Whether `sources` may name `sessions`; without it, that name is passed over."
        ),
    )


@frozen(kw_only=True)
class SessionSyncConfig:
    """When a transcript that grows is indexed again."""

    delta_bytes: _Count = field(
        default=100_000,
        metadata=about("After how many more bytes; 0 is any change."),
    )
    delta_messages: _Count = field(
        default=50,
        metadata=about("After how many more messages; 0 is any change."),
    )
    post_compaction_force: bool = field(
        default=True,
        metadata=about("Whether a transcript that was compacted is indexed again at once."),
    )
