"""``agents.defaults.memorySearch.query``: what a memory search returns and how it ranks (memory 9.1)."""

from __future__ import annotations

from typing import Annotated

from attrs import field, frozen

from hermitcrab.config.keys import about
from hermitcrab.config.rules import Range

__all__ = ["DiversityConfig", "HybridConfig", "QueryConfig", "TemporalDecayConfig"]

_Share = Annotated[float, Range(minimum=0, maximum=1)]


@frozen(kw_only=True)
class DiversityConfig:
    """Maximal marginal relevance: fewer results that say the same (memory 4.5)."""

    enabled: bool = field(
        default=False, metadata=about("Whether results that repeat each other stand further down.")
    )
    lambda_: _Share = field(
        default=0.7, metadata=about("1 is relevance alone, 0 is diversity alone.")
    )


@frozen(kw_only=True)
class TemporalDecayConfig:
    """How age counts: it reorders near-ties and never buries."""

    enabled: bool = field(
        default=True, metadata=about("Whether old daily notes rank a little lower.")
    )
    half_life_days: Annotated[int, Range(minimum=1)] = field(
        default=30,
        metadata=about("After how many days half of the tenth that age may take is gone."),
    )


@frozen(kw_only=True)
class HybridConfig:
    """How keywords and vectors are joined (memory 4.4)."""

    enabled: bool = field(
        default=True,
        metadata=about("Whether keywords count beside vectors; false is vectors alone."),
    )
    vector_weight: _Share | None = field(
        default=None,
        metadata=about("The weight of vectors; 0 is keywords alone, null suits it to the query."),
    )
    text_weight: _Share | None = field(
        default=None,
        metadata=about("The weight of keywords; 0 is vectors alone, null is what vectors leave."),
    )
    candidate_multiplier: Annotated[int, Range(minimum=1, maximum=20)] = field(
        default=4, metadata=about("How many candidates each side brings, in steps of 50.")
    )
    mmr: DiversityConfig = field(
        factory=DiversityConfig, metadata=about("Diversity of the results.")
    )
    temporal_decay: TemporalDecayConfig = field(
        factory=TemporalDecayConfig, metadata=about("How the age of a daily note counts.")
    )


@frozen(kw_only=True)
class QueryConfig:
    """What a search returns."""

    max_results: Annotated[int, Range(minimum=1, maximum=100)] = field(
        default=6, metadata=about("How many results a search returns at most.")
    )
    min_score: _Share | None = field(
        default=None,
        metadata=about("The least score of a result; null leaves it to the memory backend."),
    )
    hybrid: HybridConfig = field(
        factory=HybridConfig, metadata=about("How keywords and vectors are joined.")
    )
