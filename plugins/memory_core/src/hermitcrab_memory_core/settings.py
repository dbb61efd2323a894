"""What memory-core takes from the agent's memory search settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from hermitcrab.memory.ranking.fusion import FusionSettings

if TYPE_CHECKING:
    from hermitcrab.memory.contract import MemoryContext


#: What an index is made of: the files of memory, or the transcripts of sessions.
MEMORY = "memory"
SESSIONS = "sessions"


@frozen(kw_only=True)
class Settings:
    """Chunk sizes in tokens; ``extra_paths`` are absolute or relative to the workspace.

    ``source`` is what the index is made of, ``rendering`` the version of how its texts come about; 0 is as they are.
    """

    chunk_tokens: int = 400
    chunk_overlap: int = 80
    extra_paths: tuple[str, ...] = ()
    fusion: FusionSettings = field(factory=FusionSettings)
    source: str = MEMORY
    rendering: int = 0

    @classmethod
    def of(cls, context: MemoryContext) -> Settings:
        """The settings of an agent; without any, the defaults."""
        config = context.config
        if config is None:
            return cls()
        return cls(
            chunk_tokens=config.chunking.tokens,
            chunk_overlap=config.chunking.overlap,
            extra_paths=tuple(map(str, config.extra_paths)),
            fusion=_fusion_of(context),
        )


def _fusion_of(context: MemoryContext) -> FusionSettings:
    if context.config is None:
        return FusionSettings()
    query = context.config.query
    hybrid = query.hybrid
    return FusionSettings(
        vector_weight=hybrid.vector_weight if hybrid.enabled else 1.0,
        text_weight=hybrid.text_weight if hybrid.enabled else 0.0,
        candidate_multiplier=hybrid.candidate_multiplier,
        mmr_enabled=hybrid.mmr.enabled,
        mmr_lambda=hybrid.mmr.lambda_,
        decay_enabled=hybrid.temporal_decay.enabled,
        half_life_days=hybrid.temporal_decay.half_life_days,
        min_score=query.min_score,
    )
