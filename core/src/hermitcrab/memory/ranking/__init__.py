"""From scores to an order, and from an order to hits: what every memory backend may rank with.

:func:`fuse` joins keyword scores, vector scores, dates and age; :func:`choose` makes hits of what it returns, with
snippets that show the passage and its neighbours; :func:`embedding_texts` says what of a passage is embedded.
"""

from __future__ import annotations

from hermitcrab.memory.ranking.dates import NamedDate, named_dates
from hermitcrab.memory.ranking.fusion import Fused, FusionSettings, Unit, age_factor, fuse
from hermitcrab.memory.ranking.places import Place, StoredPassage, note_day
from hermitcrab.memory.ranking.snippets import choose, chosen, snippet
from hermitcrab.memory.ranking.units import EMBEDDING_TEXT_VERSION, embedding_texts

__all__ = [
    "EMBEDDING_TEXT_VERSION",
    "Fused",
    "FusionSettings",
    "NamedDate",
    "Place",
    "StoredPassage",
    "Unit",
    "age_factor",
    "choose",
    "chosen",
    "embedding_texts",
    "fuse",
    "named_dates",
    "note_day",
    "snippet",
]
