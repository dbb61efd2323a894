"""Why hits rank as they do."""

from __future__ import annotations

from itertools import islice

from hermitcrab.memory.contract import Explanation
from hermitcrab.memory.ranking.snippets import chosen
from hermitcrab_memory_core.finding import Question, ranked
from hermitcrab_memory_core.index import Index


def explain(index: Index, question: Question, limit: int) -> tuple[Explanation, ...]:
    """The hits that a search has, with what each side says of them."""
    with index.snapshot():
        hits = islice(chosen(ranked(index, question), index.around), limit)
        return tuple(
            Explanation(
                hit=hit,
                keyword=item.keyword or None,
                vector=item.vector,
                decay=item.decay,
                named_date=item.named_date,
            )
            for item, hit in hits
        )
