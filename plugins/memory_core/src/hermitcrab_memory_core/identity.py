"""Whether the vectors of an index belong to the provider at hand: pure decisions (memory 3.7, design 7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from attrs import asdict, evolve, frozen

from hermitcrab.errors import EmbeddingError
from hermitcrab.memory.files import CHUNKER_VERSION, PASSAGE_VERSION
from hermitcrab.memory.ranking.units import EMBEDDING_TEXT_VERSION

if TYPE_CHECKING:
    from hermitcrab.memory import EmbeddingProvider

#: ``valid``: the vectors may be searched and added to. ``missing``: there are none. ``mismatched``: they were made
#: with something else.
IdentityState = Literal["valid", "missing", "mismatched"]

#: How the words of keyword search are cut.
TOKENIZER = "porter unicode61 remove_diacritics 2"

#: A remote provider makes the first vectors of an index unasked up to this many tokens.
FREE_TOKENS = 200_000


@frozen(kw_only=True)
class Identity:
    """What the vectors of an index were made with. ``dims`` is 0 while nobody knows it.

    ``sources`` and ``scope`` say what was indexed: a change of these costs the files concerned and never the rest.
    """

    provider: str
    model: str
    fingerprint: str
    dims: int
    chunking: str
    tokenizer: str = TOKENIZER
    sources: tuple[str, ...] = ("memory",)
    scope: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Identity:
        """:raises ValueError: the text is no identity."""
        try:
            data: dict[str, Any] = json.loads(text)
            return cls(**{**data, "sources": tuple(data["sources"]), "scope": tuple(data["scope"])})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not an identity: {error}") from error


@frozen
class Verdict:
    """``reason`` is a clause without a full stop; empty where the state is ``valid``."""

    state: IdentityState
    reason: str = ""


@frozen
class Cost:
    """What it takes to make the vectors that are missing: texts to embed, and about how many tokens they have."""

    texts: int
    tokens: int

    def __str__(self) -> str:
        plural = "" if self.texts == 1 else "s"
        return f"{self.texts:,} text{plural}, about {self.tokens:,} tokens"


def chunking_of(*, tokens: int, overlap: int, rendering: int = 0) -> str:
    """What cut the files: versions and sizes. A file that was cut by anything else is cut again.

    ``rendering`` is the version of how texts come about that are not indexed as they stand in a file.
    """
    versions = [CHUNKER_VERSION, PASSAGE_VERSION, EMBEDDING_TEXT_VERSION, tokens, overlap]
    return json.dumps([*versions, rendering] if rendering else versions)


def identity_of(
    provider: EmbeddingProvider, *, chunking: str, sources: tuple[str, ...], scope: tuple[str, ...]
) -> Identity:
    """What vectors of ``provider`` would have; read anew each time, because a fallback may take its place.

    :raises EmbeddingError: the provider cannot say what it is.
    """
    try:
        fingerprint = provider.fingerprint()
    except Exception as error:
        raise EmbeddingError(
            f"the embedding provider has no fingerprint ({type(error).__name__}: {error})",
            kind="answer",
            where=provider.id,
        ) from error
    return Identity(
        provider=provider.id,
        model=provider.model,
        fingerprint=fingerprint,
        dims=max(0, provider.dims or 0),
        chunking=chunking,
        sources=tuple(sorted(sources)),
        scope=tuple(sorted(scope)),
    )


def judge(stored: Identity | None, wanted: Identity) -> Verdict:
    """Whether vectors with the identity ``stored`` may be searched with the provider of ``wanted``."""
    if stored is None:
        return Verdict("missing", "there are no vectors yet")
    if not is_comparable(stored, wanted):
        return Verdict("mismatched", _difference(stored, wanted))
    if stored.chunking != wanted.chunking:
        return Verdict("mismatched", "the files are cut into other pieces now")
    return Verdict("valid")


def is_comparable(stored: Identity, wanted: Identity) -> bool:
    """Whether vectors of both may stand in one matrix."""
    same_length = 0 in (stored.dims, wanted.dims) or stored.dims == wanted.dims
    return stored.fingerprint == wanted.fingerprint and same_length


def may_embed(verdict: Verdict, *, remote: bool, force: bool, cost: Cost) -> bool:
    """Whether to embed what is missing without being asked: nothing that costs money is built anew in silence."""
    if force or not remote or verdict.state == "valid":
        return True
    return cost.texts == 0 or (verdict.state == "missing" and cost.tokens <= FREE_TOKENS)


def adopted(stored: Identity, wanted: Identity) -> Identity:
    """``wanted``, with the length of the vectors that are there already."""
    return evolve(wanted, dims=stored.dims or wanted.dims)


def described(identity: Identity) -> Mapping[str, Any]:
    """What a status shows of an identity."""
    return {
        "provider": identity.provider,
        "model": identity.model,
        "dims": identity.dims,
        "sources": list(identity.sources),
        "extraPaths": list(identity.scope),
        "tokenizer": identity.tokenizer,
    }


def _difference(stored: Identity, wanted: Identity) -> str:
    if (stored.provider, stored.model) != (wanted.provider, wanted.model):
        return (
            f"the vectors are of {stored.provider}/{stored.model}, the provider is now "
            f"{wanted.provider}/{wanted.model}"
        )
    if 0 not in (stored.dims, wanted.dims) and stored.dims != wanted.dims:
        return f"the vectors have {stored.dims} numbers, the provider gives {wanted.dims}"
    return f"the settings of {wanted.provider}/{wanted.model} changed, or its address did"
