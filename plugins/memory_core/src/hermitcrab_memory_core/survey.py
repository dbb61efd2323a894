"""How the vectors of an index stand to the provider at hand: read from the index, decided elsewhere."""

from __future__ import annotations

from functools import partial

from attrs import frozen

from hermitcrab.memory.files import weighted_length
from hermitcrab_memory_core.embedding_cache import EmbeddingCache, text_hash
from hermitcrab_memory_core.identity import Cost, Identity, Verdict, is_comparable, judge
from hermitcrab_memory_core.index import Index

# Vectors are searched once this share of the passages has one: ranked by half of them, the other half would sink.
_LEAST_COVERAGE = 0.9
_PAGE = 2000
_CHARACTERS_PER_TOKEN = 4


@frozen(kw_only=True)
class Survey:
    """The verdict on the vectors, and how many of all passages have one."""

    verdict: Verdict
    vectors: int
    passages: int

    @property
    def pending(self) -> int:
        """How many passages still need a vector."""
        return self.passages if self.verdict.state != "valid" else self.passages - self.vectors

    @property
    def is_ready(self) -> bool:
        """Whether vectors may take part in a search."""
        return (
            self.verdict.state == "valid"
            and self.vectors > 0
            and self.vectors >= _LEAST_COVERAGE * self.passages
        )


def survey(index: Index, wanted: Identity) -> Survey:
    """Look at the vectors of ``index``; takes a few milliseconds at any size."""
    stored = index.vectors.generation()
    return Survey(
        verdict=judge(None if stored is None else stored.identity, wanted),
        vectors=0 if stored is None else index.vectors.count(),
        passages=index.counts().passages,
    )


def cost_of(index: Index, wanted: Identity) -> Cost:
    """What ``wanted`` still has to embed: texts that neither the index nor the cache has a vector of."""
    stored = index.vectors.generation()
    anew = stored is None or not is_comparable(stored.identity, wanted)
    after, characters = 0, 0
    seen: set[bytes] = set()
    while batch := index.vectors.pending(after=after, limit=_PAGE, everything=anew):
        after = batch[-1].passage
        texts = {key: item.text for item in batch if (key := text_hash(item.text)) not in seen}
        keys = list(texts)
        known = index.with_cache(
            partial(
                EmbeddingCache.find, fingerprint=wanted.fingerprint, hashes=keys, dims=wanted.dims
            )
        )
        missing = texts.keys() - known.keys()
        seen |= missing
        characters += sum(weighted_length(texts[key]) for key in missing)
    return Cost(len(seen), characters // _CHARACTERS_PER_TOKEN)
