from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from attrs import field, frozen

import hermitcrab.models
from hermitcrab.errors import ConfigError
from hermitcrab.models import (
    AnthropicModel,
    ChatModel,
    ChatReply,
    ChatRequest,
    OfflineModel,
    OpenAICompatibleModel,
)
from hermitcrab.models.resolve import (
    ContextWindow,
    ModelSpec,
    build_model,
    model_entry,
    parse_model,
    resolve_context_window,
)


@frozen
class Entry:
    context_window: int | None = None
    max_tokens: int | None = None
    reasoning: bool = False
    thinking_levels: Sequence[str] = ("low", "medium", "high")
    fast_body: Mapping[str, Any] = field(factory=dict)


@frozen
class Provider:
    api: str | None = "openai-compatible"
    base_url: str | None = "http://127.0.0.1:1/v1"
    api_key: str | None = None
    headers: Mapping[str, str] = field(factory=dict)
    models: Mapping[str, Entry] = field(factory=dict)
    timeout_seconds: float | None = None
    max_retries: int = 3
    prompt_cache: Any = "short"


class Asked(ChatModel):
    def __init__(self, model_id: str, window: int | None) -> None:
        self.id = model_id
        self.window = window

    async def complete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError

    async def context_window(self) -> int | None:
        return self.window


@pytest.mark.parametrize("reference", [None, "offline", "offline/extractive"])
def test_without_a_model_the_offline_one_answers(reference: str | None) -> None:
    assert isinstance(build_model(reference, {}), OfflineModel)


def test_a_name_may_hold_slashes() -> None:
    assert parse_model("router/meta/llama") == ModelSpec("router", "meta/llama")
    assert str(parse_model(" lab/tiny ")) == "lab/tiny"


@pytest.mark.parametrize("reference", ["", "tiny", "/tiny", "lab/", "offline/other"])
def test_what_names_no_model_is_a_config_error(reference: str) -> None:
    with pytest.raises(ConfigError, match=r"agents\.defaults\.model"):
        build_model(reference, {})


@pytest.mark.parametrize("api", ["openai-compatible", "openai-completions", "openai"])
async def test_a_provider_of_config_is_spoken_to_over_http(api: str) -> None:
    provider = Provider(api=api, models={"tiny": Entry(context_window=4096)})
    model = build_model("lab/tiny", {"lab": provider})
    assert isinstance(model, OpenAICompatibleModel)
    assert model.id == "lab/tiny"
    assert await model.context_window() == 4096


@pytest.mark.parametrize(
    ("provider_id", "api"),
    [("anthropic", None), ("lab", "anthropic-messages"), ("lab", "anthropic")],
)
async def test_the_messages_api_is_spoken_to_where_config_says_so(
    provider_id: str, api: str | None
) -> None:
    provider = Provider(api=api, base_url=None, models={"tiny": Entry(context_window=4096)})
    model = build_model(f"{provider_id}/tiny", {provider_id: provider})
    assert isinstance(model, AnthropicModel)
    assert model.id == f"{provider_id}/tiny"
    assert await model.context_window() == 4096


def test_a_provider_of_no_named_api_speaks_the_openai_protocol() -> None:
    assert isinstance(build_model("lab/x", {"lab": Provider(api=None)}), OpenAICompatibleModel)


def test_anthropic_may_be_reached_through_another_protocol() -> None:
    provider = Provider(api="openai-compatible")
    assert isinstance(build_model("anthropic/x", {"anthropic": provider}), OpenAICompatibleModel)


def test_anthropic_without_an_entry_says_what_to_add() -> None:
    with pytest.raises(ConfigError, match=r"anthropic\.apiKey: \$\{ANTHROPIC_API_KEY\}"):
        build_model("anthropic/claude-x", {})


def test_a_plugin_may_bring_its_own_anthropic() -> None:
    made = build_model("anthropic/x", {}, {"anthropic": lambda **_: OfflineModel()})
    assert isinstance(made, OfflineModel)


def test_an_unknown_provider_names_the_known_and_the_nearest() -> None:
    with pytest.raises(ConfigError) as raised:
        build_model("opnai/gpt", {"openai": Provider(), "lab": Provider()})
    text = str(raised.value)
    assert "models.providers" in text
    assert "lab, offline, openai" in text
    assert "Did you mean openai?" in text


def test_an_unknown_api_names_the_known() -> None:
    with pytest.raises(ConfigError, match=r"models\.providers\.lab\.api.*openai-compatible"):
        build_model("lab/tiny", {"lab": Provider(api="opena-compatible")})


def test_a_provider_needs_an_address() -> None:
    with pytest.raises(ConfigError, match=r"models\.providers\.lab\.baseUrl"):
        build_model("lab/tiny", {"lab": Provider(base_url=None)})


@pytest.mark.parametrize("key", ["special", "lab"])
def test_a_plugins_factory_is_found_by_api_or_by_provider(key: str) -> None:
    made: list[Any] = []

    def factory(**given: Any) -> ChatModel:
        made.append(given)
        return OfflineModel()

    provider = Provider(api="special")
    build_model("lab/tiny", {"lab": provider}, {key: factory})
    assert made == [{"provider_id": "lab", "model": "tiny", "config": provider}]


def test_a_plugins_provider_needs_no_config() -> None:
    assert build_model("own/x", {}, {"own": lambda **_: OfflineModel()}).id == "offline/extractive"


def test_the_entry_of_a_model_is_what_config_says() -> None:
    providers = {"lab": Provider(models={"tiny": Entry(7)})}
    assert model_entry("lab/tiny", providers) == Entry(7)
    assert model_entry("lab/other", providers) is None
    assert model_entry("offline", providers) is None
    assert model_entry(None, providers) is None


async def test_the_window_is_configured_or_of_the_entry_or_of_the_server() -> None:
    model = Asked("w/a", 3)
    assert await resolve_context_window(model, configured=1, entry=2) == ContextWindow(1, "config")
    assert await resolve_context_window(model, configured=None, entry=2) == ContextWindow(
        2, "provider"
    )
    assert await resolve_context_window(model, configured=None, entry=None) == ContextWindow(
        3, "server"
    )


async def test_the_log_says_where_a_window_comes_from(caplog: pytest.LogCaptureFixture) -> None:
    """P20: nobody knew why a session was compacted so early."""
    caplog.set_level(logging.DEBUG, "hermitcrab.models")
    await resolve_context_window(Asked("w/b", 4_096), configured=None, entry=None)
    assert "w/b: a context window of 4096 tokens, from server" in caplog.text


async def test_an_assumed_window_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        window = await resolve_context_window(Asked("w/unknown", None), configured=None, entry=None)
        assert window == ContextWindow(32_000, "default")
    assert [
        record.getMessage() for record in caplog.records if "w/unknown" in record.getMessage()
    ] == [
        "w/unknown: nobody says how large the context window is, 32000 tokens are assumed; "
        "set agents.defaults.contextTokens"
    ]


def test_the_public_names_are_the_visible_ones() -> None:
    assert dir(hermitcrab.models) == sorted(hermitcrab.models.__all__)
    assert all(getattr(hermitcrab.models, name) for name in hermitcrab.models.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = hermitcrab.models.nothing


def test_importing_the_room_loads_nothing_heavy() -> None:
    code = (
        "import json, sys; import hermitcrab.models; "
        "from hermitcrab.models import AnthropicModel, OfflineModel, OpenAICompatibleModel; "
        "print(json.dumps(sorted(sys.modules)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(output.stdout))
    assert not loaded & {"httpx", "tiktoken", "sqlite3", "numpy", "rich", "click", "tenacity"}
