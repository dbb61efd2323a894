"""What each key accepts, and what the message says when it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermitcrab.config import Config, config_from, get_value
from hermitcrab.errors import ConfigError


def document_with(path: str, value: Any) -> dict[str, Any]:
    first, *rest = path.split(".")
    for name in reversed(rest):
        value = {name: value}
    return {first: value}


def loaded(path: str, value: Any) -> Any:
    return get_value(config_from(document_with(path, value), environ={}), path)


def complaint_about(document: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        config_from(document, environ={}, where="config.yaml")
    return str(caught.value)


COMPACTION = "agents.defaults.compaction"
SEARCH = "agents.defaults.memorySearch"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("agents.defaults.model", "openrouter/meta/llama-3.1"),
        ("agents.defaults.contextTokens", 1000),
        ("agents.defaults.userTimezone", "Asia/Shanghai"),
        ("agents.defaults.bootstrapMaxChars", 64),
        ("agents.defaults.systemPrompt", ""),
        ("agents.defaults.maxToolRounds", 1000),
        (f"{COMPACTION}.reserveTokens", 0),
        (f"{COMPACTION}.identifierPolicy", "off"),
        (f"{COMPACTION}.timeoutSeconds", 0.5),
        (f"{SEARCH}.query.minScore", 1),
        (f"{SEARCH}.extraPaths", ["notes", "~/more"]),
        ("session.identityLinks", {"alice": ["telegram:1"]}),
        ("session.historyLimit", 1),
        ("plugins.slots.memory", "memory-lancedb"),
        ("plugins.entries.a.config", {"nested": [{"any": None}]}),
        ("plugins.entries.a.hooks.timeouts", {"agent_end": 600_000}),
        ("models.providers.local.maxRetries", 0),
        ("models.providers.local.baseUrl", "http://127.0.0.1:8080"),
    ],
)
def test_allowed_values_are_kept(path: str, value: Any) -> None:
    assert loaded(path, value) == value


@pytest.mark.parametrize(
    ("path", "value", "allowed"),
    [
        ("agents.defaults.model", "gpt", "text, provider/name"),
        ("agents.defaults.model", "openai/", "text, provider/name"),
        ("agents.defaults.contextTokens", 999, "an integer, at least 1000"),
        ("agents.defaults.contextTokens", 2000.5, "an integer, at least 1000"),
        ("agents.defaults.contextTokens", "2000", "an integer, at least 1000"),
        ("agents.defaults.contextTokens", True, "an integer, at least 1000"),
        ("agents.defaults.userTimezone", "Mars/Base", "a time zone such as Europe/Berlin"),
        ("agents.defaults.userTimezone", "../etc/passwd", "a time zone such as Europe/Berlin"),
        ("agents.defaults.userTimezone", "America", "a time zone such as Europe/Berlin"),
        ("agents.defaults.workspace", " ", "text, not empty"),
        ("agents.defaults.bootstrapTotalMaxChars", 63, "an integer, at least 64"),
        ("agents.defaults.maxToolRounds", 0, "an integer, 1 to 1000"),
        ("agents.defaults.maxToolRounds", 1001, "an integer, 1 to 1000"),
        (f"{COMPACTION}.reserveTokens", -5, "an integer, at least 0"),
        (f"{COMPACTION}.reserveTokens", None, "an integer, at least 0"),
        (f"{COMPACTION}.keepRecentTokens", 0, "an integer, more than 0"),
        (f"{COMPACTION}.mode", "careful", "one of default, safeguard, aggressive"),
        (f"{COMPACTION}.identifierPolicy", "some", "one of strict, custom, off"),
        (f"{COMPACTION}.keepCredentials", 1, "true or false"),
        (f"{COMPACTION}.timeoutSeconds", 0, "a number, more than 0"),
        (f"{COMPACTION}.midTurnPrecheck", True, "a mapping"),
        (f"{COMPACTION}.provider", "", "text, not empty"),
        (f"{COMPACTION}.qualityGuard.maxRetries", -1, "an integer, at least 0"),
        (f"{COMPACTION}.recentTurnsPreserve", 13, "an integer, 0 to 12"),
        (f"{COMPACTION}.maxHistoryShare", 0.95, "a number, 0.1 to 0.9"),
        (f"{COMPACTION}.postCompactionSections", "Rules", "a list"),
        (f"{COMPACTION}.memoryFlush", 5, "a mapping"),
        (f"{COMPACTION}.memoryFlush.forceFlushTranscriptBytes", "2xb", "a size such as 2mb"),
        (f"{COMPACTION}.memoryFlush.forceFlushTranscriptBytes", -1, "a size such as 2mb"),
        (f"{SEARCH}.chunking.tokens", 0, "an integer, at least 1"),
        (f"{SEARCH}.query.maxResults", 101, "an integer, 1 to 100"),
        (f"{SEARCH}.query.minScore", 1.1, "a number, 0 to 1"),
        (f"{SEARCH}.extraPaths", "notes", "a list"),
        ("agents.list", {"id": "main"}, "a list"),
        ("models.providers.a.baseUrl", "api.example.com", "an address http://"),
        ("models.providers.a.maxRetries", 11, "an integer, 0 to 10"),
        ("session.durability", "Turn", "one of turn, message, os"),
        ("session.dmScope", 5, "one of main, per-peer"),
        ("session.historyLimit", 0, "an integer, at least 1"),
        ("session.lockTimeoutMs", 0, "an integer, more than 0"),
        ("session.mainKey", 7, "text, not empty"),
        ("plugins.allow", "memory-core", "a list"),
        ("plugins.slots.memory", None, "text, `none` means `none`"),
        ("plugins.entries.a.config", [], "a mapping"),
        ("plugins.entries.a.hooks.timeoutMs", 600_001, "an integer, 1 to 600000"),
        ("memory.citations", "never", "one of auto, on, off"),
    ],
)
def test_other_values_are_refused_with_path_and_what_is_allowed(
    path: str, value: Any, allowed: str
) -> None:
    first_line = complaint_about(document_with(path, value)).splitlines()[0]
    assert first_line.startswith(f"config.yaml: {path}: ")
    assert "is not allowed, expected " in first_line
    assert allowed in first_line


def test_items_of_lists_and_maps_are_named() -> None:
    assert "plugins.deny[1]: 5 is" in complaint_about(document_with("plugins.deny", ["a", 5]))
    document = document_with("plugins.entries.a.hooks.timeouts.agent_end", 0)
    assert "hooks.timeouts.agent_end: 0 is not allowed" in complaint_about(document)


def test_providers_have_names_that_fit_before_a_slash() -> None:
    text = complaint_about({"models": {"providers": {"a/b": {}}}})
    assert 'models.providers.a/b: "a/b" is not allowed, expected text, no spaces' in text


@pytest.mark.parametrize("value", [5, 1.5, True])
def test_a_number_where_text_belongs_asks_for_quotes(value: object) -> None:
    text = complaint_about(document_with("agents.defaults.systemPrompt", value))
    assert "expected text. Put the value into quotes" in text


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("agent", "agents"),
        (f"{COMPACTION}.reserveTokns", "reserveTokens"),
        (
            f"{COMPACTION}.reserve_tokens_floor",
            "reserveTokensFloor?, keys are written in camelCase",
        ),
        (f"{COMPACTION}.keep-recent-tokens", "keepRecentTokens"),
        ("session.mainkey", "mainKey"),
        ("models.providers.a.api_key", "apiKey?, keys are written in camelCase"),
    ],
)
def test_an_unknown_key_names_the_nearest_valid_one(path: str, nearest: str) -> None:
    text = complaint_about(document_with(path, "x"))
    assert text == f"config.yaml: {path}: unknown key. Did you mean {nearest}".rstrip("?") + (
        "" if "camelCase" in nearest else "?"
    )


def test_an_unknown_key_unlike_any_other_lists_the_valid_ones() -> None:
    text = complaint_about({"zzz": 1})
    assert text.endswith("zzz: unknown key. Known keys: agents, memory, models, plugins, session")


class TestSeveralProblems:
    def test_all_are_in_one_error_the_first_on_the_first_line(self) -> None:
        lines = complaint_about(
            {"sesion": {}, "memory": {"citations": "x"}, "plugins": {"enabled": 5}}
        ).splitlines()
        assert lines[0].startswith("config.yaml: plugins.enabled: 5 is not allowed")
        assert lines[0].endswith("(3 problems)")
        assert [line.strip().split(":")[0] for line in lines[1:]] == ["memory.citations", "sesion"]
        assert "Did you mean session?" in lines[2]

    def test_no_more_than_twenty_are_listed(self) -> None:
        lines = complaint_about({"plugins": {"allow": [5] * 27}}).splitlines()
        assert len(lines) == 21
        assert lines[-1].strip() == "and 7 more"

    def test_long_and_unprintable_texts_are_cut_and_quoted(self) -> None:
        lines = complaint_about({"memory": {"citations": "a\n" * 5000}, "x\ny": 1}).splitlines()
        assert len(lines) == 2
        assert max(map(len, lines)) < 200
        assert r'"x\ny": unknown key' in lines[1]


class TestMemoryFlush:
    @pytest.mark.parametrize(("value", "enabled"), [(True, True), (False, False), ("off", False)])
    def test_a_boolean_sets_enabled_alone(self, value: object, enabled: bool) -> None:
        config = config_from(document_with(f"{COMPACTION}.memoryFlush", value), environ={})
        flush = config.agents.defaults.compaction.memory_flush
        assert flush.enabled is enabled
        assert flush.soft_threshold_tokens == 4000

    @pytest.mark.parametrize(("value", "size"), [("2mb", 2_097_152), (0, 0), ("1.5K", 1536)])
    def test_sizes_may_be_texts(self, value: object, size: int) -> None:
        path = f"{COMPACTION}.memoryFlush.forceFlushTranscriptBytes"
        assert loaded(path, value) == size


class TestSlots:
    @pytest.mark.parametrize("word", ["none", "None", " NONE "])
    def test_none_means_the_built_in_engine_and_no_memory(self, word: str) -> None:
        """C98: the word that users write for "the default" must not name a missing engine."""
        slots = config_from(
            {"plugins": {"slots": {"contextEngine": word, "memory": word}}}
        ).plugins.slots
        assert (slots.context_engine, slots.memory) == ("legacy", "none")


class TestAgents:
    def test_an_id_follows_the_grammar_of_session_keys(self) -> None:
        text = complaint_about({"agents": {"list": [{"id": "Main"}]}})
        assert 'agents.list[0].id: "Main" is not allowed' in text
        assert text.endswith("Did you mean main?")
        assert "agents.list[0].id" in complaint_about({"agents": {"list": [{"id": "a\n"}]}})

    def test_an_id_must_be_given(self) -> None:
        text = complaint_about({"agents": {"list": [{"default": True}]}})
        assert "agents.list[0].id: missing" in text

    def test_an_id_stands_once(self) -> None:
        text = complaint_about({"agents": {"list": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}})
        assert "agents.list[2].id" in text

    def test_one_agent_is_the_default(self) -> None:
        entries = [{"id": "a", "default": True}, {"id": "b", "default": True}]
        assert "agents.list[1].default" in complaint_about({"agents": {"list": entries}})


def test_a_file_with_everything_in_it(load: Callable[..., Config]) -> None:
    config = load(
        """
        agents:
          defaults:
            model: example/large
            compaction: {memoryFlush: {softThresholdTokens: 1000}}
          list: [{id: main}]
        models: {providers: {example: {headers: {X-Team: blue}, models: {large: {maxTokens: 9}}}}}
        plugins: {deny: [old], entries: {x: {enabled: no, hooks: {allowConversationAccess: true}}}}
        session: {durability: message}
        memory: {citations: off}
        """
    )
    assert config.agents.defaults.compaction.memory_flush.soft_threshold_tokens == 1000
    assert config.models.providers["example"].models["large"].max_tokens == 9
    assert config.plugins.deny == ("old",)
    assert config.plugins.entries["x"].enabled is False
    assert config.plugins.entries["x"].hooks.allow_conversation_access is True
    assert config.session.durability == "message"
    assert config.memory.citations == "off"
