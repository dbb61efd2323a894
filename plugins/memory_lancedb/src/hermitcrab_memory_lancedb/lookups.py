"""Searching a table by words and by vectors; both see the rows of one predicate alone, before anything is ranked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lancedb import AsyncTable
    from lancedb.index import FTS

    from hermitcrab_memory_lancedb.embedder import Vector

#: The column that the full-text index is over.
TERMS = "terms"

_ATTEMPTS = 5
_PAUSE_S = 0.05


async def matching_rows(
    table: AsyncTable, terms: str, *, where: str, limit: int, columns: Sequence[str]
) -> list[dict[str, Any]]:
    """The best rows by the full-text index; one that is missing is made first."""
    from lancedb.query import MatchQuery

    if not any(TERMS in index.columns for index in await table.list_indices()):
        await ensure_index(table)
    # The stubs of LanceDB take the defaults of its query for arguments that must be given.
    match = MatchQuery(terms, TERMS)  # type: ignore[call-arg]
    query = table.query().nearest_to_text(match).where(where).limit(limit)
    rows: list[dict[str, Any]] = await query.select([*columns, "_score"]).to_list()
    return rows


async def nearest_rows(
    table: AsyncTable,
    vector: Vector,
    *,
    column: str,
    where: str,
    limit: int,
    columns: Sequence[str],
) -> list[dict[str, Any]]:
    """The nearest rows by an exact scan. All vectors have length 1 or 0, so that the product is the cosine."""
    query = table.query().nearest_to(vector).column(column).distance_type("dot")
    rows: list[dict[str, Any]] = await (
        query.where(where).limit(limit).select([*columns, "_distance"]).to_list()
    )
    return rows


async def ensure_index(table: AsyncTable) -> None:
    """Make the full-text index of a table where it has none; two processes may try at once."""
    for attempt in range(_ATTEMPTS):
        if any(TERMS in index.columns for index in await table.list_indices()):
            return
        try:
            await table.create_index(TERMS, config=_full_text())
        except Exception:
            # The other process may have made it meanwhile; the next look tells.
            if attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(_PAUSE_S * (attempt + 1))


def _full_text() -> FTS:
    from lancedb.index import FTS

    return FTS(
        base_tokenizer="whitespace",
        stem=True,
        remove_stop_words=False,
        ascii_folding=True,
        max_token_length=None,
    )
