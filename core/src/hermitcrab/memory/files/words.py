"""Search terms of a text: words, and overlapping pairs and single characters of CJK runs.

Documents and queries go through the same cut, so what is indexed can be found. Stems are left to the index (FTS5's
``porter``), which applies them to both sides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from attrs import frozen

from hermitcrab.memory.files.stop_words import STOP_PAIRS, STOP_WORDS

_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u318f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
_TERM = re.compile(f"(?P<run>[{_CJK}]+)|(?P<word>[^\\W_{_CJK}]+)")
_CAMEL = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IS_CAMEL = re.compile("[a-z][A-Z]")


@frozen
class Keywords:
    """Terms of a text in order, lower-case, without repeats where they come from a query."""

    words: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    characters: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words or self.pairs or self.characters)


def index_terms(text: str) -> Keywords:
    """All terms of a document, repeats and stop words included."""
    words: list[str] = []
    pairs: list[str] = []
    characters: list[str] = []
    for match in _TERM.finditer(unicodedata.normalize("NFKC", text)):
        run = match["run"]
        if run is None:
            words.extend(_words(match["word"]))
        else:
            characters.extend(run)
            pairs.extend(run[start : start + 2] for start in range(len(run) - 1))
    return Keywords(tuple(words), tuple(pairs), tuple(characters))


def keywords(text: str) -> Keywords:
    """The distinct terms of a query without its stop words; a query of nothing but stop words keeps them."""
    terms = index_terms(text)
    kept = Keywords(
        _distinct(word for word in terms.words if word not in STOP_WORDS),
        _distinct(pair for pair in terms.pairs if pair not in STOP_PAIRS),
        _distinct(terms.characters),
    )
    if kept.words or kept.pairs or (terms.characters and not terms.pairs):
        return kept
    return Keywords(_distinct(terms.words), _distinct(terms.pairs), _distinct(terms.characters))


def _words(word: str) -> Iterator[str]:
    """The word itself, and the parts of a ``camelCase`` name."""
    yield word.lower()
    if _IS_CAMEL.search(word):
        yield from (part.lower() for part in _CAMEL.findall(word))


def _distinct(terms: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(terms))
