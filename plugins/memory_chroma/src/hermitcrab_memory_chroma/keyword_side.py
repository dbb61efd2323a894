"""What has a word of the query, best first: Chroma names the documents, and our own scores order them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from hermitcrab_memory_chroma.connection import CollectionSpec, Connection
from hermitcrab_memory_chroma.rows import Row, by_id, ids_with
from hermitcrab_memory_chroma.together import together
from hermitcrab_memory_chroma.words import (
    MOST_WITH_TERM,
    Document,
    candidates,
    query_terms,
    scores,
)


@frozen
class WordMatches:
    """The rows that have a word of the query, by their ids, and their scores."""

    rows: Mapping[str, Row]
    scores: Mapping[str, float]


def _nothing_beside(row_id: str) -> Sequence[str]:
    return ()


async def match_words(
    connection: Connection,
    spec: CollectionSpec,
    where: Mapping[str, Any] | None,
    query: str,
    *,
    beside: Callable[[str], Sequence[str]] = _nothing_beside,
) -> WordMatches:
    """The rows that ``where`` lets through and that have a word of ``query``.

    :param beside: the ids of the rows that stand right before and after one.
    """
    terms = query_terms(query)
    if not terms:
        return WordMatches({}, {})
    found = await together(
        ids_with(connection, spec, where, term, limit=MOST_WITH_TERM) for term in terms
    )
    total = int(await connection.call(spec, "count", create=False) or 0)
    by_term = dict(zip(terms, found, strict=True))
    chosen = candidates(by_term, total)
    rows = {row.id: row for row in await by_id(connection, spec, chosen, where=where)}
    documents = [
        Document(id=row.id, text=row.document or "", beside=tuple(beside(row.id)))
        for row in rows.values()
    ]
    matching = {term: len(ids) for term, ids in by_term.items()}
    return WordMatches(rows, scores(terms, documents, matching, total))
