"""What memory-lancedb takes from the agent's memory search settings."""

from __future__ import annotations

from attrs import field, frozen

from hermitcrab.memory import MemoryContext
from hermitcrab.memory.ranking import FusionSettings


@frozen(kw_only=True)
class Settings:
    """``extra_paths`` are absolute or relative to the workspace."""

    extra_paths: tuple[str, ...] = ()
    fusion: FusionSettings = field(factory=FusionSettings)

    @classmethod
    def of(cls, context: MemoryContext) -> Settings:
        """The settings of an agent; without any, the defaults."""
        config = context.config
        if config is None:
            return cls()
        hybrid = config.query.hybrid
        fusion = FusionSettings(
            vector_weight=hybrid.vector_weight if hybrid.enabled else 1.0,
            text_weight=hybrid.text_weight if hybrid.enabled else 0.0,
            candidate_multiplier=hybrid.candidate_multiplier,
            mmr_enabled=hybrid.mmr.enabled,
            mmr_lambda=hybrid.mmr.lambda_,
            decay_enabled=hybrid.temporal_decay.enabled,
            half_life_days=hybrid.temporal_decay.half_life_days,
            min_score=config.query.min_score,
        )
        return cls(extra_paths=tuple(map(str, config.extra_paths)), fusion=fusion)
