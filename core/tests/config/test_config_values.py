"""Asking a configuration: agents, single values, plain data."""

from __future__ import annotations

import json

import pytest

from hermitcrab.config import (
    Config,
    agent_settings,
    config_from,
    default_agent_id,
    get_value,
    to_plain,
)
from hermitcrab.errors import ConfigError


class TestAgentSettings:
    CONFIG = config_from(
        {
            "agents": {
                "defaults": {"model": "a/large", "userTimezone": "UTC", "maxToolRounds": 7},
                "list": [
                    {"id": "main"},
                    {
                        "id": "research",
                        "model": "b/small",
                        "contextTokens": 9000,
                        "systemPrompt": "",
                    },
                ],
            }
        },
        environ={},
    )

    def test_an_entry_overrides_what_it_names_and_inherits_the_rest(self) -> None:
        settings = agent_settings(self.CONFIG, "research")
        assert settings.agent_id == "research"
        assert (settings.model, settings.context_tokens) == ("b/small", 9000)
        assert (settings.user_timezone, settings.max_tool_rounds) == ("UTC", 7)
        assert settings.system_prompt == ""
        assert settings.compaction == self.CONFIG.agents.defaults.compaction

    @pytest.mark.parametrize("agent_id", ["main", "unheard-of"])
    def test_other_agents_have_the_defaults(self, agent_id: str) -> None:
        settings = agent_settings(self.CONFIG, agent_id)
        assert (settings.model, settings.context_tokens) == ("a/large", None)

    @pytest.mark.parametrize(
        ("entries", "default"),
        [
            ([], "main"),
            ([{"id": "a"}, {"id": "b"}], "a"),
            ([{"id": "a"}, {"id": "b", "default": True}], "b"),
        ],
    )
    def test_the_default_agent_is_flagged_or_first_or_main(
        self, entries: list[dict[str, object]], default: str
    ) -> None:
        assert default_agent_id(config_from({"agents": {"list": entries}})) == default


class TestPlainData:
    def test_is_json_with_the_keys_of_yaml(self) -> None:
        plain = to_plain(Config())
        assert json.loads(json.dumps(plain)) == plain
        assert plain["agents"]["defaults"]["compaction"]["memoryFlush"]["enabled"] is True

    def test_loads_again_as_the_same_configuration(self) -> None:
        assert config_from(to_plain(Config()), environ={}) == Config()
        config = TestAgentSettings.CONFIG
        assert config_from(to_plain(config), environ={}) == config


class TestGetValue:
    CONFIG = config_from(
        {
            "agents": {"list": [{"id": "a"}, {"id": "b"}]},
            "models": {"providers": {"x": {"models": {"m": {}, "m.1": {"maxTokens": 5}}}}},
        },
        environ={},
    )

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("agents.defaults.compaction.reserveTokens", 16_384),
            ("agents.defaults.compaction.timeoutSeconds", 180),
            ("agents.defaults.model", None),
            ("agents.list[1].id", "b"),
            ("agents.list.1.id", "b"),
            ("models.providers.x.models.m.1.maxTokens", 5),
            ("models.providers.x.models.m.maxTokens", None),
            ("plugins.slots", {"contextEngine": "legacy", "memory": "memory-core"}),
        ],
    )
    def test_values_are_found(self, path: str, value: object) -> None:
        assert get_value(self.CONFIG, path) == value

    def test_no_path_is_everything(self) -> None:
        assert get_value(self.CONFIG, "") == to_plain(self.CONFIG)

    @pytest.mark.parametrize(
        ("path", "hint"),
        [
            ("agents.defaults.compaction.reserve_tokens", "compaction.reserveTokens?"),
            ("agents.default.model", "Did you mean agents.defaults?"),
            ("sesion", "Did you mean session?"),
            ("models.providers.y", None),
            ("agents.list[2].id", None),
            ("agents.defaults.model.name", None),
        ],
    )
    def test_a_path_to_nothing_names_the_nearest(self, path: str, hint: str | None) -> None:
        with pytest.raises(ConfigError, match="there is nothing at") as caught:
            get_value(self.CONFIG, path)
        if hint is not None:
            assert hint in str(caught.value)
