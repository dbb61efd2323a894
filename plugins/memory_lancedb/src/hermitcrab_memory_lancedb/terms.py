"""What LanceDB's full-text index is given: terms that are cut already, parted by spaces. Pure.

Texts and questions are cut by the same rules as everywhere in hermitcrab, CJK runs into pairs and characters, so a
word of one character is found as well as one of many. LanceDB splits at spaces, stems English and drops accents.
"""

from __future__ import annotations

from collections.abc import Iterable

from hermitcrab.memory.files import index_terms, keywords
from hermitcrab.memory.files.stop_words import STOP_PAIRS, STOP_WORDS

# Of a longer question, the first terms of each kind count.
_MOST_TERMS = 40


def stored_terms(*texts: str) -> str:
    """All terms of a row."""
    found = [index_terms(text) for text in texts]
    return " ".join(term for each in found for term in (*each.words, *each.pairs, *each.characters))


def asked_terms(question: str) -> list[str]:
    """The terms of a question that are looked for; any of them may match."""
    terms = keywords(question)
    in_pairs = {character for pair in terms.pairs for character in pair}
    alone = [character for character in terms.characters if character not in in_pairs]
    return [*_first(terms.words), *_first(terms.pairs), *_first(alone)]


def is_only_stop_words(question: str) -> bool:
    """Whether no term of ``question`` says anything by itself."""
    terms = keywords(question)
    says_something = (
        any(word not in STOP_WORDS for word in terms.words)
        or any(pair not in STOP_PAIRS for pair in terms.pairs)
        or (bool(terms.characters) and not terms.pairs)
    )
    return not says_something


def _first(terms: Iterable[str]) -> list[str]:
    return list(terms)[:_MOST_TERMS]
