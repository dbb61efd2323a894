"""From a query to expressions of FTS5: quoted terms only, never the text itself."""

from __future__ import annotations

from collections.abc import Iterable

from hermitcrab.memory.files import Keywords

_MOST_TERMS = 64


def passage_query(terms: Keywords) -> str:
    """Any term may match: words in text, headings and path; CJK in columns of its own."""
    return " OR ".join(
        [
            *_group("words headings path", terms.words),
            *_group("pairs headings path", terms.pairs),
            *_group("characters", terms.characters),
        ]
    )


def chunk_query(terms: Keywords) -> str:
    """The same over whole chunks; empty where a query has single CJK characters only."""
    return " OR ".join([*_group("words", terms.words), *_group("pairs", terms.pairs)])


def _group(columns: str, terms: Iterable[str]) -> list[str]:
    quoted = [f'"{term}"' for term in list(terms)[:_MOST_TERMS]]
    return [f"{{{columns}}} : ({' OR '.join(quoted)})"] if quoted else []
