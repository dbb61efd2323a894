"""Variables of the environment, and secrets that never show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from attrs import field, frozen, validators

from hermitcrab.config import Config, get_value, section_from, to_plain
from hermitcrab.config.keys import keys_of, shape_of
from hermitcrab.config.problems import is_secret_name
from hermitcrab.errors import ConfigError

Load = Callable[..., Config]
Complaint = Callable[..., str]

SECRET = "sk-7f3a9b2c5d"


def all_keys(cls: type) -> Iterator[tuple[type, Any]]:
    for key in keys_of(cls):
        yield cls, key
        shape = shape_of(key.type)
        while shape.item is not None and shape.kind != "section":
            shape = shape_of(shape.item)
        if shape.kind == "section":
            yield from all_keys(shape.item)


class TestVariables:
    def test_are_replaced_inside_texts(self, load: Load) -> None:
        config = load(
            "agents: {defaults: {workspace: '${BASE}/crab/${NAME}'}}", BASE="/a", NAME="b"
        )
        assert config.agents.defaults.workspace == "/a/crab/b"
        assert type(config.agents.defaults.workspace) is str

    def test_are_replaced_in_the_settings_of_plugins(self, load: Load) -> None:
        config = load("plugins: {entries: {x: {config: {a: ['${A}']}}}}", A="1")
        value = config.plugins.entries["x"].config["a"][0]
        assert value == "1"
        assert type(value) is str

    def test_are_not_replaced_twice(self, load: Load) -> None:
        assert load("session: {mainKey: '${A}'}", A="${B}", B="no").session.main_key == "${B}"

    def test_an_escaped_beginning_stays(self, load: Load) -> None:
        config = load("agents: {defaults: {systemPrompt: 'Write $${HOME}, $HOME or $5.'}}")
        assert config.agents.defaults.system_prompt == "Write ${HOME}, $HOME or $5."

    def test_that_are_not_set_are_named_with_their_path(self, complaint: Complaint) -> None:
        text = complaint("models: {providers: {a: {apiKey: '${NO_KEY}'}}}")
        assert "models.providers.a.apiKey: the environment variable NO_KEY is not set" in text
        assert "Set NO_KEY" in text

    @pytest.mark.parametrize("text", ["${NO-KEY}", "${}", "${open", "${1}"])
    def test_without_a_proper_name_are_an_error(self, complaint: Complaint, text: str) -> None:
        assert "has no name" in complaint(f"models: {{providers: {{a: {{apiKey: '{text}'}}}}}}")

    def test_may_be_numbers_and_booleans(self, load: Load) -> None:
        config = load(
            """
            agents: {defaults: {contextTokens: "${TOKENS}", compaction: {timeoutSeconds: "${SECONDS}"}}}
            plugins: {enabled: "${PLUGINS}"}
            """,
            TOKENS="32000",
            SECONDS="0.25",
            PLUGINS="false",
        )
        assert config.agents.defaults.context_tokens == 32_000
        assert config.agents.defaults.compaction.timeout_seconds == 0.25
        assert config.plugins.enabled is False

    @pytest.mark.parametrize("value", ["nan", "inf", "many", "", "9" * 5000])
    def test_that_are_no_numbers_are_refused_unseen(self, complaint: Complaint, value: str) -> None:
        text = complaint("models: {providers: {a: {timeoutSeconds: '${T}'}}}", T=value)
        assert 'timeoutSeconds: "${T}" is not allowed' in text

    def test_in_a_wrong_value_show_their_name_only(self, complaint: Complaint) -> None:
        text = complaint("agents: {defaults: {model: '${M}'}}", M=SECRET)
        assert '"${M}" is not allowed' in text
        assert SECRET not in text


class TestSecrets:
    @pytest.mark.parametrize(
        "document",
        [
            f"models: {{providers: {{a: {{apiKey: [{SECRET}]}}}}}}",
            f"models: {{providers: {{a: {{apiKey: {{x: {SECRET}}}}}}}}}",
            "models: {providers: {a: {apiKey: 73519246}}}",
            f"models: {{providers: {{a: {{headers: 'Bearer {SECRET}'}}}}}}",
            f"models: {{providers: {{a: {{headers: {{X: [{SECRET}]}}}}}}}}",
            f"models: {{providers: {{a: {SECRET}}}}}",
            f"models: {{providers: {{a: {{baseUrl: 'https://me:{SECRET}@host/v1'}}}}}}",
            f"models: {{providers: {{a: {{api_key: {SECRET}}}}}}}",
            f"models: {{providers: {{a: {{apiKey: !{SECRET}}}}}}}",
            f"models: {{providers: {{a: {{apiKey: *{SECRET}}}}}}}",
            f"models: {{providers: {{a: {{apiKey: '{SECRET}}}}}}}",
            f"models: {{providers: {{a: {{apiKey: {SECRET}: x}}}}}}",
        ],
    )
    def test_never_appear_in_messages(self, complaint: Complaint, document: str) -> None:
        text = complaint(document)
        assert SECRET not in text
        assert "73519246" not in text

    def test_that_a_plugin_repeats_in_its_own_message_are_struck_out(self) -> None:
        def refuse(instance: object, attribute: object, value: str) -> None:
            raise ValueError(f"cannot use {value}")

        @frozen
        class Settings:
            api_key: str = field(validator=refuse)

        with pytest.raises(ConfigError) as caught:
            section_from(Settings, {"apiKey": SECRET}, where="plugin x")
        assert str(caught.value) == "plugin x: not allowed: cannot use <hidden>"

    def test_are_masked_in_plain_data_and_absent_from_repr(self, load: Load) -> None:
        config = load(
            f"""
            models: {{providers: {{a: {{apiKey: {SECRET}, headers: {{X: {SECRET}}}}}, b: {{}}}}}}
            plugins: {{entries: {{x: {{config: {{embedding: {{apiKey: {SECRET}, model: m}}}}}}}}}}
            """
        )
        assert SECRET not in repr(config)
        assert SECRET not in str(to_plain(config))
        assert get_value(config, "models.providers.a.headers") == {"X": "***"}
        assert get_value(config, "models.providers.b.apiKey") is None
        assert get_value(config, "plugins.entries.x.config.embedding") == {
            "apiKey": "***",
            "model": "m",
        }
        assert config.models.providers["a"].api_key == SECRET

    def test_are_those_keys_whose_names_say_so(self) -> None:
        for cls, key in all_keys(Config):
            assert key.secret == is_secret_name(key.name), key.name
            if key.secret:
                assert attrs.fields_dict(cls)[key.attribute].repr is False

    @pytest.mark.parametrize("name", ["apiKey", "api_key", "botToken", "PASSWORD", "clientSecret"])
    def test_of_plugins_are_known_by_their_names(self, name: str) -> None:
        assert is_secret_name(name)

    @pytest.mark.parametrize(
        "name", ["reserveTokens", "mainKey", "keepCredentials", "tokens", "id"]
    )
    def test_are_not_seen_where_there_are_none(self, name: str) -> None:
        assert not is_secret_name(name)


class TestSettingsOfAPlugin:
    """What plugins validate ``plugins.entries.<id>.config`` with."""

    @frozen
    class Nested:
        max_results: int = field(default=3, validator=validators.gt(0))

    @frozen
    class Settings:
        db_path: str
        nested: TestSettingsOfAPlugin.Nested = field(factory=lambda: TestSettingsOfAPlugin.Nested())
        tags: list[str] = field(factory=list)

    def test_become_an_instance(self) -> None:
        settings = section_from(
            self.Settings, {"dbPath": "x", "nested": {"maxResults": 5}, "tags": ["a"]}, where="x"
        )
        assert settings == self.Settings("x", self.Nested(5), ["a"])

    def test_are_checked_as_strictly_as_our_own(self) -> None:
        path = "plugins.entries.x.config"
        document = {"nested": {"maxResults": 0}, "tags": "a", "dbpath": "x"}
        with pytest.raises(ConfigError) as caught:
            section_from(self.Settings, document, path=path, where="config.yaml")
        text = str(caught.value)
        assert f"{path}.dbPath: missing, and it must be given" in text
        assert f'{path}.tags: "a" is not allowed, expected a list' in text
        assert f"{path}.dbpath: unknown key. Did you mean dbPath?" in text
        assert f"{path}.nested: not allowed: " in text
