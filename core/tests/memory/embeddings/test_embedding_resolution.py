"""Which provider an agent gets, and what is said where it gets none (memory 5.2, 5.7, design 7)."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from hermitcrab.config.schema import MemorySearchConfig, ProviderConfig, RemoteEmbeddingsConfig
from hermitcrab.errors import EmbeddingError
from hermitcrab.memory import EmbeddingProvider
from hermitcrab.memory.embeddings.resolution import EmbeddingSources, choose_embeddings


class Local(EmbeddingProvider):
    """Remembers what it was made with."""

    dims = 4

    def __init__(self, context):
        self.id, self.model, self.context = context.provider_id, context.model or "default", context

    async def embed_documents(self, texts):
        return [[1.0] * 4 for _ in texts]

    async def embed_query(self, text):
        raise EmbeddingError("used up", kind="quota")

    def fingerprint(self):
        return self.id


def broken(context):
    raise RuntimeError("no weights")


@pytest.fixture
def choose(tmp_path):
    def chosen(*, environ=None, factories=None, entries=None, **settings):
        remote = settings.pop("remote", {})
        return choose_embeddings(
            MemorySearchConfig(remote=RemoteEmbeddingsConfig(**remote), **settings),
            EmbeddingSources(
                agent_id="main",
                home=tmp_path,
                environ=environ or {},
                factories=factories or {},
                plugin_config=lambda provider_id: f"config of {provider_id}",
                entries=entries or {},
            ),
        )

    return chosen


def server(provider):
    """Where the provider that was chosen asks, and with which key."""
    return vars(vars(provider)["_provider"])["_server"]


# -- auto ---------------------------------------------------------------------------------------------


def test_auto_is_local_where_it_is_installed(choose):
    choice = choose(factories={"local": Local}, environ={"OPENAI_API_KEY": "k"})
    assert (choice.requested, choice.provider.id, choice.problem) == ("auto", "local", None)
    assert choice.provider.remote is False


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["OPENAI_API_KEY", "GEMINI_API_KEY"], "openai"),
        (["MISTRAL_API_KEY", "VOYAGE_API_KEY", "GEMINI_API_KEY"], "gemini"),
        (["MISTRAL_API_KEY", "VOYAGE_API_KEY"], "voyage"),
        (["MISTRAL_API_KEY"], "mistral"),
    ],
)
def test_without_it_auto_is_the_first_with_a_key(choose, keys, chosen):
    choice = choose(environ=dict.fromkeys(keys, "k"))
    assert choice.provider.id == chosen
    assert choice.provider.remote is True


def test_auto_takes_a_key_from_the_config_of_models(choose):
    assert choose(entries={"google": ProviderConfig(api_key="k")}).provider.id == "gemini"


def test_auto_goes_on_after_a_local_provider_that_fails(choose):
    choice = choose(factories={"local": broken}, environ={"VOYAGE_API_KEY": "k"})
    assert choice.provider.id == "voyage"


def test_auto_without_anything_says_what_it_tried_and_what_to_do(choose):
    choice = choose()
    assert choice.provider is None
    assert "pip install hermitcrab-embeddings-local" in choice.problem
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "VOYAGE_API_KEY", "MISTRAL_API_KEY"):
        assert name in choice.problem


def test_auto_does_not_send_notes_to_a_chat_server_of_which_nobody_said_that_it_embeds(choose):
    entry = ProviderConfig(base_url="https://chat.example/v1", api_key="k")
    assert choose(entries={"openai": entry}).provider is None
    assert choose(entries={"openai": entry}, provider="openai").provider.id == "openai"


def test_auto_says_which_settings_it_does_not_use(choose):
    choice = choose(
        factories={"local": Local},
        model="m",
        output_dimensionality=3,
        remote={"base_url": "https://a.example"},
    )
    context = vars(choice.provider)["_provider"].context
    assert (context.model, context.output_dimensionality, context.base_url) == (None, None, None)
    (note,) = choice.notes
    for name in ("model", "outputDimensionality", "remote"):
        assert f"memorySearch.{name}" in note


# -- a provider by its name ---------------------------------------------------------------------------


def test_none_is_none_and_no_problem(choose):
    choice = choose(provider="none", environ={"OPENAI_API_KEY": "k"}, fallback="openai")
    assert (choice.provider, choice.problem, choice.notes) == (None, None, ())


def test_the_provider_that_config_names_is_honoured_over_keys_that_are_there(choose):
    """Pitfall 25."""
    choice = choose(provider="mistral", environ={"OPENAI_API_KEY": "k"}, factories={"local": Local})
    assert choice.provider is None
    assert "memorySearch.provider is 'mistral'" in choice.problem
    assert "MISTRAL_API_KEY" in choice.problem
    assert "OPENAI" not in choice.problem


def test_a_provider_of_a_plugin_gets_what_config_says(choose):
    """Pitfall 26."""
    choice = choose(
        factories={"shell": Local},
        provider="shell",
        model="pearl",
        output_dimensionality=4,
        input_type="both",
        query_input_type="q",
        remote={
            "base_url": "https://shell.example",
            "api_key": "secret-1",
            "headers": {"X-A": "secret-2"},
            "non_batch_concurrency": 2,
        },
        environ={"SHELL_KEY": "secret-3"},
    )
    context = vars(choice.provider)["_provider"].context
    assert (choice.provider.id, choice.provider.model) == ("shell", "pearl")
    assert (context.output_dimensionality, context.concurrency) == (4, 2)
    assert (context.query_input_type, context.document_input_type) == ("q", "both")
    assert (context.base_url, context.api_key) == ("https://shell.example", "secret-1")
    assert context.environ["SHELL_KEY"] == "secret-3"
    assert context.plugin_config == "config of shell"
    assert "secret" not in repr(context)


@pytest.mark.parametrize(
    ("factory", "said"),
    [(broken, "no weights"), (lambda context: SimpleNamespace(), "not an EmbeddingProvider")],
)
def test_a_provider_of_a_plugin_that_cannot_be_made_is_a_problem(choose, factory, said):
    choice = choose(factories={"shell": factory}, provider="shell")
    assert choice.provider is None
    assert said in choice.problem


def test_an_unknown_name_gets_the_nearest(choose):
    choice = choose(provider="opnai", factories={"local": Local})
    assert choice.provider is None
    assert "Did you mean openai?" in choice.problem


@pytest.mark.parametrize("api", [None, "openai-compatible", "ollama"])
def test_an_entry_of_models_can_be_asked_for_vectors(choose, api):
    entry = ProviderConfig(
        api=api, base_url="https://lab.example/v1", api_key="k-lab", headers={"X-Lab": "1"}
    )
    choice = choose(
        provider="lab", model="bge", entries={"lab": entry}, environ={"OPENAI_API_KEY": "k-openai"}
    )
    assert (choice.provider.id, choice.provider.model) == ("lab", "bge")
    asked = server(choice.provider)
    assert asked.base_url.startswith("https://lab.example")
    assert (asked.api_key, asked.headers) == ("k-lab", {"X-Lab": "1"})


def test_an_entry_of_models_without_a_key_does_not_get_that_of_another_provider(choose):
    entry = ProviderConfig(base_url="https://lab.example/v1")
    environ = {"OPENAI_API_KEY": "k-openai"}
    choice = choose(provider="lab", model="bge", entries={"lab": entry}, environ=environ)
    assert server(choice.provider).api_key is None


@pytest.mark.parametrize(
    ("entry", "model", "said"),
    [
        (ProviderConfig(base_url="https://lab.example/v1"), None, "memorySearch.model"),
        (ProviderConfig(api="anthropic-messages"), "m", "which has no embeddings"),
        (ProviderConfig(), "m", "no address"),
    ],
)
def test_an_entry_of_models_that_cannot_be_asked_is_a_problem(choose, entry, model, said):
    choice = choose(provider="lab", model=model, entries={"lab": entry})
    assert choice.provider is None
    assert said in choice.problem


# -- whose key goes where -----------------------------------------------------------------------------

OWN = "https://api.openai.com/v1"
OTHER = "https://other.example/v1"


@pytest.mark.parametrize(
    ("remote", "entry", "address", "key"),
    [
        ({}, None, OWN, "k-environ"),
        ({"api_key": "k-remote"}, None, OWN, "k-remote"),
        ({}, ProviderConfig(api_key="k-entry"), OWN, "k-entry"),
        ({}, ProviderConfig(api_key="k-entry", base_url=OTHER), OTHER, "k-entry"),
        ({}, ProviderConfig(base_url=OTHER), OTHER, None),
        ({"base_url": OTHER}, None, OTHER, None),
        ({"base_url": OTHER}, ProviderConfig(api_key="k-entry"), OTHER, None),
        ({"base_url": OTHER, "api_key": "k-remote"}, None, OTHER, "k-remote"),
        ({"base_url": OWN + "/x"}, ProviderConfig(api_key="k", base_url=OTHER), OWN + "/x", "k-environ"),
    ],
)  # fmt: skip
def test_a_key_goes_only_to_the_server_for_which_it_was_given(choose, remote, entry, address, key):
    choice = choose(
        provider="openai",
        remote=remote,
        entries={} if entry is None else {"openai": entry},
        environ={"OPENAI_API_KEY": "k-environ"},
    )
    assert (server(choice.provider).base_url, server(choice.provider).api_key) == (address, key)


def test_headers_of_config_can_stand_for_the_key(choose):
    choice = choose(provider="openai", remote={"headers": {"authorization": "Custom x"}})
    assert choice.provider.id == "openai"


# -- the fallback -------------------------------------------------------------------------------------


def test_the_fallback_takes_the_place_of_what_cannot_be_made_and_a_note_says_why(choose):
    choice = choose(
        provider="openai", model="big", output_dimensionality=7, fallback="local",
        factories={"local": Local},
    )  # fmt: skip
    assert (choice.provider.id, choice.problem) == ("local", None)
    (note,) = choice.notes
    assert "OPENAI_API_KEY" in note
    assert "local takes its place" in note
    context = vars(choice.provider)["_provider"].context
    assert (context.model, context.output_dimensionality) == (None, None), "its own default"


def test_no_fallback_means_none(choose):
    """Pitfall 23."""
    choice = choose(provider="openai", factories={"local": Local})
    assert choice.provider is None


def test_where_both_cannot_be_made_both_reasons_are_given(choose):
    choice = choose(provider="openai", fallback="voyage")
    assert choice.provider is None
    assert "OPENAI_API_KEY" in choice.problem
    assert "VOYAGE_API_KEY" in choice.problem


async def test_the_fallback_takes_the_place_of_what_fails_later(choose):
    choice = choose(
        provider="shell", fallback="openai", factories={"shell": Local},
        environ={"OPENAI_API_KEY": "k"},
    )  # fmt: skip
    before = choice.provider.fingerprint()
    with pytest.raises(EmbeddingError, match="openai/text-embedding-3-small takes its place"):
        await choice.provider.embed_query("a")
    assert (choice.provider.id, choice.provider.model) == ("openai", "text-embedding-3-small")
    assert choice.provider.fingerprint() != before


def test_address_and_key_are_the_fallbacks_where_the_first_has_no_use_for_them(choose):
    remote = {"base_url": "https://a.example/v1", "api_key": "k"}
    choice = choose(provider="local", fallback="openai", remote=remote)
    assert (server(choice.provider).base_url, server(choice.provider).api_key) == (
        "https://a.example/v1",
        "k",
    )
    assert choose(provider="voyagee", fallback="openai", remote=remote).provider is None


@pytest.mark.parametrize("fallback", ["auto", "openai", "none"])
def test_a_fallback_that_is_no_other_provider_is_none(choose, fallback):
    choice = choose(provider="openai", fallback=fallback)
    assert choice.provider is None
    assert choice.problem.count("there is no key") == 1


def test_choosing_loads_no_library_and_connects_to_nothing():
    code = """
import socket, sys, pathlib
def refuse(*args, **options): raise AssertionError("a socket was made")
socket.socket.connect = refuse
from hermitcrab.config.schema import MemorySearchConfig
from hermitcrab.memory.embeddings.resolution import EmbeddingSources, choose_embeddings
sources = EmbeddingSources(agent_id="main", home=pathlib.Path(), environ={"OPENAI_API_KEY": "k"})
assert choose_embeddings(MemorySearchConfig(), sources).provider.id == "openai"
print([name for name in ("httpx", "tenacity", "numpy", "sqlite3") if name in sys.modules])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
