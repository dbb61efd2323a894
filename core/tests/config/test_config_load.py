"""Finding, reading and checking config.yaml."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermitcrab.config import Config, config_from, load_config, resolve_home
from hermitcrab.errors import ConfigError

Load = Callable[..., Config]


class TestTheHomeDirectory:
    def test_is_the_argument_first(self, tmp_path: Path) -> None:
        assert resolve_home(tmp_path, {"HERMITCRAB_HOME": "/elsewhere"}) == tmp_path

    def test_is_the_variable_second(self) -> None:
        assert resolve_home(environ={"HERMITCRAB_HOME": "/elsewhere"}) == Path("/elsewhere")

    @pytest.mark.parametrize("environ", [{}, {"HERMITCRAB_HOME": ""}])
    def test_is_in_the_users_home_otherwise(self, environ: dict[str, str]) -> None:
        assert resolve_home(environ=environ) == Path.home() / ".hermitcrab"

    def test_is_absolute(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        assert resolve_home("home", {}) == tmp_path / "home"

    def test_of_an_unknown_user_is_an_error(self) -> None:
        with pytest.raises(ConfigError, match="~"):
            resolve_home("~nobody-has-this-name/home", {})


class TestDefaults:
    def test_a_missing_file_means_defaults(self, tmp_path: Path) -> None:
        assert load_config(home=tmp_path, environ={}) == Config()

    def test_a_missing_home_means_defaults(self, tmp_path: Path) -> None:
        assert load_config(home=tmp_path / "nowhere", environ={}) == Config()

    @pytest.mark.parametrize("text", ["", "# nothing here\n", "---\n", "{}", "\ufeff", "agents:\n"])
    def test_an_empty_file_or_section_means_defaults(self, load: Load, text: str) -> None:
        assert load(text) == Config()

    def test_the_file_is_found_through_the_environment(self, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").write_text("session: {mainKey: home}")
        config = load_config(environ={"HERMITCRAB_HOME": str(tmp_path)})
        assert config.session.main_key == "home"

    def test_reserves_and_limits_are_those_of_the_design(self) -> None:
        defaults = Config().agents.defaults
        compaction = defaults.compaction
        assert (compaction.reserve_tokens, compaction.reserve_tokens_floor) == (16_384, 20_000)
        assert compaction.memory_flush.force_flush_transcript_bytes == 2_097_152
        assert compaction.mid_turn_precheck.enabled
        assert (defaults.bootstrap_max_chars, defaults.bootstrap_total_max_chars) == (
            20_000,
            60_000,
        )


class TestAFileThatCannotBeRead:
    def test_an_explicit_path_that_is_missing_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="there is no such file") as caught:
            load_config(tmp_path / "other.yaml", environ={})
        assert caught.value.where == str(tmp_path / "other.yaml")

    def test_a_link_that_leads_nowhere_is_not_a_missing_file(self, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").symlink_to(tmp_path / "gone.yaml")
        with pytest.raises(ConfigError, match="no such file"):
            load_config(home=tmp_path, environ={})

    def test_a_directory(self, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").mkdir()
        with pytest.raises(ConfigError, match="a directory, not a file"):
            load_config(home=tmp_path, environ={})

    def test_a_home_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "home").write_text("")
        with pytest.raises(ConfigError, match="cannot be read: Not a directory"):
            load_config(home=tmp_path / "home", environ={})

    def test_no_permission(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(self: Path, mode: str) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
        with pytest.raises(ConfigError, match=r"config\.yaml: cannot be read: Permission denied"):
            load_config(home=tmp_path, environ={})

    def test_text_that_is_not_utf_8_names_the_line(self, complaint: Callable[..., str]) -> None:
        text = complaint("session:\n  mainKey: Jürgen\n".encode("latin-1"))
        assert "not UTF-8 text at line 2" in text

    def test_a_binary_file(self, complaint: Callable[..., str]) -> None:
        assert "not YAML: " in complaint(b"agents\0\x01")

    def test_a_file_too_large_to_be_a_configuration(self, complaint: Callable[..., str]) -> None:
        assert "larger than 1 MiB" in complaint(b"#" * (1024 * 1024 + 1))


class TestYaml:
    def test_a_syntax_error_names_line_and_column(self, complaint: Callable[..., str]) -> None:
        assert "not YAML at line 2, column 13:" in complaint("session:\n  mainKey: a: b\n")

    def test_two_documents_are_an_error(self, complaint: Callable[..., str]) -> None:
        assert "not YAML at line 2" in complaint("a: 1\n---\nb: 2\n")

    @pytest.mark.parametrize("text", ["- 1", "text", "12", "true"])
    def test_a_document_that_is_no_mapping(self, complaint: Callable[..., str], text: str) -> None:
        assert "not a mapping" in complaint(text)

    def test_a_key_that_stands_twice_names_its_line(self, complaint: Callable[..., str]) -> None:
        text = complaint("session:\n  mainKey: a\n  dmScope: main\n  mainKey: b\n")
        assert "line 4, column 3: the key 'mainKey' stands here twice" in text

    def test_merge_keys_may_be_overridden(self, load: Load) -> None:
        config = load(
            """
            models:
              providers:
                one: &one {baseUrl: "https://one.example/v1", maxRetries: 1}
                two: &two {<<: *one, maxRetries: 2}
                three: {<<: *two, baseUrl: "https://three.example/v1"}
            """
        )
        three = config.models.providers["three"]
        assert (three.base_url, three.max_retries) == ("https://three.example/v1", 2)

    @pytest.mark.parametrize("key", ["5", "true", "null", "1.5"])
    def test_keys_are_text(self, complaint: Callable[..., str], key: str) -> None:
        text = complaint(f"session:\n  identityLinks:\n    {key}: [a]\n")
        assert f"session.identityLinks.{key}: the key {key} is not allowed" in text
        assert "quotes" in text

    def test_keys_that_are_no_scalars(self, complaint: Callable[..., str]) -> None:
        assert "not YAML at line 1" in complaint("{[1, 2]: 3}")

    @pytest.mark.parametrize(
        "value", ["!!python/object/apply:os.getcwd []", "!!set {a}", "!!timestamp x", "!!int x"]
    )
    def test_only_plain_values_are_read(self, complaint: Callable[..., str], value: str) -> None:
        assert "not YAML at line 1" in complaint(f"agents: {value}")

    @pytest.mark.parametrize("value", [".nan", ".inf", "-.INF", "1e999"])
    def test_numbers_are_finite(self, complaint: Callable[..., str], value: str) -> None:
        text = complaint(f"plugins: {{entries: {{a: {{config: {{deep: [{value}]}}}}}}}}")
        assert "plugins.entries.a.config.deep[0]" in text
        assert "expected a finite number" in text

    def test_a_structure_that_contains_itself(self, complaint: Callable[..., str]) -> None:
        assert "too deeply nested" in complaint("plugins: &a {entries: *a}")

    def test_aliases_that_multiply(self, complaint: Callable[..., str]) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        for level in range(1, 12):
            lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
        assert "too large" in complaint("\n".join(lines))

    def test_nesting_without_end(self, complaint: Callable[..., str]) -> None:
        assert "nested" in complaint("[" * 5000)

    def test_a_number_of_absurd_length(self, complaint: Callable[..., str]) -> None:
        assert "not YAML at line 1" in complaint(f"agents: {'9' * 5000}")
        assert "a huge number is not allowed" in complaint(f"agents: {'9' * 4000}")

    def test_json_is_yaml(self, load: Load) -> None:
        assert load(r'{"session": {"mainKey": "\ud83e\udd80"}}').session.main_key == "🦀"

    def test_text_that_is_no_unicode(self, complaint: Callable[..., str]) -> None:
        text = complaint(r'session: {mainKey: "\uD800"}')
        assert "session.mainKey: contains characters" in text


class TestYaml11Traps:
    @pytest.mark.parametrize("word", ["on", "off", "auto"])
    def test_on_and_off_are_words_where_words_belong(self, load: Load, word: str) -> None:
        assert load(f"memory: {{citations: {word}}}").memory.citations == word

    def test_booleans_of_another_reader_stand_for_on_and_off(self) -> None:
        config = config_from({"memory": {"citations": True}}, environ={})
        assert config.memory.citations == "on"

    @pytest.mark.parametrize(
        ("word", "meaning"),
        [("yes", True), ("on", True), ("True", True), ("no", False), ("OFF", False)],
    )
    def test_yes_and_no_are_booleans_where_booleans_belong(
        self, load: Load, word: str, meaning: bool
    ) -> None:
        assert load(f"plugins: {{enabled: {word}}}").plugins.enabled is meaning

    @pytest.mark.parametrize("text", ["no", "12:30", "2026-01-31", "010", "1_", "0x1F", "="])
    def test_text_that_looks_like_something_else_stays_text(self, load: Load, text: str) -> None:
        assert load(f"session: {{mainKey: {text}}}").session.main_key == text

    def test_underscores_in_numbers(self, load: Load) -> None:
        assert load("agents: {defaults: {contextTokens: 32_000}}") == load(
            "agents: {defaults: {contextTokens: 32000}}"
        )


def test_importing_the_room_loads_neither_yaml_nor_cattrs() -> None:
    code = "import sys, hermitcrab.config; print(*{'yaml', 'cattrs', 'httpx'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
