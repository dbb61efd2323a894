"""From a query to expressions of FTS5, one for each term: quoted terms only, never the text itself."""

from __future__ import annotations

from hermitcrab.memory.files import Keywords

# Of a longer query, the first terms of each kind count.
_MOST_TERMS = 40


def passage_expressions(terms: Keywords) -> list[str]:
    """Words in text, headings and path; CJK in columns of its own."""
    return [
        *_expressions("words headings path", terms.words),
        *_expressions("pairs headings path", terms.pairs),
        *_expressions("characters", terms.characters),
    ]


def word_expressions(terms: Keywords) -> dict[str, str]:
    """The expression of each word alone."""
    words = terms.words[:_MOST_TERMS]
    return dict(zip(words, _expressions("words headings path", words), strict=True))


def chunk_expressions(terms: Keywords) -> list[str]:
    """The same over whole chunks, which have no column for single CJK characters."""
    return [*_expressions("words", terms.words), *_expressions("pairs", terms.pairs)]


def _expressions(columns: str, terms: tuple[str, ...]) -> list[str]:
    return [f'{{{columns}}} : "{term}"' for term in terms[:_MOST_TERMS]]
