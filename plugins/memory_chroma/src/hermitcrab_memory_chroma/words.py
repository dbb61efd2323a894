"""Searching by words in a store that can only say which documents contain a text: candidates, then our own scores."""

from __future__ import annotations

import heapq
import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from hermitcrab.memory.files import index_terms, keywords
from hermitcrab.messages.text import scrub_text

#: Stored with an index: another number means that documents are cut and folded otherwise.
WORDS_VERSION = 1

#: Terms of a query that are looked for, the longest first: each is a request.
MOST_TERMS = 12
#: Documents with a term that are taken into account.
MOST_WITH_TERM = 2_000
#: Candidates that are read and scored.
MOST_CANDIDATES = 240

_ENDINGS = ("ations", "ation", "ings", "ing", "ions", "ion", "ies", "ed", "es", "ly", "s", "e", "y")
_SHORTEST_STEM = 3
_SATURATION = 1.2
_LENGTH_SHARE = 0.4
_LENT = 0.5


def folded(text: str, *more: str) -> str:
    """The document that is searched: everything in lower case and one form of each character."""
    joined = scrub_text("\n".join((*more, text))).replace("\0", " ")
    # Lower case of one form may be another form.
    return _one_form(_one_form(joined).lower())


def _one_form(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def stem(word: str) -> str:
    """A beginning of ``word`` that its other forms share: rough, and the same for documents and queries."""
    if not word.isascii() or not word.isalpha():
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            short = word[: -len(ending)]
            doubled = (
                len(short) > _SHORTEST_STEM and short[-1] == short[-2] and short[-1] not in "ls"
            )
            return short[:-1] if doubled else short
    return word


def query_terms(query: str) -> tuple[str, ...]:
    """What to look for: stems of words and pairs of CJK characters; single characters where there is nothing else."""
    terms = keywords(query)
    words = dict.fromkeys(stem(word) for word in terms.words)
    found = (*sorted(words, key=len, reverse=True), *terms.pairs)
    return (found or terms.characters)[:MOST_TERMS]


def document_terms(document: str) -> Counter[str]:
    """How often a document has each term."""
    terms = index_terms(document)
    return Counter((*map(stem, terms.words), *terms.pairs, *terms.characters))


def candidates(found: Mapping[str, Sequence[str]], total: int) -> list[str]:
    """The ids of the documents whose terms are rarest together.

    :param found: the ids of the documents that contain a term, by term.
    :param total: how many documents there are.
    """
    promise: defaultdict[str, float] = defaultdict(float)
    for ids in found.values():
        weight = rarity(len(ids), total)
        for row_id in ids:
            promise[row_id] += weight
    return heapq.nlargest(MOST_CANDIDATES, promise, key=lambda row_id: (promise[row_id], row_id))


def rarity(matching: int, total: int) -> float:
    """What a term is worth that ``matching`` of ``total`` documents have; more than nothing for every term."""
    absent = max(0, total - matching)
    return math.log1p((absent + 0.5) / (matching + 0.5)) + 0.1


@frozen(kw_only=True)
class Document:
    """A candidate: ``beside`` are the ids of those right before and after it."""

    id: str
    text: str
    beside: tuple[str, ...] = ()


def scores(
    terms: Iterable[str], documents: Sequence[Document], matching: Mapping[str, int], total: int
) -> dict[str, float]:
    """The score of each candidate that has a term itself, with a share of what only its neighbours have.

    :param matching: how many documents contain each term.
    """
    weights = {term: rarity(matching.get(term, 0), total) for term in terms}
    counts = {document.id: document_terms(document.text) for document in documents}
    lengths = {row_id: sum(count.values()) for row_id, count in counts.items()}
    mean = sum(lengths.values()) / len(lengths) if lengths else 1.0
    own = {
        row_id: {
            term: weight * _saturated(count[term], lengths[row_id] / (mean or 1.0))
            for term, weight in weights.items()
            if count[term]
        }
        for row_id, count in counts.items()
    }
    return {
        document.id: _with_lent(own[document.id], [own.get(near, {}) for near in document.beside])
        for document in documents
        if own[document.id]
    }


def _saturated(count: int, length: float) -> float:
    norm = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length)
    return count * (_SATURATION + 1) / (count + norm)


def _with_lent(own: Mapping[str, float], near: Sequence[Mapping[str, float]]) -> float:
    lent: dict[str, float] = {}
    for neighbour in near:
        for term, score in neighbour.items():
            if term not in own:
                lent[term] = max(lent.get(term, 0.0), score)
    return sum(own.values()) + _LENT * sum(lent.values())
