"""The models that can be asked for: which encoders each one joins, and where a text's weight goes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from hermitcrab.errors import EmbeddingError
from hermitcrab_embeddings_local.scripts import multilingual_share

#: How many numbers each encoder gives.
ENCODER_DIMS = 256
DEFAULT_MODEL = "by-script"


@frozen(kw_only=True)
class Model:
    """What a model's vectors are made of.

    A vector is the two encoders' vectors side by side, an encoder that the model does not use left out. Each is weighed
    so that a vector has length 1, and the product of two vectors is the sum of what the encoders say.

    :param static: whether it uses the static vectors of word pieces.
    :param multilingual: whether it uses the multilingual sentence encoder.
    :param share: of a text, how much of its vector's squared length is the multilingual encoder's, 0 to 1.
    """

    name: str
    static: bool
    multilingual: bool
    share: Callable[[str], float]

    @property
    def dims(self) -> int:
        return ENCODER_DIMS * (self.static + self.multilingual)


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model(name=DEFAULT_MODEL, static=True, multilingual=True, share=multilingual_share),
        Model(name="static", static=True, multilingual=False, share=lambda text: 0.0),
        Model(name="multilingual", static=False, multilingual=True, share=lambda text: 1.0),
    )
}


def model_named(name: str | None, dims: int | None) -> Model:
    """The model of this name.

    :param dims: how many numbers its vectors are to have; ``None`` is whatever it gives.
    :raises EmbeddingError: there is no such model, or its vectors have another size.
    """
    name = name or DEFAULT_MODEL
    model = MODELS.get(name)
    if model is None:
        raise _refused(
            f"there is no local model '{name}'",
            f"Set agents.defaults.memorySearch.model to one of {', '.join(MODELS)}",
        )
    if dims is not None and dims != model.dims:
        raise _refused(
            f"the model '{name}' gives vectors of {model.dims} numbers, not {dims}",
            "Remove agents.defaults.memorySearch.outputDimensionality",
        )
    return model


def _refused(message: str, hint: str) -> EmbeddingError:
    return EmbeddingError(message, kind="request", where="local", hint=hint)
